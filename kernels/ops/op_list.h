/* Every op, once. Adding one: a folder kernels/ops/<op>/, a line here, a case row in tests/kernels/. The tables of the
 * backends and of the work functions are made from this list, so a missing function fails the link. */
#ifndef KERNELS_OPS_OP_LIST_H
#define KERNELS_OPS_OP_LIST_H

/* clang-format off */
#define MK_OP_LIST(X) \
  X(embedding_fwd) X(embedding_bwd) \
  X(rmsnorm_fwd) X(rmsnorm_bwd) \
  X(linear_pack) X(linear_fwd) X(linear_dgrad) X(linear_wgrad) \
  X(grouped_gemm_fwd) X(grouped_gemm_dgrad) X(grouped_gemm_wgrad) \
  X(mxfp8_quantize) X(mxfp8_dequantize) X(mxfp8_linear) X(mxfp8_grouped) \
  X(qk_norm_rope_fwd) X(qk_norm_rope_bwd) \
  X(attention_fwd) X(attention_bwd) \
  X(swiglu_fwd) X(swiglu_bwd) \
  X(row_scale_fwd) X(row_scale_bwd) \
  X(router_fwd) X(router_bwd) \
  X(route_count) X(route_map) \
  X(permute_fwd) X(permute_bwd) \
  X(row_put) X(row_get) X(row_sum) \
  X(combine_fwd) X(combine_bwd) \
  X(load_balance_stats) X(load_balance_loss) \
  X(cross_entropy) \
  X(adamw) X(squared_norm) X(cast) X(scale) X(add) X(param_init) \
  X(step_begin) X(step_clip) X(step_record)

typedef enum mk_op_id {
#define X(name) MK_OP_##name,
  MK_OP_LIST(X)
#undef X
  MK_OP_COUNT
} mk_op_id;
/* clang-format on */

#endif
