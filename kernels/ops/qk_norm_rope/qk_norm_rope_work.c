/* QK-norm and RoPE: work. Per q and k element: norm 4 and rotation 3 forward; rotation 3, norm 9 backward. */
#include "kernels/ops/op_decls.h"
#include "kernels/ops/qk_norm_rope/qk_norm_rope.h"
#include "kernels/ops/work.h"

static double rotated(const mk_qk_shape *shape, int64_t tokens) {
  return (double)tokens * (double)((shape->heads + shape->kv_heads) * shape->head_dim);
}

mk_work mk_qk_norm_rope_fwd_work(const void *args, int64_t rows) {
  const mk_qk_norm_rope_fwd_args *a = args;
  (void)rows;
  double per_element = a->norm == MK_QK_NORM_NONE ? 3 : 7;
  double moved = mk_work_bytes(&a->qkv) + mk_work_bytes(&a->out) + mk_work_bytes(&a->rstd) + mk_work_bytes(&a->rope);
  return (mk_work){.flops = per_element * rotated(&a->shape, a->qkv.dim[0]), .bytes = moved};
}

mk_work mk_qk_norm_rope_bwd_work(const void *args, int64_t rows) {
  const mk_qk_norm_rope_bwd_args *a = args;
  (void)rows;
  double per_element = a->norm == MK_QK_NORM_NONE ? 3 : 12;
  double moved = mk_work_bytes(&a->dout) + mk_work_bytes(&a->qkv) + mk_work_bytes(&a->dqkv);
  moved += mk_work_bytes(&a->rstd) + mk_work_bytes(&a->rope);
  return (mk_work){.flops = per_element * rotated(&a->shape, a->qkv.dim[0]), .bytes = moved};
}
