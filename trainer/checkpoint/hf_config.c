/* What OLMoE and Qwen3-MoE have in common; the rest is in weights_olmoe.c and weights_qwen3.c. */
#include "trainer/checkpoint/hf_config.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/json.h"
#include "trainer/checkpoint/hf_config_keys.h"

static const mt_hf_model *const MODELS[] = {&mt_hf_olmoe, &mt_hf_qwen3_moe};
enum { MODEL_COUNT = sizeof MODELS / sizeof MODELS[0] };

const cJSON *mt_hf_item(const mt_hf_source *src, const char *key) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(src->root, key);
  return cJSON_IsNull(item) ? NULL : item;
}

mk_status mt_hf_int(const mt_hf_source *src, const char *key, int64_t *out) {
  const cJSON *item = mt_hf_item(src, key);
  MK_CHECK(src->ctx, item != NULL, MK_ERR_FORMAT, "%s: '%s' is missing", src->path, key);
  double value = cJSON_GetNumberValue(item);
  MK_CHECK(src->ctx, value >= 1 && value <= 1e12 && (double)(int64_t)value == value, MK_ERR_FORMAT,
           "%s: '%s' is not a positive whole number", src->path, key);
  *out = (int64_t)value;
  return MK_OK;
}

mk_status mt_hf_int_or(const mt_hf_source *src, const char *key, int64_t otherwise, int64_t *out) {
  if (mt_hf_item(src, key) != NULL) return mt_hf_int(src, key, out);
  *out = otherwise;
  return MK_OK;
}

mk_status mt_hf_number_or(const mt_hf_source *src, const char *key, double otherwise, double *out) {
  const cJSON *item = mt_hf_item(src, key);
  MK_CHECK(src->ctx, item == NULL || (cJSON_IsNumber(item) && item->valuedouble >= 0), MK_ERR_FORMAT,
           "%s: '%s' is not a number of at least 0", src->path, key);
  *out = item == NULL ? otherwise : item->valuedouble;
  return MK_OK;
}

mk_status mt_hf_bool_or(const mt_hf_source *src, const char *key, bool otherwise, bool *out) {
  const cJSON *item = mt_hf_item(src, key);
  MK_CHECK(src->ctx, item == NULL || cJSON_IsBool(item), MK_ERR_FORMAT, "%s: '%s' is not true or false", src->path,
           key);
  *out = item == NULL ? otherwise : cJSON_IsTrue(item);
  return MK_OK;
}

mk_status mt_hf_refuse_true(const mt_hf_source *src, const char *key) {
  bool yes = false;
  MK_TRY(src->ctx, mt_hf_bool_or(src, key, false, &yes));
  MK_CHECK(src->ctx, !yes, MK_ERR_UNSUPPORTED, "%s: '%s' is true, which the trainer does not have", src->path, key);
  return MK_OK;
}

/* rope_parameters {rope_type, rope_theta} (transformers 5), else rope_theta and rope_scaling (before). */
static mk_status parse_rope(const mt_hf_source *src, mt_config *cfg) {
  const cJSON *group = mt_hf_item(src, "rope_parameters");
  if (group == NULL) {
    MK_CHECK(src->ctx, mt_hf_item(src, "rope_scaling") == NULL, MK_ERR_UNSUPPORTED,
             "%s: 'rope_scaling' is set; only plain RoPE is supported", src->path);
    return mt_hf_number_or(src, "rope_theta", 10000, &cfg->rope_theta);
  }
  const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(group, "rope_type"));
  MK_CHECK(src->ctx, type == NULL || strcmp(type, "default") == 0, MK_ERR_UNSUPPORTED,
           "%s: rope_type '%s'; only plain RoPE is supported", src->path, type);
  mt_hf_source inner = {.ctx = src->ctx, .path = src->path, .root = group};
  return mt_hf_number_or(&inner, "rope_theta", 10000, &cfg->rope_theta);
}

static mk_status parse_activation(const mt_hf_source *src) {
  const cJSON *item = mt_hf_item(src, "hidden_act");
  const char *act = cJSON_GetStringValue(item);
  MK_CHECK(src->ctx, item == NULL || (act != NULL && strcmp(act, "silu") == 0), MK_ERR_UNSUPPORTED,
           "%s: hidden_act '%s'; only silu is supported", src->path, act != NULL ? act : "?");
  return MK_OK;
}

