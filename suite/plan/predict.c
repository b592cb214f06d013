/* Bound-based prediction of token/s on one machine whose ranks share all cores and one memory.
 *
 * Every op of a microbatch is charged max(flops / measured GEMM peak, bytes / measured memory bandwidth) from its work
 * formula (kernels/ops/<op>/<op>_work.c), ops that recompute repeats (model/recompute.h) once more, summed over layers,
 * microbatches and ranks; then the optimizer and the communication of a step. A byte on the wire is a copy: one read
 * and one write. No constant is fitted, caches, launch cost and waits of a pipeline are left out, so the result is a
 * bound and a run is slower by what the implementation loses; ratios of two predictions cancel most of that. */
#include <math.h>

#include "suite/models/counts.h"
#include "suite/plan/plan.h"
#include "trainer/model/recompute.h"
#include "trainer/parallel/pp_layout.h"

typedef struct bound {
  const mt_config *cfg;
  double peak_flops, bandwidth;
  mk_dtype dtype;
  double layers;  /* of the kind being charged: dense or MoE */
  unsigned again; /* parts of their forward pass that are made twice */
  double seconds;
} bound;

/* How often the layers' forward pass makes a part. */
static double forwards(const bound *b, mt_part part) { return b->layers * ((b->again & (unsigned)part) != 0 ? 2 : 1); }

static void charge(bound *b, mk_op_id op, const void *args, double calls) {
  mk_work work = mk_op_work(op, args, -1);
  b->seconds += calls * fmax(work.flops / b->peak_flops, work.bytes / b->bandwidth);
}

static mk_tensor rows_of(const bound *b, int64_t rows, int64_t width) { return mk_tensor_2d(b->dtype, rows, width); }

/* Forward, data gradient and weight gradient of one linear layer [n,k] over `rows` rows. */
static void charge_linear(bound *b, int64_t rows, int64_t n, int64_t k, double forward, double backward) {
  mk_tensor x = rows_of(b, rows, k), y = rows_of(b, rows, n), w = rows_of(b, n, k), dw = mk_tensor_2d(MK_F32, n, k);
  charge(b, MK_OP_linear_fwd, &(mk_linear_fwd_args){.x = x, .w = w, .y = y}, forward);
  charge(b, MK_OP_linear_dgrad, &(mk_linear_dgrad_args){.dy = y, .w = w, .dx = x}, backward);
  charge(b, MK_OP_linear_wgrad, &(mk_linear_wgrad_args){.dy = y, .x = x, .dw = dw}, backward);
}

/* The same over `groups` experts of `rows` rows together. */
static void charge_grouped(bound *b, int64_t groups, int64_t rows, int64_t n, int64_t k, mt_part part) {
  mk_tensor x = rows_of(b, rows, k), y = rows_of(b, rows, n), offsets = mk_tensor_1d(MK_I32, groups + 1);
  mk_tensor w = mk_tensor_3d(b->dtype, groups, n, k), dw = mk_tensor_3d(MK_F32, groups, n, k);
  charge(b, MK_OP_grouped_gemm_fwd, &(mk_grouped_gemm_fwd_args){.x = x, .w = w, .offsets = offsets, .y = y},
         forwards(b, part));
  charge(b, MK_OP_grouped_gemm_dgrad, &(mk_grouped_gemm_dgrad_args){.dy = y, .w = w, .offsets = offsets, .dx = x},
         b->layers);
  charge(b, MK_OP_grouped_gemm_wgrad, &(mk_grouped_gemm_wgrad_args){.dy = y, .x = x, .offsets = offsets, .dw = dw},
         b->layers);
}

static void charge_norm(bound *b, int64_t rows, int64_t width, double forward, double backward) {
  mk_tensor x = rows_of(b, rows, width), gain = mk_tensor_1d(b->dtype, width), rstd = mk_tensor_1d(MK_F32, rows);
  mk_tensor dgain = mk_tensor_1d(MK_F32, width);
  charge(b, MK_OP_rmsnorm_fwd, &(mk_rmsnorm_fwd_args){.x = x, .add = x, .gain = gain, .y = x, .rstd = rstd}, forward);
  charge(b, MK_OP_rmsnorm_bwd,
         &(mk_rmsnorm_bwd_args){.dy = x, .x = x, .gain = gain, .rstd = rstd, .dx = x, .dgain = dgain}, backward);
}

