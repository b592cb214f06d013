/* Qwen3-MoE (Qwen3 technical report 2025, arXiv 2505.09388) as transformers has it: RMSNorm per head, head width of its
 * own, dense layers named in mlp_only_layers. Here the dense layers must be the leading ones. */
#include <cjson/cJSON.h>

#include "trainer/checkpoint/hf_config_keys.h"

static mk_status parse_dense_layers(const mt_hf_source *src, mt_config *cfg) {
  const cJSON *list = mt_hf_item(src, "mlp_only_layers");
  MK_CHECK(src->ctx, list == NULL || cJSON_IsArray(list), MK_ERR_FORMAT, "%s: 'mlp_only_layers' is not a list",
           src->path);
  for (const cJSON *item = list != NULL ? list->child : NULL; item != NULL; item = item->next) {
    MK_CHECK(src->ctx, cJSON_GetNumberValue(item) == (double)cfg->dense_layers, MK_ERR_UNSUPPORTED,
             "%s: 'mlp_only_layers' must name the leading layers 0, 1, ... in order", src->path);
    cfg->dense_layers += 1;
  }
  return cfg->dense_layers > 0 ? mt_hf_int(src, "intermediate_size", &cfg->dense_hidden) : MK_OK;
}

static mk_status parse(const mt_hf_source *src, mt_config *cfg) {
  int64_t sparse_step = 1;
  MK_TRY(src->ctx, mt_hf_int(src, "moe_intermediate_size", &cfg->expert_hidden));
  MK_TRY(src->ctx, mt_hf_int_or(src, "decoder_sparse_step", 1, &sparse_step));
  MK_CHECK(src->ctx, sparse_step == 1, MK_ERR_UNSUPPORTED,
           "%s: decoder_sparse_step %lld: dense layers between routed ones are not supported", src->path,
           (long long)sparse_step);
  MK_TRY(src->ctx, parse_dense_layers(src, cfg));
  cfg->qk_norm = MK_QK_NORM_HEAD;
  return MK_OK;
}

static bool add(cJSON *root, const mt_config *cfg) {
  cJSON *list = cJSON_AddArrayToObject(root, "mlp_only_layers");
  bool ok = list != NULL;
  for (int64_t l = 0; l < cfg->dense_layers && ok; l++)
    ok = cJSON_AddItemToArray(list, cJSON_CreateNumber((double)l));
  /* without dense layers the width is unused, but the library's config wants one */
  int64_t dense = cfg->dense_layers > 0 ? cfg->dense_hidden : cfg->expert_hidden * cfg->top_k;
  return ok && cJSON_AddNumberToObject(root, "intermediate_size", (double)dense) != NULL &&
         cJSON_AddNumberToObject(root, "head_dim", (double)cfg->head_dim) != NULL &&
         cJSON_AddNumberToObject(root, "decoder_sparse_step", 1) != NULL &&
         cJSON_AddBoolToObject(root, "use_sliding_window", 0) != NULL &&
         cJSON_AddNumberToObject(root, "moe_intermediate_size", (double)cfg->expert_hidden) != NULL;
}

const mt_hf_model mt_hf_qwen3_moe = {.type = "qwen3_moe",
                                     .architecture = "Qwen3MoeForCausalLM",
                                     .norm_eps = 1e-6,
                                     .aux_coef = 0.001,
                                     .parse = parse,
                                     .add = add};
