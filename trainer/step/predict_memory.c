/* Memory by formula: see predict.h. The bytes of a layer are summed part by part (model/recompute.h) from the inventory
 * of a block: block input and normed input, q|k|v before and after norm and RoPE, attention output, residual, received
 * rows, up|gate, SwiGLU, expert output, shared expert; statistics in FP32. */
#include "kernels/base/min_max.h"
#include "trainer/model/recompute.h"
#include "trainer/optim/optim.h"
#include "trainer/step/predict.h"

enum { ALIGN = MK_ARENA_ALIGN_BYTES };

/* What the formulas are made of. */
typedef struct sizes {
  const mt_config *cfg;
  const mt_ep *ep;
  int64_t c, f;       /* bytes of a compute and of a master value */
  int64_t t, n;       /* tokens; rows reserved for the local experts */
  int64_t d, q, o;    /* widths: model, q|k|v, output of the heads */
  int64_t dense, moe; /* layers of this rank */
  const mt_pp *pp;
  int64_t sets;      /* chunks live at once */
  int64_t chunk_moe; /* most MoE layers of a chunk */
  bool predicts;     /* this rank has the head */
} sizes;

/* [T,width] in the compute dtype; per_token values of statistics; `tensors` starts. */
static int64_t per_token(const sizes *z, int64_t width, int64_t statistics, int tensors) {
  return z->t * (width * z->c + statistics * z->f) + tensors * ALIGN;
}

/* Activations of one part of a layer. */
static int64_t part_bytes(const sizes *z, bool dense, mt_part part) {
  const mt_config *c = z->cfg;
  bool in = mt_norm_before(c), out = mt_norm_after(c);
  int64_t shared = dense ? c->dense_hidden : c->shared_hidden, hidden = c->expert_hidden;
  bool hybrid = c->norm == MT_NORM_HYBRID && !dense && shared > 0; /* the shared expert's output has a norm */
  switch (part) {
    case MT_PART_ATTN_IN:
    case MT_PART_MLP_IN:
      return in ? per_token(z, z->d, 1, 2) : 0;
    case MT_PART_QKV:
      return per_token(z, z->q, 0, 1);
    case MT_PART_QKR:
      return per_token(z, z->q, c->heads + c->kv_heads, 2);
    case MT_PART_ATTENTION:
      return per_token(z, z->o, c->heads, 2);
    case MT_PART_ATTN_OUT:
      return per_token(z, z->d, 0, 1);
    case MT_PART_MLP_OUT:
      return per_token(z, hybrid ? 2 * z->d : z->d, 0, 2);
    case MT_PART_X_MID:
      return per_token(z, z->d, out ? 1 : 0, 2);
    case MT_PART_X_OUT:
      return out ? per_token(z, 0, hybrid ? 2 : 1, 2) : 0;
    case MT_PART_SHARED_UP_GATE:
      return per_token(z, 2 * shared, 0, 1);
    case MT_PART_SHARED_ACT:
      return per_token(z, shared, 0, 1);
    case MT_PART_SCORES:
      return dense ? 0 : per_token(z, 0, 2 * c->experts + 1, 3);
    case MT_PART_ROUTES:
      return dense ? 0 : mt_ep_layer_memory(z->ep).activations;
    case MT_PART_ROWS:
      return dense ? 0 : mt_ep_rows_memory(z->ep).activations;
    case MT_PART_UP_GATE:
      return dense ? 0 : z->n * 2 * hidden * z->c + ALIGN;
    case MT_PART_ACT:
      return dense ? 0 : (mt_mxfp8_mlp(c) ? mk_mxfp8_bytes(z->n, hidden) : z->n * hidden * z->c) + 2 * ALIGN;
    case MT_PART_DOWN:
      return dense || !mt_mxfp8_mlp(c) || !z->ep->ops->weighs_rows ? 0 : z->n * z->d * z->c + ALIGN;
    default:
      return 0;
  }
}

static int64_t parts_bytes(const sizes *z, bool dense, unsigned parts) {
  int64_t bytes = 0;
  for (unsigned part = 1; part <= MT_PARTS_ALL; part <<= 1)
    bytes += (parts & part) != 0 ? part_bytes(z, dense, (mt_part)part) : 0;
  return bytes;
}

int64_t mt_predict_sets(const mt_pp *pp, int pp_rank) {
  bool listed = pp->step.shape.schedule == MT_PP_V; /* of v the formula is a bound only */
  return listed ? pp->step_list->sets : mt_pp_most_live(&pp->step.shape, pp_rank);
}

/* What one live chunk keeps; the dense layers are the model's first. */
typedef struct chunk_sizes {
  int64_t activations, comm, moe;
} chunk_sizes;

