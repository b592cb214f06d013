/* run.json: one flat object, key -> string, number or boolean. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "kernels/base/json.h"
#include "trainer/launch/config.h"

static mk_status set_item(mk_context *ctx, const cJSON *item, mt_config *cfg) {
  char text[MT_TEXT_BYTES];
  const char *value = text;
  if (cJSON_IsString(item)) {
    value = item->valuestring;
  } else if (cJSON_IsBool(item)) {
    value = cJSON_IsTrue(item) ? "true" : "false";
  } else if (cJSON_IsNumber(item)) {
    snprintf(text, sizeof text, "%.17g", item->valuedouble);
  } else {
    return MK_FAIL(ctx, MK_ERR_CONFIG, "key '%.60s' must be a string, a number or a boolean", item->string);
  }
  return mt_config_set(ctx, cfg, item->string, value);
}

mk_status mt_config_parse(mk_context *ctx, const char *where, const char *text, size_t bytes, mt_config *cfg) {
  cJSON *root = NULL;
  mk_status st = MK_OK;
  mt_config fresh = *cfg;
  MK_TRY(ctx, mk_json_parse(ctx, MK_ERR_CONFIG, where, text, bytes, &root));
  MK_TRY_GOTO(ctx, mk_json_check_keys(ctx, MK_ERR_CONFIG, where, root), out);
  for (const cJSON *item = root->child; item != NULL && st == MK_OK; item = item->next) {
    st = set_item(ctx, item, &fresh);
    if (st != MK_OK) mk_error_prefix(ctx, where);
  }
  if (st == MK_OK) *cfg = fresh;
out:
  cJSON_Delete(root);
  return st;
}

mk_status mt_config_read(mk_context *ctx, const char *path, mt_config *cfg) {
  char *text = NULL;
  size_t bytes = 0;
  mk_status st = mk_file_read(ctx, path, &text, &bytes);
  if (st == MK_ERR_IO) st = ctx->error.status = MK_ERR_CONFIG; /* the name is a part of the configuration */
  MK_TRY(ctx, st);
  st = mt_config_parse(ctx, path, text, bytes, cfg);
  mk_heap_free(ctx, text);
  return st;
}

/* JSON has no place for a bare enum word or path, so everything but numbers and booleans is a string. */
static bool add_item(cJSON *root, const mt_config *cfg, const mt_key *key) {
  char text[MT_TEXT_BYTES];
  mt_config_get(cfg, key, text, sizeof text);
  if (key->type == MT_KEY_ENUM || key->type == MT_KEY_TEXT)
    return cJSON_AddStringToObject(root, key->name, text) != NULL;
  return cJSON_AddRawToObject(root, key->name, text) != NULL;
}

mk_status mt_config_print(mk_context *ctx, const mt_config *cfg, char **out) {
  size_t count = 0;
  const mt_key *keys = mt_config_keys(&count);
  mk_status st = MK_OK;
  char *text = NULL;
  cJSON *root = cJSON_CreateObject();
  bool built = root != NULL;
  for (size_t i = 0; i < count && built; i++)
    built = add_item(root, cfg, &keys[i]);
  if (built) text = cJSON_Print(root);
  MK_CHECK_GOTO(ctx, text != NULL, MK_ERR_MEMORY, out, "out of host memory while writing the configuration");
  MK_TRY_GOTO(ctx, mk_heap_strdup(ctx, text, out), out);
out:
  cJSON_free(text);
  cJSON_Delete(root);
  return st;
}

mk_status mt_config_write(mk_context *ctx, const char *path, const mt_config *cfg) {
  char *text = NULL;
  MK_TRY(ctx, mt_config_print(ctx, cfg, &text));
  mk_status st = mk_file_write(ctx, path, text, strlen(text));
  mk_heap_free(ctx, text);
  return st;
}
