/* Header of a safetensors file. Everything that a damaged or hostile file can say is checked before any value is read:
 * cost O(n log n) in the number of tensors. The rules are those of the reference implementation (safetensors 0.5,
 * safetensors/src/tensor.rs: header of at most 100 MB, ranges contiguous from 0 to the end of the file). */
#include "trainer/checkpoint/safetensors_header.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "kernels/base/json.h"

#define LARGEST_EXACT 9007199254740992.0 /* 2^53: whole numbers below it are exact in a double */

static const struct {
  const char *name;
  mk_dtype dtype;
} DTYPES[] = {{"F32", MK_F32}, {"F64", MK_F64}, {"BF16", MK_BF16}, {"I32", MK_I32}, {"I64", MK_I64}, {"U8", MK_U8}};

/* Legal in the format, not read here. */
static const char *const OTHER_DTYPES[] = {"F16",  "I8",  "I16",     "U16",     "U32",    "U64",
                                           "BOOL", "C64", "F8_E4M3", "F8_E5M2", "F8_E8M0"};

const char *mt_st_dtype_name(mk_dtype dtype) {
  for (size_t i = 0; i < sizeof DTYPES / sizeof DTYPES[0]; i++) {
    if (DTYPES[i].dtype == dtype) return DTYPES[i].name;
  }
  return NULL;
}

const char *mt_st_shape_text(int n_dims, const int64_t *dim, char *text, size_t bytes) {
  size_t used = (size_t)snprintf(text, bytes, "[");
  for (int d = 0; d < n_dims && used < bytes; d++) {
    used += (size_t)snprintf(text + used, bytes - used, "%s%lld", d == 0 ? "" : ",", (long long)dim[d]);
  }
  if (used < bytes) snprintf(text + used, bytes - used, "]");
  return text;
}

static bool whole_number(const cJSON *item, int64_t *out) {
  if (!cJSON_IsNumber(item)) return false;
  double value = item->valuedouble;
  if (!(value >= 0 && value < LARGEST_EXACT)) return false;
  *out = (int64_t)value;
  return (double)*out == value;
}

static mk_status parse_dtype(mk_context *ctx, const char *path, const cJSON *item, mt_st_tensor *t) {
  MK_CHECK(ctx, cJSON_IsString(item), MK_ERR_FORMAT, "%s: tensor '%s': dtype is missing or not a string", path,
           t->name);
  for (size_t i = 0; i < sizeof DTYPES / sizeof DTYPES[0]; i++) {
    if (strcmp(item->valuestring, DTYPES[i].name) != 0) continue;
    t->dtype = DTYPES[i].dtype;
    return MK_OK;
  }
  for (size_t i = 0; i < sizeof OTHER_DTYPES / sizeof OTHER_DTYPES[0]; i++) {
    MK_CHECK(ctx, strcmp(item->valuestring, OTHER_DTYPES[i]) != 0, MK_ERR_UNSUPPORTED,
             "%s: tensor '%s': dtype %s is not read; convert it to F32, F64, BF16, I32, I64 or U8", path, t->name,
             item->valuestring);
  }
  return MK_FAIL(ctx, MK_ERR_FORMAT, "%s: tensor '%s': unknown dtype '%.32s'", path, t->name, item->valuestring);
}

static mk_status parse_shape(mk_context *ctx, const char *path, const cJSON *list, mt_st_tensor *t) {
  MK_CHECK(ctx, cJSON_IsArray(list), MK_ERR_FORMAT, "%s: tensor '%s': shape is missing or not a list", path, t->name);
  t->count = 1;
  for (const cJSON *item = list->child; item != NULL; item = item->next) {
    MK_CHECK(ctx, t->n_dims < MT_ST_MAX_DIMS, MK_ERR_FORMAT, "%s: tensor '%s': more than %d dims", path, t->name,
             MT_ST_MAX_DIMS);
    int64_t dim = 0;
    MK_CHECK(ctx, whole_number(item, &dim), MK_ERR_FORMAT, "%s: tensor '%s': dim %d of the shape is not a whole number",
             path, t->name, t->n_dims);
    MK_CHECK(ctx, !__builtin_mul_overflow(t->count, dim, &t->count), MK_ERR_FORMAT,
             "%s: tensor '%s': the shape has more than 2^63 elements", path, t->name);
    t->dim[t->n_dims++] = dim;
  }
  return MK_OK;
}

static mk_status parse_range(mk_context *ctx, const char *path, const cJSON *list, int64_t data_bytes,
                             mt_st_tensor *t) {
  MK_CHECK(ctx, cJSON_IsArray(list) && cJSON_GetArraySize(list) == 2, MK_ERR_FORMAT,
           "%s: tensor '%s': data_offsets is not a list of two numbers", path, t->name);
  int64_t begin = 0, end = 0, bytes = 0;
  MK_CHECK(ctx, whole_number(list->child, &begin) && whole_number(list->child->next, &end), MK_ERR_FORMAT,
           "%s: tensor '%s': data_offsets are not whole numbers", path, t->name);
  MK_CHECK(ctx, begin <= end && end <= data_bytes, MK_ERR_FORMAT,
           "%s: tensor '%s': bytes %lld to %lld lie outside the %lld bytes of data (file cut short?)", path, t->name,
           (long long)begin, (long long)end, (long long)data_bytes);
  char shape[128];
  bool overflow = __builtin_mul_overflow(t->count, (int64_t)mk_dtype_bytes(t->dtype), &bytes);
  MK_CHECK(ctx, !overflow && bytes == end - begin, MK_ERR_FORMAT,
           "%s: tensor '%s': %s%s has other than the %lld bytes of its data_offsets", path, t->name,
           mt_st_dtype_name(t->dtype), mt_st_shape_text(t->n_dims, t->dim, shape, sizeof shape),
           (long long)(end - begin));
  t->begin_bytes = begin;
  return MK_OK;
}

