/* Names and layouts of Olmo-core 3.0.0's OLMoDDPModel (olmo_core/nn/ddp/{model,block}.py,
 * olmo_core/nn/moe/v2/{router,routed_experts,shared_experts}.py): separate w_q, w_k, w_v; the router flat [E*D];
 * routed w_up_gate [E,2F,D] with up rows first, like ours; the down projections and the shared expert transposed. */
#include <stdio.h>

#include "trainer/checkpoint/weights_parts.h"

static void set_name(mt_weights_part *out, const mt_param *param, const char *rest) {
  snprintf(out->name, sizeof out->name, "blocks.%d.%s", param->unit - 1, rest);
}

static const char *norm_name(const mt_config *cfg, mt_param_role role) {
  bool peri = cfg->norm == MT_NORM_PERI;
  switch (role) {
    case MT_PARAM_ATTN_IN_NORM:
      return peri ? "attention_input_norm.weight" : "attention_norm.weight";
    case MT_PARAM_ATTN_OUT_NORM:
      return "attention_norm.weight";
    case MT_PARAM_MLP_IN_NORM:
      return peri ? "feed_forward_input_norm.weight" : "feed_forward_norm.weight";
    case MT_PARAM_MLP_OUT_NORM:
      return "feed_forward_norm.weight";
    case MT_PARAM_Q_NORM:
      return "attention.q_norm.weight";
    case MT_PARAM_K_NORM:
      return "attention.k_norm.weight";
    case MT_PARAM_ATTN_O:
      return "attention.w_out.weight"; /* not a norm, but as plain */
    default:
      return NULL;
  }
}

static const char *outer_name(mt_param_role role) {
  switch (role) {
    case MT_PARAM_EMBED:
      return "embeddings.weight";
    case MT_PARAM_EMBED_NORM:
      return "embedding_norm.weight";
    case MT_PARAM_HEAD_NORM:
      return "lm_head.norm.weight";
    case MT_PARAM_HEAD_OUT:
      return "lm_head.w_out.weight";
    default:
      return NULL;
  }
}

static bool qkv_part(const mt_config *cfg, const mt_param *param, int index, mt_weights_part *out) {
  static const char *const names[] = {"attention.w_q.weight", "attention.w_k.weight", "attention.w_v.weight"};
  if (!mt_weights_part_qkv(cfg, param, index, out)) return false;
  set_name(out, param, names[index]);
  return true;
}

/* The slab [rows,cols] lies transposed, [cols,rows], in tensor dims [lead, cols, rows] or [cols, rows]. */
static void transposed(const mt_param *param, int64_t lead, int64_t slab, mt_weights_part *out) {
  int64_t rows = mt_weights_slab_rows(param), cols = mt_weights_slab_cols(param);
  out->n_dims = lead > 0 ? 3 : 2;
  int d = 0;
  if (lead > 0) out->dim[d++] = lead;
  out->dim[d++] = cols;
  out->dim[d] = rows;
  out->first = slab * rows * cols;
  out->count = rows * cols;
  out->n_blocks = 1;
  out->block[0] = (mt_weights_block){.rows = rows, .row_stride = 1, .col_stride = rows};
}

static bool matrix_part(const mt_param *param, int64_t slab, mt_weights_part *out) {
  int64_t flat = mt_weights_slab_elements(param);
  switch (param->role) {
    case MT_PARAM_ROUTER:
      mt_weights_part_whole(param, 1, &flat, out);
      set_name(out, param, "routed_experts_router.weight");
      return true;
    case MT_PARAM_SHARED_UP_GATE:
      transposed(param, 0, 0, out);
      set_name(out, param, "shared_experts.w_up_gate");
      return true;
    case MT_PARAM_SHARED_DOWN:
      transposed(param, 1, 0, out);
      set_name(out, param, "shared_experts.w_down");
      return true;
    case MT_PARAM_EXPERT_DOWN:
      transposed(param, mt_weights_slabs(param), slab, out);
      set_name(out, param, "routed_experts.w_down");
      return true;
    case MT_PARAM_EXPERT_UP_GATE: {
      int64_t dim[3] = {mt_weights_slabs(param), mt_weights_slab_rows(param), mt_weights_slab_cols(param)};
      mt_weights_part_whole(param, 3, dim, out);
      out->first = slab * flat;
      set_name(out, param, "routed_experts.w_up_gate");
      return true;
    }
    default:
      return false;
  }
}

bool mt_weights_olmo_core_part(const mt_config *cfg, const mt_param *param, int64_t slab, int index,
                               mt_weights_part *out) {
  if (param->role == MT_PARAM_QKV) return qkv_part(cfg, param, index, out);
  if (index > 0) return false;
  if (matrix_part(param, slab, out)) return true;
  mt_weights_part_whole(param, param->n_dims, param->dim, out);
  const char *rest = norm_name(cfg, param->role);
  if (rest != NULL) {
    set_name(out, param, rest);
  } else {
    snprintf(out->name, sizeof out->name, "%s", outer_name(param->role));
  }
  return true;
}