static void charge_swiglu(bound *b, int64_t rows, int64_t hidden, mt_part part) {
  mk_tensor x = rows_of(b, rows, 2 * hidden), y = rows_of(b, rows, hidden);
  charge(b, MK_OP_swiglu_fwd, &(mk_swiglu_fwd_args){.x = x, .y = y}, forwards(b, part));
  charge(b, MK_OP_swiglu_bwd, &(mk_swiglu_bwd_args){.dy = y, .x = x, .dx = x}, b->layers);
}

static void charge_attention(bound *b) {
  const mt_config *c = b->cfg;
  int64_t t = c->rank_tokens, heads = c->heads * c->head_dim, width = heads + 2 * c->kv_heads * c->head_dim;
  mk_qk_shape shape = {.heads = c->heads, .kv_heads = c->kv_heads, .head_dim = c->head_dim, .seq_len = c->seq_len};
  mk_tensor qkv = rows_of(b, t, width), o = rows_of(b, t, heads), lse = mk_tensor_2d(MK_F32, c->heads, t);
  mk_tensor rstd = mk_tensor_2d(MK_F32, t, c->heads + c->kv_heads),
            rope = mk_tensor_2d(MK_F32, c->seq_len, c->head_dim);
  mk_tensor gain = mk_tensor_1d(b->dtype, c->head_dim), dgain = mk_tensor_1d(MK_F32, c->head_dim);
  charge_linear(b, t, width, c->d_model, forwards(b, MT_PART_QKV), b->layers);
  charge_linear(b, t, c->d_model, heads, forwards(b, MT_PART_ATTN_OUT), b->layers);
  charge(b, MK_OP_qk_norm_rope_fwd,
         &(mk_qk_norm_rope_fwd_args){.qkv = qkv,
                                     .q_gain = gain,
                                     .k_gain = gain,
                                     .rope = rope,
                                     .out = qkv,
                                     .rstd = rstd,
                                     .shape = shape,
                                     .norm = c->qk_norm},
         forwards(b, MT_PART_QKR));
  charge(b, MK_OP_qk_norm_rope_bwd,
         &(mk_qk_norm_rope_bwd_args){.dout = qkv,
                                     .qkv = qkv,
                                     .q_gain = gain,
                                     .k_gain = gain,
                                     .rope = rope,
                                     .rstd = rstd,
                                     .dqkv = qkv,
                                     .dq_gain = dgain,
                                     .dk_gain = dgain,
                                     .shape = shape,
                                     .norm = c->qk_norm},
         b->layers);
  charge(b, MK_OP_attention_fwd, &(mk_attention_fwd_args){.qkv = qkv, .o = o, .lse = lse, .shape = shape},
         forwards(b, MT_PART_ATTENTION));
  charge(b, MK_OP_attention_bwd,
         &(mk_attention_bwd_args){.d_o = o, .qkv = qkv, .o = o, .lse = lse, .dqkv = qkv, .shape = shape}, b->layers);
}

