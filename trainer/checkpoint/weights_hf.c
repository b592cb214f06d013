/* Names of OLMoE and Qwen3-MoE in Hugging Face layout (transformers 5.23.0, models/olmoe/modeling_olmoe.py and
 * models/qwen3_moe/modeling_qwen3_moe.py; checkpoints on the hub keep one tensor an expert, transformers 5 packs them
 * in memory). Both models share every name; only the shape of q_norm and k_norm differs. */
#include <stdio.h>

#include "trainer/checkpoint/weights_parts.h"

static void set_name(mt_weights_part *out, int64_t layer, const char *rest) {
  if (layer < 0) {
    snprintf(out->name, sizeof out->name, "%s", rest);
  } else {
    snprintf(out->name, sizeof out->name, "model.layers.%lld.%s", (long long)layer, rest);
  }
}

static const char *plain_name(mt_param_role role) {
  switch (role) {
    case MT_PARAM_EMBED:
      return "model.embed_tokens.weight";
    case MT_PARAM_ATTN_IN_NORM:
      return "input_layernorm.weight";
    case MT_PARAM_Q_NORM:
      return "self_attn.q_norm.weight";
    case MT_PARAM_K_NORM:
      return "self_attn.k_norm.weight";
    case MT_PARAM_ATTN_O:
      return "self_attn.o_proj.weight";
    case MT_PARAM_MLP_IN_NORM:
      return "post_attention_layernorm.weight";
    case MT_PARAM_ROUTER:
      return "mlp.gate.weight";
    case MT_PARAM_SHARED_DOWN:
      return "mlp.down_proj.weight"; /* of a dense layer */
    case MT_PARAM_HEAD_NORM:
      return "model.norm.weight";
    case MT_PARAM_HEAD_OUT:
      return "lm_head.weight";
    default:
      return NULL;
  }
}

static bool qkv_part(const mt_config *cfg, const mt_param *param, int index, mt_weights_part *out) {
  static const char *const names[] = {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"};
  if (!mt_weights_part_qkv(cfg, param, index, out)) return false;
  set_name(out, param->unit - 1, names[index]);
  return true;
}

/* Part 0 up, part 1 gate: the halves of the slab's rows as tensors of their own. `expert` < 0: a dense layer. */
static bool up_gate_part(const mt_param *param, int64_t expert, int index, mt_weights_part *out) {
  if (index > 1) return false;
  char rest[64];
  const char *which = index == 0 ? "up_proj" : "gate_proj";
  int64_t half = mt_weights_slab_rows(param) / 2;
  mt_weights_part_rows(param, index * half, half, out);
  if (expert < 0) {
    snprintf(rest, sizeof rest, "mlp.%s.weight", which);
  } else {
    snprintf(rest, sizeof rest, "mlp.experts.%lld.%s.weight", (long long)expert, which);
  }
  set_name(out, param->unit - 1, rest);
  return true;
}

static bool expert_down_part(const mt_param *param, int64_t expert, mt_weights_part *out) {
  char rest[64];
  snprintf(rest, sizeof rest, "mlp.experts.%lld.down_proj.weight", (long long)expert);
  mt_weights_part_rows(param, 0, mt_weights_slab_rows(param), out);
  set_name(out, param->unit - 1, rest);
  return true;
}

/* gate_up_proj [E,2F,D] has the gate rows first, the canonical slab the up rows. */
static bool packed_part(const mt_param *param, int64_t expert, mt_weights_part *out) {
  bool down = param->role == MT_PARAM_EXPERT_DOWN;
  int64_t rows = mt_weights_slab_rows(param), cols = mt_weights_slab_cols(param), half = rows / 2;
  *out = (mt_weights_part){.n_dims = 3,
                           .dim = {mt_weights_slabs(param), rows, cols},
                           .first = expert * rows * cols,
                           .count = rows * cols,
                           .n_blocks = down ? 1 : 2};
  if (down) {
    out->block[0] = (mt_weights_block){.rows = rows, .row_stride = cols, .col_stride = 1};
  } else {
    out->block[0] = (mt_weights_block){.rows = half, .offset = half * cols, .row_stride = cols, .col_stride = 1};
    out->block[1] = (mt_weights_block){.row_first = half, .rows = half, .row_stride = cols, .col_stride = 1};
  }
  set_name(out, param->unit - 1, down ? "mlp.experts.down_proj" : "mlp.experts.gate_up_proj");
  return true;
}

bool mt_weights_hf_part(const mt_config *cfg, const mt_param *param, int64_t slab, int index, bool packed,
                        mt_weights_part *out) {
  bool expert_down = param->role == MT_PARAM_EXPERT_DOWN;
  bool shared = param->role == MT_PARAM_SHARED_UP_GATE || param->role == MT_PARAM_SHARED_DOWN;
  if (shared && param->unit > cfg->dense_layers) return false; /* neither model has shared experts */
  if (param->role == MT_PARAM_QKV) return qkv_part(cfg, param, index, out);
  if (param->role == MT_PARAM_SHARED_UP_GATE) return up_gate_part(param, -1, index, out);
  if (param->role == MT_PARAM_EXPERT_UP_GATE && !packed) return up_gate_part(param, slab, index, out);
  const char *rest = plain_name(param->role);
  if (index > 0 || (rest == NULL && !param->expert)) return false;
  if (param->expert) return packed ? packed_part(param, slab, out) : expert_down && expert_down_part(param, slab, out);
  mt_weights_part_whole(param, param->n_dims, param->dim, out);
  bool in_layer =
      param->role != MT_PARAM_EMBED && param->role != MT_PARAM_HEAD_NORM && param->role != MT_PARAM_HEAD_OUT;
  set_name(out, in_layer ? param->unit - 1 : -1, rest);
  return true;
}