static mk_status parse_refusals(const mt_hf_source *src) {
  double dropout = 0;
  MK_TRY(src->ctx, mt_hf_refuse_true(src, "attention_bias"));
  MK_TRY(src->ctx, mt_hf_refuse_true(src, "tie_word_embeddings"));
  MK_TRY(src->ctx, mt_hf_refuse_true(src, "use_sliding_window"));
  MK_TRY(src->ctx, mt_hf_number_or(src, "attention_dropout", 0, &dropout));
  MK_CHECK(src->ctx, dropout == 0, MK_ERR_UNSUPPORTED, "%s: attention_dropout %g is not supported", src->path, dropout);
  return parse_activation(src);
}

static mk_status parse_common(const mt_hf_source *src, const mt_hf_model *model, mt_config *cfg) {
  mk_context *ctx = src->ctx;
  *cfg = (mt_config){0};
  MK_TRY(ctx, mt_hf_int(src, "vocab_size", &cfg->vocab));
  MK_TRY(ctx, mt_hf_int(src, "hidden_size", &cfg->d_model));
  MK_TRY(ctx, mt_hf_int(src, "num_hidden_layers", &cfg->layers));
  MK_TRY(ctx, mt_hf_int(src, "num_attention_heads", &cfg->heads));
  MK_TRY(ctx, mt_hf_int_or(src, "num_key_value_heads", cfg->heads, &cfg->kv_heads));
  MK_TRY(ctx, mt_hf_int_or(src, "head_dim", cfg->d_model / cfg->heads, &cfg->head_dim));
  MK_TRY(ctx, mt_hf_int(src, mt_hf_item(src, "num_local_experts") != NULL ? "num_local_experts" : "num_experts",
                        &cfg->experts));
  MK_TRY(ctx, mt_hf_int(src, "num_experts_per_tok", &cfg->top_k));
  MK_TRY(ctx, mt_hf_number_or(src, "rms_norm_eps", model->norm_eps, &cfg->norm_eps));
  MK_TRY(ctx, mt_hf_number_or(src, "router_aux_loss_coef", model->aux_coef, &cfg->lb_weight));
  MK_TRY(ctx, mt_hf_number_or(src, "initializer_range", 0.02, &cfg->init_std));
  MK_TRY(ctx, mt_hf_bool_or(src, "norm_topk_prob", false, &cfg->norm_topk));
  MK_TRY(ctx, parse_rope(src, cfg));
  MK_TRY(ctx, parse_refusals(src));
  cfg->norm = MT_NORM_PRE;
  cfg->embed_scale = 1;
  cfg->gating = MK_GATING_SOFTMAX;
  cfg->weight_scale = MT_WEIGHT_SCALE_ONE;
  cfg->lb_def = MK_LB_HF;
  return model->parse(src, cfg);
}

/* Copies every model key through its text form, which also checks the key's range. */
static mk_status take_model_keys(mk_context *ctx, const mt_config *from, mt_config *to) {
  size_t count = 0;
  const mt_key *keys = mt_config_keys(&count);
  mt_config fresh = *to;
  for (size_t i = 0; i < count; i++) {
    char text[MT_TEXT_BYTES];
    if (keys[i].group != MT_KEYS_MODEL) continue;
    mt_config_get(from, &keys[i], text, sizeof text);
    MK_TRY(ctx, mt_config_set(ctx, &fresh, keys[i].name, text));
  }
  *to = fresh;
  return MK_OK;
}

mk_status mt_hf_config_parse(mk_context *ctx, const char *path, const cJSON *root, mt_config *cfg) {
  const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "model_type"));
  MK_CHECK(ctx, type != NULL, MK_ERR_FORMAT, "%s: 'model_type' is missing: not a config.json of transformers", path);
  mt_hf_source src = {.ctx = ctx, .path = path, .root = root};
  mt_config model;
  for (int i = 0; i < MODEL_COUNT; i++) {
    if (strcmp(type, MODELS[i]->type) != 0) continue;
    MK_TRY(ctx, parse_common(&src, MODELS[i], &model));
    strcpy(model.model, type);
    return take_model_keys(ctx, &model, cfg);
  }
  return MK_FAIL(ctx, MK_ERR_UNSUPPORTED, "%s: model_type '%.64s'; olmoe and qwen3_moe are supported", path, type);
}