/* Weights at the source, or inside the experts (made twice) with a plain sum of what comes back. */
static void charge_weights(bound *b, const mk_tensor *x, const mk_tensor *rows, const mk_tensor *map,
                           const mk_tensor *weights) {
  const mt_config *c = b->cfg;
  if (c->ep_transport == MT_EP_DEEPEP_V2) {
    mk_tensor h = rows_of(b, rows->dim[0], c->expert_hidden);
    charge(b, MK_OP_row_scale_fwd, &(mk_row_scale_fwd_args){.x = h, .w = *weights, .y = h},
           forwards(b, MT_PART_DOWN) + b->layers);
    charge(b, MK_OP_row_scale_bwd, &(mk_row_scale_bwd_args){.dy = h, .x = h, .w = *weights, .dx = h, .dw = *weights},
           b->layers);
    charge(b, MK_OP_permute_bwd, &(mk_permute_bwd_args){.dout = *rows, .map = *map, .dx = *x},
           forwards(b, MT_PART_MLP_OUT));
    return;
  }
  charge(b, MK_OP_combine_fwd, &(mk_combine_fwd_args){.rows = *rows, .map = *map, .weights = *weights, .y = *x},
         forwards(b, MT_PART_MLP_OUT));
  charge(b, MK_OP_combine_bwd,
         &(mk_combine_bwd_args){
             .dy = *x, .rows = *rows, .map = *map, .weights = *weights, .drows = *rows, .dweights = *weights},
         b->layers);
}

/* Router, permute, experts on balanced rows, combine. */
static void charge_routed(bound *b) {
  const mt_config *c = b->cfg;
  int64_t t = c->rank_tokens, routes = t * c->top_k, d = c->d_model, local = c->experts / mt_config_ep(c);
  mk_tensor x = rows_of(b, t, d), rows = rows_of(b, routes, d), map = mk_tensor_2d(MK_I32, t, c->top_k);
  mk_tensor scores = mk_tensor_2d(MK_F32, t, c->experts), weights = mk_tensor_2d(MK_F32, t, c->top_k);
  mk_tensor lse = mk_tensor_1d(MK_F32, t);
  charge_linear(b, t, c->experts, d, forwards(b, MT_PART_SCORES), b->layers);
  charge(b, MK_OP_router_fwd,
         &(mk_router_fwd_args){.logits = scores, .scores = scores, .idx = map, .weights = weights, .lse = lse},
         forwards(b, MT_PART_SCORES));
  charge(b, MK_OP_router_bwd,
         &(mk_router_bwd_args){.logits = scores,
                               .scores = scores,
                               .idx = map,
                               .weights = weights,
                               .lse = lse,
                               .dweights = weights,
                               .dlogits = scores},
         b->layers);
  charge(b, MK_OP_permute_fwd, &(mk_permute_fwd_args){.x = x, .map = map, .out = rows}, forwards(b, MT_PART_ROWS));
  charge(b, MK_OP_permute_bwd, &(mk_permute_bwd_args){.dout = rows, .map = map, .dx = x}, b->layers);
  charge_grouped(b, local, routes, 2 * c->expert_hidden, d, MT_PART_UP_GATE);
  charge_grouped(b, local, routes, d, c->expert_hidden, MT_PART_DOWN);
  charge_swiglu(b, routes, c->expert_hidden, MT_PART_ACT);
  charge_weights(b, &x, &rows, &map, &weights);
}

/* The shared expert or the dense MLP. */
static void charge_mlp(bound *b, int64_t hidden) {
  if (hidden == 0) return;
  charge_linear(b, b->cfg->rank_tokens, 2 * hidden, b->cfg->d_model, forwards(b, MT_PART_SHARED_UP_GATE), b->layers);
  charge_linear(b, b->cfg->rank_tokens, b->cfg->d_model, hidden, forwards(b, MT_PART_MLP_OUT), b->layers);
  charge_swiglu(b, b->cfg->rank_tokens, hidden, MT_PART_SHARED_ACT);
}

static void charge_ends(bound *b) {
  const mt_config *c = b->cfg;
  int64_t t = c->rank_tokens;
  mk_tensor ids = mk_tensor_1d(MK_I32, t), y = rows_of(b, t, c->d_model), logits = rows_of(b, t, c->vocab);
  mk_tensor losses = mk_tensor_2d(MK_F32, 2, t);
  mk_tensor table = rows_of(b, c->vocab, c->d_model), dtable = mk_tensor_2d(MK_F32, c->vocab, c->d_model);
  charge(b, MK_OP_embedding_fwd, &(mk_embedding_fwd_args){.ids = ids, .table = table, .y = y}, 1);
  charge(b, MK_OP_embedding_bwd, &(mk_embedding_bwd_args){.ids = ids, .dy = y, .dtable = dtable}, 1);
  double norms = 1 + (c->embed_norm ? 1 : 0);
  charge_norm(b, t, c->d_model, norms, norms);
  charge_linear(b, t, c->vocab, c->d_model, 1, 1);
  charge(b, MK_OP_cross_entropy,
         &(mk_cross_entropy_args){.logits = logits, .labels = ids, .losses = losses, .with_grad = 1}, 1);
}

