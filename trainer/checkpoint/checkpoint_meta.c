/* See checkpoint_meta.h. The file is small; everything in it is checked before anything of it is used. */
#include "trainer/checkpoint/checkpoint_meta.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "kernels/base/json.h"

#define SCHEMA "moemark/checkpoint/1"
#define CHECKSUM_KEY ",\"checksum\":\""
#define LARGEST_EXACT 9007199254740992.0 /* 2^53 */

enum { PATH_BYTES = 1024 };

static mk_status path_of(mk_context *ctx, const char *folder, const char *name, char path[PATH_BYTES]) {
  int length = snprintf(path, PATH_BYTES, "%s/%s", folder, name);
  MK_CHECK(ctx, length < PATH_BYTES, MK_ERR_CONFIG, "%s: the name is too long", folder);
  return MK_OK;
}

mk_status mt_checkpoint_file_describe(mk_context *ctx, const char *folder, const char *name, mt_checkpoint_file *out) {
  char path[PATH_BYTES];
  mt_checkpoint_file file = {0};
  int fd = -1;
  MK_TRY(ctx, path_of(ctx, folder, name, path));
  MK_TRY(ctx, mk_file_open(ctx, NULL, path, &fd, &file.bytes));
  close(fd);
  MK_TRY(ctx, mk_hash_file(ctx, path, file.sha256));
  snprintf(file.name, sizeof file.name, "%s", name);
  *out = file;
  return MK_OK;
}

mk_status mt_checkpoint_file_check(mk_context *ctx, const char *folder, const mt_checkpoint_file *file) {
  char path[PATH_BYTES], found[MK_HASH_BYTES];
  int fd = -1;
  int64_t bytes = 0;
  MK_TRY(ctx, path_of(ctx, folder, file->name, path));
  MK_TRY(ctx, mk_file_open(ctx, NULL, path, &fd, &bytes));
  close(fd);
  MK_CHECK(ctx, bytes == file->bytes, MK_ERR_FORMAT, "%s: %lld bytes, but it was written with %lld%s", path,
           (long long)bytes, (long long)file->bytes, bytes < file->bytes ? " (cut short)" : "");
  MK_TRY(ctx, mk_hash_file(ctx, path, found));
  MK_CHECK(ctx, strcmp(found, file->sha256) == 0, MK_ERR_FORMAT,
           "%s: its SHA-256 is %.12s..., but it was written with %.12s...: the file was altered or the disk is faulty",
           path, found, file->sha256);
  return MK_OK;
}

static bool add_files(cJSON *root, const mt_checkpoint_meta *meta) {
  cJSON *list = cJSON_AddArrayToObject(root, "files");
  bool ok = list != NULL;
  for (int64_t i = 0; i < meta->files && ok; i++) {
    cJSON *item = cJSON_CreateObject();
    ok = item != NULL && cJSON_AddItemToArray(list, item) &&
         cJSON_AddStringToObject(item, "name", meta->file[i].name) != NULL &&
         cJSON_AddNumberToObject(item, "bytes", (double)meta->file[i].bytes) != NULL &&
         cJSON_AddStringToObject(item, "sha256", meta->file[i].sha256) != NULL;
  }
  return ok;
}

static bool add_all(cJSON *root, const mt_checkpoint_meta *meta, const char *config) {
  return root != NULL && cJSON_AddStringToObject(root, "schema", SCHEMA) != NULL &&
         cJSON_AddNumberToObject(root, "step", (double)meta->step) != NULL &&
         cJSON_AddNumberToObject(root, "taken", (double)meta->taken) != NULL &&
         cJSON_AddNumberToObject(root, "windows", (double)meta->windows) != NULL &&
         cJSON_AddNumberToObject(root, "trained_s", meta->trained_s) != NULL &&
         cJSON_AddNumberToObject(root, "schedule_end", (double)meta->schedule_end) != NULL &&
         cJSON_AddNumberToObject(root, "evaluated", (double)meta->evaluated) != NULL &&
         cJSON_AddNumberToObject(root, "end", (double)meta->end) != NULL &&
         cJSON_AddStringToObject(root, "data", meta->fingerprint) != NULL &&
         cJSON_AddRawToObject(root, "config", config) != NULL && add_files(root, meta);
}

