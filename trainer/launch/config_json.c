/* run.json: one flat object, key -> string, number or boolean. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "trainer/launch/config.h"

static mk_status set_item(mk_context *ctx, const char *path, const cJSON *item, mt_config *cfg) {
  char text[MT_TEXT_BYTES];
  if (cJSON_IsString(item)) {
    snprintf(text, sizeof text, "%s", item->valuestring);
  } else if (cJSON_IsBool(item)) {
    snprintf(text, sizeof text, "%s", cJSON_IsTrue(item) ? "true" : "false");
  } else if (cJSON_IsNumber(item)) {
    snprintf(text, sizeof text, "%.17g", item->valuedouble);
  } else {
    return MK_FAIL(ctx, MK_ERR_CONFIG, "%s: key '%s' must be a string, a number or a boolean", path, item->string);
  }
  if (mt_config_set(ctx, cfg, item->string, text) == MK_OK) return MK_OK;
  char inner[MK_MESSAGE_BYTES];
  snprintf(inner, sizeof inner, "%s", ctx->error.message);
  mk_error_clear(ctx);
  return MK_FAIL(ctx, MK_ERR_CONFIG, "%s: %.900s", path, inner);
}

mk_status mt_config_read(mk_context *ctx, const char *path, mt_config *cfg) {
  char *text = NULL;
  size_t bytes = 0;
  cJSON *root = NULL;
  mk_status st = MK_OK;
  mt_config fresh = *cfg;
  MK_TRY_GOTO(ctx, mk_file_read(ctx, path, &text, &bytes), out);
  root = cJSON_ParseWithLength(text, bytes);
  MK_CHECK_GOTO(ctx, cJSON_IsObject(root), MK_ERR_FORMAT, out,
                "%s: not a JSON object of keys (see the keys with moemark-trainer --help-keys)", path);
  for (const cJSON *item = root->child; item != NULL; item = item->next) {
    MK_TRY_GOTO(ctx, set_item(ctx, path, item, &fresh), out);
  }
  *cfg = fresh;
out:
  cJSON_Delete(root);
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

mk_status mt_config_write(mk_context *ctx, const char *path, const mt_config *cfg) {
  size_t count = 0;
  const mt_key *keys = mt_config_keys(&count);
  mk_status st = MK_OK;
  char *text = NULL;
  cJSON *root = cJSON_CreateObject();
  bool built = root != NULL;
  for (size_t i = 0; i < count && built; i++)
    built = add_item(root, cfg, &keys[i]);
  if (built) text = cJSON_Print(root);
  MK_CHECK_GOTO(ctx, text != NULL, MK_ERR_MEMORY, out, "%s: out of host memory while writing", path);
  MK_TRY_GOTO(ctx, mk_file_write(ctx, path, text, strlen(text)), out);
out:
  cJSON_free(text);
  cJSON_Delete(root);
  return st;
}