static void charge_bytes(bound *b, double bytes) { b->seconds += bytes / b->bandwidth; }

/* Rows of routed experts that travel, there and back in both directions of the pass, to the (ep - 1) of ep other
 * ranks. */
static void charge_exchange(bound *b) {
  const mt_config *c = b->cfg;
  double ep = (double)mt_config_ep(c), routes = (double)(c->rank_tokens * c->top_k);
  double row = (double)c->d_model * (double)mk_dtype_bytes(b->dtype);
  double ways = forwards(b, MT_PART_ROWS) + forwards(b, MT_PART_DOWN) + 2 * b->layers;
  charge_bytes(b, 2 * ways * routes * row * (ep - 1) / ep);
}

static bool shards_optimizer(const mt_config *c) { return c->shard == MT_SHARD_DIST_OPT || c->shard == MT_SHARD_FSDP; }

/* Norm and AdamW of n parameters held by `copies` ranks; sharded, each element is updated once. */
static void charge_optimizer(bound *b, int64_t n, double copies) {
  mk_tensor f = mk_tensor_1d(MK_F32, n), w = mk_tensor_1d(b->dtype, n);
  double updates = shards_optimizer(b->cfg) ? 1 : copies;
  charge(b, MK_OP_squared_norm, &(mk_squared_norm_args){.x = f}, updates);
  charge(b, MK_OP_adamw, &(mk_adamw_args){.grad = f, .main = f, .m = f, .v = f, .compute = w, .clear_grad = 1},
         updates);
}

/* Gradients are reduced in FP32 (a ring moves 2 (copies - 1) times the data over all ranks); sharded weights are
 * gathered in the compute dtype. */
static void charge_reduction(bound *b, int64_t n, double copies) {
  if (b->cfg->shard == MT_SHARD_FSDP) return;
  charge_bytes(b, 2 * 2 * (copies - 1) * (double)n * 4);
  if (shards_optimizer(b->cfg)) charge_bytes(b, 2 * (copies - 1) * (double)n * (double)mk_dtype_bytes(b->dtype));
}

/* FSDP: a gather brings the weights of a copy to its other ranks, a reduce-scatter their gradients to the owners; how
 * often in a step, see trainer/parallel/fsdp.c; kept to the backward pass, at least once where forward passes overlap.
 * `ends`: embedding and head, gathered once a microbatch. Hybrid: each copy for itself, then a sum over the copies. */
static void charge_sharded(bound *b, int64_t n, int64_t ends, double group) {
  const mt_config *c = b->cfg;
  if (c->shard != MT_SHARD_FSDP) return;
  double copies = c->fsdp_shard_ranks == 0 ? 1 : (double)mt_config_dp(c) / (double)c->fsdp_shard_ranks;
  double m = (double)mt_config_microbatches(c), all = (double)(n + ends);
  bool in_turn = c->pp == 1 && c->pp_schedule == MT_PP_1F1B;
  double gathers = c->fsdp_reshard == MT_RESHARD_AFTER_FORWARD ? 2 * m
                   : c->fsdp_reshard == MT_KEEP_TO_BACKWARD    ? (in_turn ? m : 1)
                                                               : m + 1;
  double bytes = (gathers * (double)n + m * (double)ends) * (double)mk_dtype_bytes(b->dtype);
  bytes += (c->fsdp_reduce == MT_FSDP_REDUCE_EACH ? m : 1) * all * 4;
  charge_bytes(b, 2 * copies * (group / copies - 1) * bytes + 2 * 2 * (copies - 1) * all * 4);
}