static chunk_sizes chunk_bytes(const sizes *z, const mt_pp_stage *stage) {
  unsigned kept[2] = {MT_PARTS_ALL & ~mt_parts_shared(z->cfg, false), MT_PARTS_ALL & ~mt_parts_shared(z->cfg, true)};
  int64_t dense = z->cfg->dense_layers - stage->first_layer;
  dense = dense < 0 ? 0 : dense < stage->layers ? dense : stage->layers;
  int64_t moe = stage->layers - dense, streams = stage->layers - (stage->embeds ? 0 : 1);
  chunk_sizes bytes = {.moe = moe};
  bytes.activations =
      streams * per_token(z, z->d, 0, 1) + dense * parts_bytes(z, true, kept[1]) + moe * parts_bytes(z, false, kept[0]);
  if (stage->embeds) bytes.activations += 4 * z->t + (z->cfg->embed_norm ? per_token(z, z->d, 1, 2) : 0) + ALIGN;
  if (stage->predicts) bytes.activations += 4 * z->t + ALIGN;
  bytes.comm = moe * (((kept[0] & MT_PART_ROWS) != 0 ? mt_ep_rows_memory(z->ep).comm : 0) +
                      ((kept[0] & MT_PART_ROUTES) != 0 ? mt_ep_layer_memory(z->ep).comm : 0));
  return bytes;
}

/* Chunks take turns in a set, so that a set is as large as the largest of them. */
static chunk_sizes set_bytes(const sizes *z, int pp_rank) {
  const mt_pp_shape *shape = &z->pp->step.shape;
  chunk_sizes most = {0};
  for (int chunk = 0; chunk < shape->chunks; chunk++) {
    mt_pp_stage stage = mt_pp_stage_make(shape, z->cfg->layers, mt_pp_stage_at(shape, pp_rank, chunk));
    chunk_sizes own = chunk_bytes(z, &stage);
    most.activations = mk_max(most.activations, own.activations);
    most.comm = mk_max(most.comm, own.comm);
    most.moe = mk_max(most.moe, own.moe);
  }
  return most;
}

/* Shared parts once for each kind of layer that the rank has; sets; what the head reads. */
static int64_t activation_bytes(const sizes *z, int pp_rank) {
  int64_t bytes = z->sets * set_bytes(z, pp_rank).activations;
  if (z->dense > 0) bytes += parts_bytes(z, true, mt_parts_shared(z->cfg, true));
  if (z->moe > 0) bytes += parts_bytes(z, false, mt_parts_shared(z->cfg, false));
  return bytes + (z->predicts ? per_token(z, 2 * z->d, 1, 3) : 0);
}

/* Windows and exchange buffers, and streams and gradients at the borders of stages. */
static int64_t comm_bytes(const sizes *z, int pp_rank) {
  unsigned shared = z->moe > 0 ? mt_parts_shared(z->cfg, false) : 0;
  int64_t borders = z->pp->buffers[MT_PP_STREAMS] + z->pp->buffers[MT_PP_GRADIENTS];
  int64_t bytes = z->sets * set_bytes(z, pp_rank).comm + mt_ep_shared_bytes(z->ep);
  if ((shared & MT_PART_ROWS) != 0) bytes += mt_ep_rows_memory(z->ep).comm;
  if ((shared & MT_PART_ROUTES) != 0) bytes += mt_ep_layer_memory(z->ep).comm;
  return bytes + borders * per_token(z, z->d, 0, 1);
}

/* MXFP8: the widest operands of one product, quantised, and an operand read back. */
static int64_t operand_bytes(const sizes *z, int64_t hidden, int64_t n) {
  const mt_config *c = z->cfg;
  int64_t in = mk_max(z->d, z->o), out = mk_max(z->d, z->q), one = 0, other = 0, values = 0;
  if (mt_mxfp8_attention(c)) {
    one = mk_max(mk_mxfp8_bytes(z->t, mk_max(in, out)), mk_mxfp8_bytes(out, z->t));
    other = mk_mxfp8_bytes(in, z->t);
  }
  if (mt_mxfp8_mlp(c)) {
    int64_t plain = mk_mxfp8_bytes(z->t, mk_max(z->d, 2 * hidden)),
            rows = mk_mxfp8_bytes(n, mk_max(z->d, 2 * c->expert_hidden));
    one = mk_max(one, mk_max(plain, rows));
    values = hidden > 0 ? z->t * mk_max(z->d, hidden) * z->c : 0;
  }
  return one + other + values + 3 * ALIGN;
}