static mk_status parse_tensor(mk_context *ctx, const char *path, const cJSON *item, int64_t data_bytes,
                              mt_st_tensor *t) {
  *t = (mt_st_tensor){.name = item->string};
  MK_CHECK(ctx, cJSON_IsObject(item) && cJSON_GetArraySize(item) == 3, MK_ERR_FORMAT,
           "%s: tensor '%s': expected an object of dtype, shape and data_offsets", path, t->name);
  MK_TRY(ctx, parse_dtype(ctx, path, cJSON_GetObjectItemCaseSensitive(item, "dtype"), t));
  MK_TRY(ctx, parse_shape(ctx, path, cJSON_GetObjectItemCaseSensitive(item, "shape"), t));
  return parse_range(ctx, path, cJSON_GetObjectItemCaseSensitive(item, "data_offsets"), data_bytes, t);
}

static mk_status check_metadata(mk_context *ctx, const char *path, const cJSON *item) {
  MK_CHECK(ctx, cJSON_IsObject(item), MK_ERR_FORMAT, "%s: __metadata__ is not an object", path);
  for (const cJSON *entry = item->child; entry != NULL; entry = entry->next) {
    MK_CHECK(ctx, cJSON_IsString(entry), MK_ERR_FORMAT, "%s: __metadata__ '%s' is not a string", path, entry->string);
  }
  return MK_OK;
}

static int by_range(const void *pa, const void *pb) {
  const mt_st_tensor *a = pa, *b = pb;
  if (a->begin_bytes != b->begin_bytes) return a->begin_bytes < b->begin_bytes ? -1 : 1;
  return (a->count > b->count) - (a->count < b->count); /* empty ones first */
}

static int by_name(const void *pa, const void *pb) {
  const mt_st_tensor *a = pa, *b = pb;
  return strcmp(a->name, b->name);
}

static mk_status check_coverage(mk_context *ctx, const char *path, mt_st_header *h, int64_t data_bytes) {
  qsort(h->tensors, (size_t)h->count, sizeof h->tensors[0], by_range);
  int64_t next = 0;
  for (int64_t i = 0; i < h->count; i++) {
    const mt_st_tensor *t = &h->tensors[i];
    MK_CHECK(ctx, t->begin_bytes == next, MK_ERR_FORMAT,
             "%s: tensor '%s': starts at byte %lld where %lld is next; ranges must neither overlap nor leave gaps",
             path, t->name, (long long)t->begin_bytes, (long long)next);
    next += t->count * (int64_t)mk_dtype_bytes(t->dtype);
  }
  MK_CHECK(ctx, next == data_bytes, MK_ERR_FORMAT, "%s: %lld bytes of data, but the tensors cover %lld", path,
           (long long)data_bytes, (long long)next);
  qsort(h->tensors, (size_t)h->count, sizeof h->tensors[0], by_name);
  for (int64_t i = 1; i < h->count; i++) {
    MK_CHECK(ctx, strcmp(h->tensors[i - 1].name, h->tensors[i].name) != 0, MK_ERR_FORMAT,
             "%s: tensor '%s' stands twice in the header", path, h->tensors[i].name);
  }
  return MK_OK;
}

mk_status mt_st_header_parse(mk_context *ctx, const char *path, const char *text, int64_t bytes, int64_t data_bytes,
                             mt_st_header *out) {
  mk_status st = MK_OK;
  mt_st_header h = {0};
  st = mk_json_parse(ctx, MK_ERR_FORMAT, "header", text, (size_t)bytes, &h.root);
  if (st != MK_OK) mk_error_prefix(ctx, path);
  MK_TRY(ctx, st);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)cJSON_GetArraySize(h.root), sizeof h.tensors[0], &h.tensors), out);
  for (const cJSON *item = h.root->child; item != NULL; item = item->next) {
    if (strcmp(item->string, "__metadata__") == 0) {
      MK_TRY_GOTO(ctx, check_metadata(ctx, path, item), out);
      continue;
    }
    MK_TRY_GOTO(ctx, parse_tensor(ctx, path, item, data_bytes, &h.tensors[h.count]), out);
    h.count += 1;
  }
  MK_TRY_GOTO(ctx, check_coverage(ctx, path, &h, data_bytes), out);
  *out = h;
  h = (mt_st_header){0};
out:
  mt_st_header_fini(ctx, &h);
  return st;
}

void mt_st_header_fini(mk_context *ctx, mt_st_header *header) {
  mk_heap_free(ctx, header->tensors);
  cJSON_Delete(header->root);
  *header = (mt_st_header){0};
}
