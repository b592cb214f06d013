/* The formulas of each convention. Read in: Olmo-core 3.0.0 moe_8l_common.py (benchmark_num_flops_per_token),
 * Megatron-LM num_floating_point_operations, torchtitan 0.3.0 get_moe_model_nparams_and_flops, PaLM (arXiv 2204.02311)
 * App. B, llm.c gpt2_estimate_mfu. Checked against baselines/published/flops-conventions.csv digit by digit. */
#include "suite/models/counts.h"

static int64_t moe_layers(const mt_config *c) { return c->layers - c->dense_layers; }

static int64_t count_norms(const mt_config *c) {
  int64_t block = (c->norm == MT_NORM_PERI ? 4 : 2) * c->d_model;
  if (c->qk_norm == MK_QK_NORM_HEAD) block += 2 * c->head_dim;
  if (c->qk_norm == MK_QK_NORM_FULL) block += (c->heads + c->kv_heads) * c->head_dim;
  int64_t shared = c->norm == MT_NORM_HYBRID && c->shared_hidden > 0 ? moe_layers(c) * c->d_model : 0;
  return shared + c->layers * block + c->d_model + (c->embed_norm ? c->d_model : 0);
}

ms_model_parts ms_count_parts(const mt_config *c) {
  int64_t expert = 3 * c->d_model * c->expert_hidden;
  return (ms_model_parts){
      .embedding = c->vocab * c->d_model,
      .head = c->vocab * c->d_model,
      .attention = c->layers * 2 * c->d_model * (c->heads + c->kv_heads) * c->head_dim,
      .router = moe_layers(c) * c->experts * c->d_model,
      .routed_all = moe_layers(c) * c->experts * expert,
      .routed_active = moe_layers(c) * c->top_k * expert,
      .shared = moe_layers(c) * 3 * c->d_model * c->shared_hidden,
      .dense = c->dense_layers * 3 * c->d_model * c->dense_hidden,
      .norms = count_norms(c),
  };
}

/* Weights that every token meets outside the routed experts and the norms. */
static int64_t common(const ms_model_parts *p) {
  return p->embedding + p->head + p->attention + p->router + p->shared + p->dense;
}

int64_t ms_count_params_total(const mt_config *c, bool with_norms) {
  ms_model_parts p = ms_count_parts(c);
  return common(&p) + p.routed_all + (with_norms ? p.norms : 0);
}

int64_t ms_count_params_active(const mt_config *c, bool with_norms) {
  ms_model_parts p = ms_count_parts(c);
  return common(&p) + p.routed_active + (with_norms ? p.norms : 0);
}

const char *ms_flops_name(ms_flops convention) {
  static const char *const NAMES[] = {
      [MS_FLOPS_OLMO_CORE_3_DDP] = "olmo_core_3_ddp",
      [MS_FLOPS_FULL_ATTENTION] = "full_attention",
      [MS_FLOPS_MEGATRON_LM] = "megatron_lm",
      [MS_FLOPS_TORCHTITAN] = "torchtitan",
      [MS_FLOPS_OLMO_CORE_MAIN] = "olmo_core_main",
      [MS_FLOPS_PALM_INCL_EMB] = "palm_active_incl_input_emb",
      [MS_FLOPS_PALM_EXCL_EMB] = "palm_active_excl_input_emb",
      [MS_FLOPS_LLM_C_LITERAL] = "llm_c_literal",
      [MS_FLOPS_LLM_C_ACTIVE] = "llm_c_active",
      [MS_FLOPS_SIX_N_ACTIVE] = "six_n_active",
  };
  return NAMES[convention];
}

int64_t ms_flops_token(const mt_config *c, ms_flops convention) {
  ms_model_parts p = ms_count_parts(c);
  int64_t active = ms_count_params_active(c, true);
  int64_t weights = 6 * (ms_count_params_active(c, false) - p.embedding);
  int64_t scores = 6 * c->layers * c->heads * c->head_dim; /* half of q k^T and p v, per position */
  int64_t full = 2 * scores * c->seq_len;
  int64_t channels = 6 * c->layers * c->d_model * c->seq_len;
  switch (convention) {
    case MS_FLOPS_OLMO_CORE_3_DDP:
      return weights + scores * (c->seq_len + 1);
    case MS_FLOPS_MEGATRON_LM:
      return weights - 6 * p.router + scores * c->seq_len;
    case MS_FLOPS_FULL_ATTENTION:
    case MS_FLOPS_OLMO_CORE_MAIN:
      return weights + full;
    case MS_FLOPS_TORCHTITAN:
    case MS_FLOPS_PALM_EXCL_EMB:
      return 6 * (active - p.embedding) + full;
    case MS_FLOPS_PALM_INCL_EMB:
      return 6 * active + full;
    case MS_FLOPS_LLM_C_LITERAL:
      return 6 * ms_count_params_total(c, true) + channels;
    case MS_FLOPS_LLM_C_ACTIVE:
      return 6 * active + channels;
    default:
      return 6 * (active - p.embedding);
  }
}