/* Gradients on their way through one layer. */
static int64_t scratch_bytes(const sizes *z, mk_device *dev) {
  const mt_config *c = z->cfg;
  int64_t hidden = mk_max(z->dense > 0 ? c->dense_hidden : 0, z->moe > 0 ? c->shared_hidden : 0);
  bool in_window = z->ep->ops->windowed && !mt_ep_arrives_mxfp8(z->ep); /* outputs of the experts and their gradients */
  int64_t n = z->moe > 0 ? z->n : 0, rows = n * (3 * c->expert_hidden + (in_window ? 0 : 2 * z->d));
  int64_t streams = c->norm == MT_NORM_HYBRID ? 6 : 5;
  if (!z->predicts) streams -= 1;
  int64_t tokens = per_token(z, streams * z->d + z->q + z->o + 3 * hidden, c->experts + c->top_k, 16);
  mk_qk_shape shape = {.heads = c->heads, .kv_heads = c->kv_heads, .head_dim = c->head_dim, .seq_len = c->seq_len};
  int64_t attention = (int64_t)mk_attention_work_bytes(dev, z->t, &shape);
  return tokens + rows * z->c + attention + operand_bytes(z, hidden, n);
}

/* Logits of a chunk, RoPE table, counts and statistics of the balance loss, reductions of the step. */
static int64_t step_bytes(const sizes *z, const mt_mesh_plan *plan) {
  const mt_config *c = z->cfg;
  int64_t chunk = mt_head_chunk(c), groups = c->lb_granularity == MT_LB_INSTANCE ? z->t / c->seq_len : 1;
  int64_t statistics = z->chunk_moe * groups * (z->sets * (4 + z->f) + z->f);
  int64_t balance = c->experts * (statistics + mt_config_moe_layers(c) * 8);
  int64_t sums = (2 * MK_SUM_COUNT + 2 + (2 + MT_MEMORY_WORDS) * plan->world) * 8 + 4 + MK_MESSAGE_BYTES;
  int64_t state = (int64_t)(sizeof(mk_step_state) + sizeof(mk_step_log));
  int64_t logits = z->predicts ? chunk * (c->vocab * z->c + 2 * z->f) : 0;
  int64_t starts = (12 + 2 * z->sets) * ALIGN;
  return logits + c->seq_len * c->head_dim * z->f + balance + sums + state + starts;
}

/* Copies of the GEMM weights in the order that the device's library wants; not of weights that are cut or MXFP8. */
static int64_t packed_bytes(const mt_params *params, const mt_config *cfg, mk_device *dev) {
  int64_t bytes = 0;
  for (int i = 0; i < params->count; i++) {
    const mt_param *p = &params->item[i];
    if (!p->overwritten || mt_role_mxfp8(cfg, p->role) || params->store[p->expert].ranks > 1) continue;
    bool grouped = p->n_dims == 3;
    bytes += ALIGN + (int64_t)mk_gemm_pack_bytes(dev, mt_compute_dtype(cfg), grouped ? p->dim[0] : 1,
                                                 p->dim[grouped ? 1 : 0], p->dim[grouped ? 2 : 1]);
  }
  return bytes;
}

mt_memory mt_predict_memory(const mt_config *cfg, const mt_mesh_plan *plan, const mt_params *params, const mt_ep *ep,
                            const mt_pp *pp, mk_device *dev) {
  sizes z = {.cfg = cfg,
             .ep = ep,
             .c = (int64_t)mk_dtype_bytes(mt_compute_dtype(cfg)),
             .f = (int64_t)mk_dtype_bytes(mt_master_dtype(cfg)),
             .t = cfg->rank_tokens,
             .n = ep->rows_max,
             .d = cfg->d_model,
             .q = (cfg->heads + 2 * cfg->kv_heads) * cfg->head_dim,
             .o = cfg->heads * cfg->head_dim,
             .dense = mt_params_layers(params, true),
             .moe = mt_params_layers(params, false),
             .pp = pp,
             .sets = mt_predict_sets(pp, plan->pp_rank),
             .predicts = mt_params_find(params, params->units - 1, MT_PARAM_HEAD_OUT) != NULL};
  z.chunk_moe = set_bytes(&z, plan->pp_rank).moe;
  return (mt_memory){
      .state = mt_sharding_ops_for(cfg)->mem_bytes(params, cfg, plan) + 2 * params->count * ALIGN,
      .activations = activation_bytes(&z, plan->pp_rank),
      .comm = comm_bytes(&z, plan->pp_rank),
      .workspace = scratch_bytes(&z, dev) + step_bytes(&z, plan) + packed_bytes(params, cfg, dev),
  };
}
