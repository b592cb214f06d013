/* OLMoE (Muennighoff et al. 2024, arXiv 2409.02060) as transformers has it: RMSNorm of the whole projected queries and
 * keys, optional clamp of q, k, v, every layer routed, head width d_model / heads. */
#include <cjson/cJSON.h>

#include "trainer/checkpoint/hf_config_keys.h"

static mk_status parse(const mt_hf_source *src, mt_config *cfg) {
  MK_TRY(src->ctx, mt_hf_int(src, "intermediate_size", &cfg->expert_hidden));
  MK_TRY(src->ctx, mt_hf_number_or(src, "clip_qkv", 0, &cfg->clip_qkv));
  MK_CHECK(src->ctx, cfg->heads * cfg->head_dim == cfg->d_model, MK_ERR_UNSUPPORTED,
           "%s: num_attention_heads %lld x head width %lld is not hidden_size %lld", src->path, (long long)cfg->heads,
           (long long)cfg->head_dim, (long long)cfg->d_model);
  cfg->qk_norm = MK_QK_NORM_FULL;
  return MK_OK;
}

static bool add(cJSON *root, const mt_config *cfg) {
  bool clip = cfg->clip_qkv > 0;
  const cJSON *item =
      clip ? cJSON_AddNumberToObject(root, "clip_qkv", cfg->clip_qkv) : cJSON_AddNullToObject(root, "clip_qkv");
  return item != NULL && cJSON_AddNumberToObject(root, "intermediate_size", (double)cfg->expert_hidden) != NULL;
}

const mt_hf_model mt_hf_olmoe = {.type = "olmoe",
                                 .architecture = "OlmoeForCausalLM",
                                 .norm_eps = 1e-5,
                                 .aux_coef = 0.01,
                                 .parse = parse,
                                 .add = add};
