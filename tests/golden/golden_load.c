/* golden.json to mt_config, tokens and labels. transformers' config goes through the trainer's own reader of
 * config.json; Olmo-core's is the argument list of make/olmo.py. */
#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "tests/golden/golden.h"
#include "trainer/checkpoint/hf_config.h"

mk_status golden_number(const golden_folder *g, double *out, ...) {
  char place[256] = "";
  const cJSON *item = g->json;
  va_list keys;
  va_start(keys, out);
  for (const char *key = va_arg(keys, const char *); key != NULL; key = va_arg(keys, const char *)) {
    size_t used = strlen(place);
    snprintf(place + used, sizeof place - used, "%s%s", used > 0 ? "." : "", key);
    item = cJSON_GetObjectItemCaseSensitive(item, key);
  }
  va_end(keys);
  MK_CHECK(g->ctx, cJSON_IsNumber(item), MK_ERR_FORMAT, "%s/golden.json: '%s' is missing or not a number", g->path,
           place);
  *out = item->valuedouble;
  return MK_OK;
}

static mk_status olmo_int(const golden_folder *g, const char *key, int64_t *out) {
  double value = 0;
  MK_TRY(g->ctx, golden_number(g, &value, "config", key, NULL));
  *out = (int64_t)value;
  return MK_OK;
}

/* Optional word of the config. */
static const char *olmo_word(const golden_folder *g, const char *key, const char *otherwise) {
  const cJSON *config = cJSON_GetObjectItemCaseSensitive(g->json, "config");
  const char *word = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(config, key));
  return word != NULL ? word : otherwise;
}

static mk_status olmo_dims(const golden_folder *g, mt_config *c) {
  mk_context *ctx = g->ctx;
  MK_TRY(ctx, olmo_int(g, "d", &c->d_model));
  MK_TRY(ctx, olmo_int(g, "layers", &c->layers));
  MK_TRY(ctx, olmo_int(g, "heads", &c->heads));
  MK_TRY(ctx, olmo_int(g, "kv", &c->kv_heads));
  MK_TRY(ctx, olmo_int(g, "hd", &c->head_dim));
  MK_TRY(ctx, olmo_int(g, "E", &c->experts));
  MK_TRY(ctx, olmo_int(g, "K", &c->top_k));
  MK_TRY(ctx, olmo_int(g, "h", &c->expert_hidden));
  MK_TRY(ctx, olmo_int(g, "vocab", &c->vocab));
  MK_TRY(ctx, olmo_int(g, "dense_hidden_layer0", &c->dense_hidden));
  MK_TRY(ctx, olmo_int(g, "shared_hidden", &c->shared_hidden));
  MK_TRY(ctx, golden_number(g, &c->rope_theta, "config", "rope_theta", NULL));
  MK_TRY(ctx, golden_number(g, &c->norm_eps, "config", "rms_eps", NULL));
  MK_TRY(ctx, golden_number(g, &c->lb_weight, "config", "lb_w", NULL));
  return golden_number(g, &c->router_z_weight, "config", "z_w", NULL);
}

static mk_status olmo_config(const golden_folder *g, mt_config *c) {
  const cJSON *config = cJSON_GetObjectItemCaseSensitive(g->json, "config");
  MK_TRY(g->ctx, olmo_dims(g, c));
  MK_TRY(g->ctx, mt_config_set(g->ctx, c, "norm", olmo_word(g, "norm_placement", "peri")));
  const char *granularity = olmo_word(g, "granularity", "local_batch");
  bool instance = strcmp(granularity, "instance") == 0;
  MK_CHECK(g->ctx, instance || strcmp(granularity, "local_batch") == 0, MK_ERR_UNSUPPORTED,
           "%s/golden.json: load-balancing granularity '%s'", g->path, granularity);
  c->embed_norm = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(config, "embed_scale_sqrt_d_and_embedding_norm"));
  c->embed_scale = c->embed_norm ? 0 : 1;
  c->lb_granularity = instance ? MT_LB_INSTANCE : MT_LB_BATCH;
  c->dense_layers = 1;
  c->qk_norm = MK_QK_NORM_HEAD;
  c->norm_topk = true;
  c->weight_scale = MT_WEIGHT_SCALE_K;
  c->lb_def = MK_LB_OLMO;
  c->z_weight = 0;
  return MK_OK;
}