/* The text of the file, checksum included; freed with mk_heap_free. */
static mk_status print(mk_context *ctx, const mt_checkpoint_meta *meta, char **out) {
  mk_status st = MK_OK;
  char *config = NULL, *text = NULL, sum[MK_HASH_BYTES];
  cJSON *root = cJSON_CreateObject();
  MK_TRY_GOTO(ctx, mt_config_print(ctx, &meta->config, &config), out);
  if (add_all(root, meta, config)) text = cJSON_PrintUnformatted(root);
  MK_CHECK_GOTO(ctx, text != NULL, MK_ERR_MEMORY, out, "out of host memory while writing checkpoint.json");
  size_t body = strlen(text) - 1; /* without the closing brace */
  MK_TRY_GOTO(ctx, mk_hash_bytes(ctx, text, body, sum), out);
  MK_TRY_GOTO(ctx, mk_heap_printf(ctx, out, "%.*s" CHECKSUM_KEY "%s\"}\n", (int)body, text, sum), out);
out:
  cJSON_free(text);
  cJSON_Delete(root);
  mk_heap_free(ctx, config);
  return st;
}

mk_status mt_checkpoint_meta_write(mk_context *ctx, const char *folder, const mt_checkpoint_meta *meta) {
  char path[PATH_BYTES], *text = NULL;
  MK_TRY(ctx, path_of(ctx, folder, "checkpoint.json", path));
  MK_TRY(ctx, print(ctx, meta, &text));
  mk_status st = mk_file_write(ctx, path, text, strlen(text));
  mk_heap_free(ctx, text);
  return st;
}

static mk_status check_sum(mk_context *ctx, const char *path, const char *text, size_t bytes) {
  const size_t tail = strlen(CHECKSUM_KEY) + MK_HASH_BYTES - 1 + strlen("\"}\n");
  char sum[MK_HASH_BYTES];
  bool whole = bytes > tail && strlen(text) == bytes;
  const char *end = whole ? text + bytes - tail : text;
  whole = whole && strncmp(end, CHECKSUM_KEY, strlen(CHECKSUM_KEY)) == 0 && strcmp(text + bytes - 3, "\"}\n") == 0;
  MK_CHECK(ctx, whole, MK_ERR_FORMAT, "%s: does not end in its checksum: cut short, or not written by moemark", path);
  MK_TRY(ctx, mk_hash_bytes(ctx, text, bytes - tail, sum));
  MK_CHECK(ctx, strncmp(end + strlen(CHECKSUM_KEY), sum, MK_HASH_BYTES - 1) == 0, MK_ERR_FORMAT,
           "%s: the content does not fit its checksum: the file was altered or the disk is faulty", path);
  return MK_OK;
}

static mk_status get_number(mk_context *ctx, const char *path, const cJSON *root, const char *key, double *out) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, key);
  MK_CHECK(ctx, cJSON_IsNumber(item) && item->valuedouble >= 0, MK_ERR_FORMAT,
           "%s: '%s' is missing or no number from 0 up", path, key);
  *out = item->valuedouble;
  return MK_OK;
}

static mk_status get_whole(mk_context *ctx, const char *path, const cJSON *root, const char *key, int64_t *out) {
  double value = 0;
  MK_TRY(ctx, get_number(ctx, path, root, key, &value));
  MK_CHECK(ctx, value < LARGEST_EXACT && (double)(int64_t)value == value, MK_ERR_FORMAT,
           "%s: '%s' is %g, which is no whole number below 2^53", path, key, value);
  *out = (int64_t)value;
  return MK_OK;
}

/* Leaves *out where an older file does not have the key. */
static mk_status get_later_whole(mk_context *ctx, const char *path, const cJSON *root, const char *key, int64_t *out) {
  if (cJSON_GetObjectItemCaseSensitive(root, key) == NULL) return MK_OK;
  return get_whole(ctx, path, root, key, out);
}

static mk_status get_text(mk_context *ctx, const char *path, const cJSON *root, const char *key, char *out,
                          size_t bytes) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, key));
  MK_CHECK(ctx, text != NULL && strlen(text) < bytes, MK_ERR_FORMAT, "%s: '%s' is missing or too long", path, key);
  strcpy(out, text);
  return MK_OK;
}

