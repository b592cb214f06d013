/* Opening one file or the shards of an index (the "weight_map" of model.safetensors.index.json: tensor -> file). */
#include "trainer/checkpoint/safetensors_set.h"

#include <cjson/cJSON.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/base/heap.h"
#include "kernels/base/json.h"

static mk_status add_file(mt_st_set *set, const char *path) {
  mk_context *ctx = set->ctx;
  MK_TRY(ctx, mk_heap_resize(ctx, &set->reader, (size_t)(set->count + 1) * sizeof set->reader[0]));
  MK_TRY(ctx, mt_st_reader_create(ctx, path, &set->reader[set->count]));
  set->count += 1;
  return MK_OK;
}

static const mt_st_reader *find_file(const mt_st_set *set, const char *path) {
  for (int64_t i = 0; i < set->count; i++) {
    if (strcmp(mt_st_reader_path(set->reader[i]), path) == 0) return set->reader[i];
  }
  return NULL;
}

/* One entry of the index: opens its shard when new, checks that the tensor is there. */
static mk_status add_entry(mt_st_set *set, const char *folder, const char *index_path, const cJSON *entry) {
  mk_context *ctx = set->ctx;
  mk_status st = MK_OK;
  char *path = NULL;
  MK_CHECK(ctx, cJSON_IsString(entry) && strchr(entry->valuestring, '/') == NULL, MK_ERR_FORMAT,
           "%s: weight_map '%s' does not name a file of the folder", index_path, entry->string);
  MK_TRY_GOTO(ctx, mk_heap_printf(ctx, &path, "%s/%s", folder, entry->valuestring), out);
  if (find_file(set, path) == NULL) MK_TRY_GOTO(ctx, add_file(set, path), out);
  MK_CHECK_GOTO(ctx, mt_st_reader_find(find_file(set, path), entry->string) != NULL, MK_ERR_FORMAT, out,
                "%s: tensor '%s' is missing, but %s places it there", path, entry->string, index_path);
out:
  mk_heap_free(ctx, path);
  return st;
}

static mk_status check_unique(const mt_st_set *set) {
  for (int64_t a = 1; a < set->count; a++) {
    for (int64_t i = 0; i < mt_st_reader_count(set->reader[a]); i++) {
      const char *name = mt_st_reader_at(set->reader[a], i)->name;
      for (int64_t b = 0; b < a; b++) {
        MK_CHECK(set->ctx, mt_st_reader_find(set->reader[b], name) == NULL, MK_ERR_FORMAT,
                 "tensor '%s' stands in %s and in %s", name, mt_st_reader_path(set->reader[b]),
                 mt_st_reader_path(set->reader[a]));
      }
    }
  }
  return MK_OK;
}

static mk_status open_index(mt_st_set *set, const char *folder, const char *index_path) {
  mk_context *ctx = set->ctx;
  mk_status st = MK_OK;
  cJSON *root = NULL;
  MK_TRY(ctx, mk_json_read(ctx, index_path, &root));
  const cJSON *map = cJSON_GetObjectItemCaseSensitive(root, "weight_map");
  MK_CHECK_GOTO(ctx, cJSON_IsObject(map) && map->child != NULL, MK_ERR_FORMAT, out,
                "%s: no weight_map object: not an index of safetensors shards", index_path);
  for (const cJSON *entry = map->child; entry != NULL; entry = entry->next) {
    MK_TRY_GOTO(ctx, add_entry(set, folder, index_path, entry), out);
  }
  MK_TRY_GOTO(ctx, check_unique(set), out);
out:
  cJSON_Delete(root);
  return st;
}

static mk_status open_folder(mt_st_set *set, const char *folder) {
  mk_context *ctx = set->ctx;
  mk_status st = MK_OK;
  char *one = NULL, *index = NULL;
  struct stat info;
  MK_TRY_GOTO(ctx, mk_heap_printf(ctx, &one, "%s/model.safetensors", folder), out);
  MK_TRY_GOTO(ctx, mk_heap_printf(ctx, &index, "%s/model.safetensors.index.json", folder), out);
  if (stat(index, &info) == 0) {
    MK_TRY_GOTO(ctx, open_index(set, folder, index), out);
  } else {
    MK_CHECK_GOTO(ctx, stat(one, &info) == 0, MK_ERR_IO, out,
                  "%s: the folder holds neither model.safetensors nor model.safetensors.index.json", folder);
    MK_TRY_GOTO(ctx, add_file(set, one), out);
  }
out:
  mk_heap_free(ctx, one);
  mk_heap_free(ctx, index);
  return st;
}

mk_status mt_st_set_open(mk_context *ctx, const char *path, mt_st_set *out) {
  mk_status st = MK_OK;
  mt_st_set set = {.ctx = ctx};
  struct stat info;
  bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
  MK_TRY_GOTO(ctx, folder ? open_folder(&set, path) : add_file(&set, path), out);
  *out = set;
  set.count = 0;
  set.reader = NULL;
out:
  mt_st_set_fini(&set);
  return st;
}

void mt_st_set_fini(mt_st_set *set) {
  for (int64_t i = 0; i < set->count; i++)
    mt_st_reader_destroy(set->reader[i]);
  mk_heap_free(set->ctx, set->reader);
  *set = (mt_st_set){.ctx = set->ctx};
}

bool mt_st_set_find(const mt_st_set *set, const char *name, const mt_st_reader **reader, const mt_st_tensor **tensor) {
  for (int64_t i = 0; i < set->count; i++) {
    const mt_st_tensor *found = mt_st_reader_find(set->reader[i], name);
    if (found == NULL) continue;
    *reader = set->reader[i];
    *tensor = found;
    return true;
  }
  return false;
}