static mk_status model_config(golden_folder *g) {
  const cJSON *config = cJSON_GetObjectItemCaseSensitive(g->json, "config");
  char place[MT_TEXT_BYTES];
  MK_CHECK(g->ctx, cJSON_IsObject(config), MK_ERR_UNSUPPORTED,
           "%s/golden.json: no 'config' of a model: this folder is of another kind", g->path);
  g->hf = cJSON_GetObjectItemCaseSensitive(config, "model_type") != NULL;
  snprintf(place, sizeof place, "%.400s/golden.json: config", g->path);
  if (!g->hf) return olmo_config(g, &g->cfg);
  MK_TRY(g->ctx, mt_hf_config_parse(g->ctx, place, config, &g->cfg));
  return MK_OK;
}

/* torch's AdamW on one group: everything decays; a constant learning rate. */
static mk_status optimizer_config(golden_folder *g) {
  mt_config *c = &g->cfg;
  const cJSON *adamw = cJSON_GetObjectItemCaseSensitive(g->json, "adamw");
  const cJSON *betas = cJSON_GetObjectItemCaseSensitive(adamw, "betas");
  MK_TRY(g->ctx, golden_number(g, &c->lr, "adamw", "lr", NULL));
  MK_TRY(g->ctx, golden_number(g, &c->eps, "adamw", "eps", NULL));
  MK_TRY(g->ctx, golden_number(g, &c->weight_decay, "adamw", "weight_decay", NULL));
  MK_CHECK(g->ctx, cJSON_GetArraySize(betas) == 2 && cJSON_IsNumber(betas->child) && cJSON_IsNumber(betas->child->next),
           MK_ERR_FORMAT, "%s/golden.json: 'adamw.betas' is not a list of two numbers", g->path);
  c->beta1 = betas->child->valuedouble;
  c->beta2 = betas->child->next->valuedouble;
  c->decay = MT_DECAY_ALL;
  c->schedule = MK_LR_CONSTANT;
  c->lr_warmup_steps = 0;
  c->clip = 0;
  return MK_OK;
}

static mk_status read_ids(golden_folder *g, const char *name, int64_t batch, int64_t seq, int32_t **out) {
  const mt_st_tensor *t = mt_st_reader_find(g->f32, name);
  MK_CHECK(g->ctx, t != NULL && t->n_dims == 3 && t->dim[1] == batch && t->dim[2] == seq, MK_ERR_FORMAT,
           "%s: tensor '%s' is missing or not [steps,%lld,%lld]", mt_st_reader_path(g->f32), name, (long long)batch,
           (long long)seq);
  MK_CHECK(g->ctx, g->steps == 0 || g->steps == t->dim[0], MK_ERR_FORMAT, "%s: tokens and labels differ in steps",
           mt_st_reader_path(g->f32));
  g->steps = t->dim[0];
  MK_TRY(g->ctx, mk_heap_array(g->ctx, (size_t)t->count, sizeof **out, out));
  MK_TRY(g->ctx, mt_st_reader_get(g->f32, t, 0, t->count, MK_I32, *out));
  for (int64_t i = 0; i < t->count; i++) {
    MK_CHECK(g->ctx, (*out)[i] >= 0 && (*out)[i] < g->cfg.vocab, MK_ERR_FORMAT,
             "%s: tensor '%s': element %lld is %d, outside the vocabulary of %lld", mt_st_reader_path(g->f32), name,
             (long long)i, (*out)[i], (long long)g->cfg.vocab);
  }
  return MK_OK;
}

