/* Parameter counts and FLOP per token of a model, as exact integers, pure functions of the dimensions.
 *
 * FLOP per token is training, forward + backward (6 per weight, 12 per attention score and width), recompute excluded.
 * One run has a different number in each convention; they are kept side by side and never mixed. */
#ifndef SUITE_MODELS_COUNTS_H
#define SUITE_MODELS_COUNTS_H

#include "trainer/launch/config.h"

/* Parameters of the parts; the model has one embedding, one head, `layers` attentions ... */
typedef struct ms_model_parts {
  int64_t embedding, head; /* V*d each, untied */
  int64_t attention;       /* projections of all layers */
  int64_t router;          /* E*d of all MoE layers */
  int64_t routed_all;      /* all experts of all MoE layers */
  int64_t routed_active;   /* top_k of them */
  int64_t shared, dense;   /* shared experts; SwiGLU of the dense layers */
  int64_t norms;           /* every norm gain, QK-norm included */
} ms_model_parts;

ms_model_parts ms_count_parts(const mt_config *cfg);

/* Both embeddings, the router and the shared expert count; active counts top_k routed experts. */
int64_t ms_count_params_total(const mt_config *cfg, bool with_norms);
int64_t ms_count_params_active(const mt_config *cfg, bool with_norms);

typedef enum ms_flops {
  MS_FLOPS_OLMO_CORE_3_DDP, /* causal attention (s+1)/2, router counted; moe_8l_common.py of Olmo-core 3 */
  MS_FLOPS_FULL_ATTENTION,  /* the same with full attention */
  MS_FLOPS_MEGATRON_LM,     /* causal s/2, router not counted; num_floating_point_operations */
  MS_FLOPS_TORCHTITAN,      /* full attention, norms counted, input embedding not; get_moe_model_nparams_and_flops */
  MS_FLOPS_OLMO_CORE_MAIN,  /* full attention, router counted, norms not (as in OLMo-core up to v2.5) */
  MS_FLOPS_PALM_INCL_EMB,   /* 6 N + 12 L H h s with N = active parameters (Chowdhery et al. 2022, App. B) */
  MS_FLOPS_PALM_EXCL_EMB,   /* N without the input embedding */
  MS_FLOPS_LLM_C_LITERAL,   /* 6 x all parameters + 6 L d s: wrong for MoE, listed because it is in use */
  MS_FLOPS_LLM_C_ACTIVE,    /* 6 x active parameters + 6 L d s */
  MS_FLOPS_SIX_N_ACTIVE,    /* 6 x active parameters without the input embedding */
  MS_FLOPS_COUNT
} ms_flops;

/* "olmo_core_3_ddp" and so on, as in baselines/published/flops-conventions.csv. */
const char *ms_flops_name(ms_flops convention);

/* FLOP per token at cfg->seq_len. */
int64_t ms_flops_token(const mt_config *cfg, ms_flops convention);

#endif