static void charge_norms(bound *b) {
  static const mt_part before[] = {MT_PART_ATTN_IN, MT_PART_MLP_IN}, after[] = {MT_PART_X_MID, MT_PART_X_OUT};
  const mt_config *c = b->cfg;
  for (int i = 0; i < 2; i++) {
    if (mt_norm_before(c)) charge_norm(b, c->rank_tokens, c->d_model, forwards(b, before[i]), b->layers);
    if (mt_norm_after(c)) charge_norm(b, c->rank_tokens, c->d_model, forwards(b, after[i]), b->layers);
  }
}

static void charge_layers(bound *b, bool dense) {
  const mt_config *c = b->cfg;
  b->layers = (double)(dense ? c->dense_layers : mt_config_moe_layers(c));
  b->again = mt_parts_again(c, dense);
  if (b->layers == 0) return;
  charge_norms(b);
  charge_attention(b);
  charge_mlp(b, dense ? c->dense_hidden : c->shared_hidden);
  if (dense) return;
  charge_routed(b);
  charge_exchange(b);
}

/* The stream and its gradient, from stage to stage where they lie on different ranks. */
static void charge_stages(bound *b) {
  const mt_config *c = b->cfg;
  mt_pp_shape shape = mt_pp_shape_of(c);
  double crossings = 0;
  for (int s = 1; s < mt_pp_stages(&shape); s++)
    crossings += mt_pp_rank_of(&shape, s) != mt_pp_rank_of(&shape, s - 1);
  charge_bytes(b, 2 * 2 * crossings * (double)(c->rank_tokens * c->d_model) * (double)mk_dtype_bytes(b->dtype));
}

static void charge_microbatch(bound *b) {
  charge_ends(b);
  charge_layers(b, true);
  charge_layers(b, false);
  charge_stages(b);
}

/* Seconds of a step; *optimizer is the part of the update without communication. NaN when a rate is missing. */
static double step_seconds(const mt_config *cfg, const ms_machine_rates *rates, double *optimizer) {
  bool bf16 = cfg->precision == MT_BF16;
  double peak = bf16 ? rates->gemm_bf16_flops : cfg->precision == MT_FP32 ? rates->gemm_fp32_flops : 0;
  *optimizer = NAN;
  if (!(peak > 0) || !(rates->bandwidth_bytes_per_s > 0)) return NAN;
  bound b = {
      .cfg = cfg, .peak_flops = peak, .bandwidth = rates->bandwidth_bytes_per_s, .dtype = bf16 ? MK_BF16 : MK_F32};
  ms_model_parts parts = ms_count_parts(cfg);
  double dp = (double)mt_config_dp(cfg);
  charge_microbatch(&b);
  b.seconds *= (double)mt_config_microbatches(cfg) * dp; /* the ranks of a pipeline share a microbatch */
  double before = b.seconds;
  charge_optimizer(&b, ms_count_params_total(cfg, true) - parts.routed_all, dp);
  charge_optimizer(&b, parts.routed_all, dp / (double)mt_config_ep(cfg));
  *optimizer = b.seconds - before;
  int64_t dense = ms_count_params_total(cfg, true) - parts.routed_all, ends = parts.embedding + parts.head;
  charge_reduction(&b, dense, dp);
  charge_reduction(&b, parts.routed_all, dp / (double)mt_config_ep(cfg));
  charge_sharded(&b, dense - ends, ends, dp);
  charge_sharded(&b, parts.routed_all, 0, dp / (double)mt_config_ep(cfg));
  return b.seconds;
}

double ms_predict_tok_s(const mt_config *cfg, const ms_machine_rates *rates) {
  double optimizer = 0;
  return (double)cfg->global_tokens / step_seconds(cfg, rates, &optimizer);
}

double ms_predict_optimizer_share(const mt_config *cfg, const ms_machine_rates *rates) {
  double optimizer = 0;
  double seconds = step_seconds(cfg, rates, &optimizer);
  return optimizer / seconds;
}