mk_status mt_hf_config_read(mk_context *ctx, const char *path, mt_config *cfg) {
  cJSON *root = NULL;
  MK_TRY(ctx, mk_json_read(ctx, path, &root));
  mk_status st = mt_hf_config_parse(ctx, path, root, cfg);
  cJSON_Delete(root);
  return st;
}

static bool add_number(cJSON *root, const char *key, double value) {
  return cJSON_AddNumberToObject(root, key, value) != NULL;
}

static bool add_rope(cJSON *root, const mt_config *cfg) {
  cJSON *group = cJSON_AddObjectToObject(root, "rope_parameters");
  return add_number(root, "rope_theta", cfg->rope_theta) && group != NULL &&
         cJSON_AddStringToObject(group, "rope_type", "default") != NULL &&
         add_number(group, "rope_theta", cfg->rope_theta);
}

static bool add_common(cJSON *root, const mt_hf_model *model, const mt_config *cfg) {
  cJSON *list = cJSON_AddArrayToObject(root, "architectures");
  bool ok = list != NULL && cJSON_AddItemToArray(list, cJSON_CreateString(model->architecture));
  ok = ok && cJSON_AddStringToObject(root, "model_type", model->type) != NULL;
  ok = ok && cJSON_AddStringToObject(root, "torch_dtype", "float32") != NULL;
  ok = ok && cJSON_AddStringToObject(root, "hidden_act", "silu") != NULL;
  ok = ok && add_number(root, "vocab_size", (double)cfg->vocab);
  ok = ok && add_number(root, "hidden_size", (double)cfg->d_model);
  ok = ok && add_number(root, "num_hidden_layers", (double)cfg->layers);
  ok = ok && add_number(root, "num_attention_heads", (double)cfg->heads);
  ok = ok && add_number(root, "num_key_value_heads", (double)cfg->kv_heads);
  ok = ok && add_number(root, "num_experts", (double)cfg->experts);
  ok = ok && add_number(root, "num_experts_per_tok", (double)cfg->top_k);
  ok = ok && add_number(root, "max_position_embeddings", (double)cfg->seq_len);
  ok = ok && add_number(root, "rms_norm_eps", cfg->norm_eps);
  ok = ok && add_number(root, "initializer_range", cfg->init_std);
  ok = ok && add_number(root, "router_aux_loss_coef", cfg->lb_weight);
  ok = ok && cJSON_AddBoolToObject(root, "norm_topk_prob", cfg->norm_topk) != NULL;
  ok = ok && cJSON_AddBoolToObject(root, "tie_word_embeddings", 0) != NULL;
  ok = ok && cJSON_AddBoolToObject(root, "attention_bias", 0) != NULL;
  /* no special tokens: the library's defaults lie outside small vocabularies */
  ok = ok && cJSON_AddNullToObject(root, "bos_token_id") != NULL && cJSON_AddNullToObject(root, "eos_token_id") != NULL;
  ok = ok && cJSON_AddNullToObject(root, "pad_token_id") != NULL;
  return ok && add_rope(root, cfg) && model->add(root, cfg);
}

mk_status mt_hf_config_write(mk_context *ctx, const char *path, const mt_config *cfg) {
  mk_status st = MK_OK;
  char *text = NULL;
  const mt_hf_model *model = MODELS[cfg->qk_norm == MK_QK_NORM_FULL ? 0 : 1];
  cJSON *root = cJSON_CreateObject();
  if (root != NULL && add_common(root, model, cfg)) text = cJSON_Print(root);
  MK_CHECK_GOTO(ctx, text != NULL, MK_ERR_MEMORY, out, "%s: out of host memory while writing", path);
  MK_TRY_GOTO(ctx, mk_file_write(ctx, path, text, strlen(text)), out);
out:
  cJSON_free(text);
  cJSON_Delete(root);
  return st;
}