static mk_status read_batches(golden_folder *g) {
  double batch = 0, seq = 0;
  MK_TRY(g->ctx, golden_number(g, &batch, "batch", NULL));
  MK_TRY(g->ctx, golden_number(g, &seq, "seq", NULL));
  MK_TRY(g->ctx, read_ids(g, "tokens", (int64_t)batch, (int64_t)seq, &g->tokens));
  MK_TRY(g->ctx, read_ids(g, "labels", (int64_t)batch, (int64_t)seq, &g->labels));
  g->tokens_step = (int64_t)(batch * seq);
  g->cfg.seq_len = (int64_t)seq;
  g->cfg.rank_tokens = g->cfg.global_tokens = g->tokens_step;
  g->cfg.steps = g->steps;
  g->cfg.label_shift_inside = false; /* labels are given, and every one counts */
  return MK_OK;
}

static mk_status open_files(golden_folder *g) {
  mk_context *ctx = g->ctx;
  mk_status st = MK_OK;
  char *path = NULL, *text = NULL;
  size_t bytes = 0;
  struct stat info;
  MK_TRY_GOTO(ctx, mk_heap_printf(ctx, &path, "%s/golden.json", g->path), out);
  MK_TRY_GOTO(ctx, mk_file_read(ctx, path, &text, &bytes), out);
  g->json = cJSON_ParseWithLength(text, bytes);
  MK_CHECK_GOTO(ctx, cJSON_IsObject(g->json), MK_ERR_FORMAT, out, "%s: not a JSON object", path);
  mk_heap_free(ctx, path);
  path = NULL;
  MK_TRY_GOTO(ctx, mk_heap_printf(ctx, &path, "%s/golden.safetensors", g->path), out);
  MK_TRY_GOTO(ctx, mt_st_reader_create(ctx, path, &g->f32), out);
  mk_heap_free(ctx, path);
  path = NULL;
  MK_TRY_GOTO(ctx, mk_heap_printf(ctx, &path, "%s/golden_f64.safetensors", g->path), out);
  if (stat(path, &info) == 0) MK_TRY_GOTO(ctx, mt_st_reader_create(ctx, path, &g->f64), out);
out:
  mk_heap_free(ctx, path);
  mk_heap_free(ctx, text);
  return st;
}

static void detect_layout(golden_folder *g) {
  g->layout = g->hf ? MT_WEIGHTS_HF : MT_WEIGHTS_OLMO_CORE;
  for (int64_t i = 0; g->hf && i < mt_st_reader_count(g->f32); i++) {
    if (strstr(mt_st_reader_at(g->f32, i)->name, ".mlp.experts.gate_up_proj") != NULL) g->layout = MT_WEIGHTS_HF_PACKED;
  }
}

mk_status golden_open(mk_context *ctx, const char *path, const char *device, const char *precision,
                      golden_folder *out) {
  mk_status st = MK_OK;
  golden_folder g = {.ctx = ctx, .path = path, .cfg = mt_config_default()};
  MK_TRY_GOTO(ctx, mt_config_set(ctx, &g.cfg, "device", device), out);
  MK_TRY_GOTO(ctx, mt_config_set(ctx, &g.cfg, "precision", precision), out);
  MK_TRY_GOTO(ctx, open_files(&g), out);
  MK_TRY_GOTO(ctx, model_config(&g), out);
  MK_TRY_GOTO(ctx, optimizer_config(&g), out);
  MK_TRY_GOTO(ctx, read_batches(&g), out);
  MK_TRY_GOTO(ctx, mt_config_check(ctx, &g.cfg), out);
  detect_layout(&g);
  *out = g;
  return MK_OK;
out:
  golden_close(&g);
  return st;
}

void golden_close(golden_folder *g) {
  if (g->ctx == NULL) return;
  cJSON_Delete(g->json);
  mt_st_reader_destroy(g->f32);
  mt_st_reader_destroy(g->f64);
  mk_heap_free(g->ctx, g->tokens);
  mk_heap_free(g->ctx, g->labels);
  *g = (golden_folder){0};
}