static mk_status get_files(mk_context *ctx, const char *path, const cJSON *root, mt_checkpoint_meta *meta) {
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "files");
  MK_CHECK(ctx, cJSON_IsArray(list) && cJSON_GetArraySize(list) > 0, MK_ERR_FORMAT, "%s: 'files' is missing or empty",
           path);
  MK_TRY(ctx, mk_heap_array(ctx, (size_t)cJSON_GetArraySize(list), sizeof *meta->file, &meta->file));
  for (const cJSON *item = list->child; item != NULL; item = item->next) {
    mt_checkpoint_file *file = &meta->file[meta->files];
    MK_TRY(ctx, get_text(ctx, path, item, "name", file->name, sizeof file->name));
    MK_CHECK(ctx, strchr(file->name, '/') == NULL, MK_ERR_FORMAT, "%s: file name '%s' leads out of the folder", path,
             file->name);
    MK_TRY(ctx, get_whole(ctx, path, item, "bytes", &file->bytes));
    MK_TRY(ctx, get_text(ctx, path, item, "sha256", file->sha256, sizeof file->sha256));
    meta->files += 1;
  }
  return MK_OK;
}

/* Keys that the file does not have, because it is older than they are, keep their defaults. */
static mk_status get_config(mk_context *ctx, const char *path, const cJSON *root, mt_config *out) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, "config");
  char *text = cJSON_IsObject(item) ? cJSON_PrintUnformatted(item) : NULL;
  MK_CHECK(ctx, text != NULL, MK_ERR_FORMAT, "%s: 'config' is missing or no object", path);
  *out = mt_config_default();
  mk_status st = mt_config_parse(ctx, path, text, strlen(text), out);
  cJSON_free(text);
  if (st != MK_OK) st = ctx->error.status = MK_ERR_FORMAT; /* the fault is the file's, not the caller's */
  return st;
}

static mk_status get_all(mk_context *ctx, const char *path, const cJSON *root, mt_checkpoint_meta *meta) {
  char schema[64];
  MK_TRY(ctx, get_text(ctx, path, root, "schema", schema, sizeof schema));
  MK_CHECK(ctx, strcmp(schema, SCHEMA) == 0, MK_ERR_FORMAT, "%s: schema '%s', expected '%s'", path, schema, SCHEMA);
  MK_TRY(ctx, get_whole(ctx, path, root, "step", &meta->step));
  MK_TRY(ctx, get_whole(ctx, path, root, "taken", &meta->taken));
  MK_TRY(ctx, get_whole(ctx, path, root, "windows", &meta->windows));
  MK_TRY(ctx, get_number(ctx, path, root, "trained_s", &meta->trained_s));
  MK_TRY(ctx, get_whole(ctx, path, root, "schedule_end", &meta->schedule_end));
  meta->evaluated = meta->step;
  MK_TRY(ctx, get_later_whole(ctx, path, root, "evaluated", &meta->evaluated));
  MK_TRY(ctx, get_later_whole(ctx, path, root, "end", &meta->end));
  MK_TRY(ctx, get_text(ctx, path, root, "data", meta->fingerprint, sizeof meta->fingerprint));
  MK_TRY(ctx, get_config(ctx, path, root, &meta->config));
  return get_files(ctx, path, root, meta);
}

mk_status mt_checkpoint_meta_read(mk_context *ctx, const char *folder, mt_checkpoint_meta *out) {
  mk_status st = MK_OK;
  mt_checkpoint_meta meta = {0};
  char path[PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  cJSON *root = NULL;
  MK_TRY_GOTO(ctx, path_of(ctx, folder, "checkpoint.json", path), out);
  MK_TRY_GOTO(ctx, mk_file_read(ctx, path, &text, &bytes), out);
  MK_TRY_GOTO(ctx, check_sum(ctx, path, text, bytes), out);
  MK_TRY_GOTO(ctx, mk_json_parse(ctx, MK_ERR_FORMAT, path, text, bytes, &root), out);
  MK_TRY_GOTO(ctx, get_all(ctx, path, root, &meta), out);
  *out = meta;
  meta = (mt_checkpoint_meta){0};
out:
  mt_checkpoint_meta_fini(ctx, &meta);
  cJSON_Delete(root);
  mk_heap_free(ctx, text);
  return st;
}

void mt_checkpoint_meta_fini(mk_context *ctx, mt_checkpoint_meta *meta) {
  mk_heap_free(ctx, meta->file);
  meta->file = NULL;
  meta->files = 0;
}
