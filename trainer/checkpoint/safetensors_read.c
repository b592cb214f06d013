/* Reader: values come through pread, never through a mapping, so that a file cut short while open is an error and not
 * a bus fault, and so that a rank reads only the bytes of what it owns. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "trainer/checkpoint/safetensors_header.h"

enum { LENGTH_BYTES = 8, HEADER_MAX_BYTES = 100000000, CHUNK_BYTES = 65536 };

struct mt_st_reader {
  mk_context *ctx;
  char *path;
  int fd;
  int64_t data_begin; /* file offset of the first value */
  mt_st_header header;
};

static mk_status read_at(const mt_st_reader *r, void *out, int64_t bytes, int64_t offset) {
  return mk_file_read_at(r->ctx, r->path, r->fd, out, bytes, offset);
}

static mk_status read_header(mt_st_reader *r, int64_t file_bytes) {
  mk_context *ctx = r->ctx;
  mk_status st = MK_OK;
  char *text = NULL;
  uint64_t length = 0;
  MK_CHECK(ctx, file_bytes >= LENGTH_BYTES, MK_ERR_FORMAT, "%s: %lld bytes are too few for a safetensors file", r->path,
           (long long)file_bytes);
  MK_TRY(ctx, read_at(r, &length, LENGTH_BYTES, 0));
  MK_CHECK(
      ctx, length <= HEADER_MAX_BYTES && length <= (uint64_t)(file_bytes - LENGTH_BYTES), MK_ERR_FORMAT,
      "%s: header length %llu is more than the file (%lld bytes) or the limit of %d: not safetensors, or cut short",
      r->path, (unsigned long long)length, (long long)file_bytes, HEADER_MAX_BYTES);
  MK_TRY_GOTO(ctx, mk_heap_alloc(ctx, (size_t)length + 1, &text), out);
  MK_TRY_GOTO(ctx, read_at(r, text, (int64_t)length, LENGTH_BYTES), out);
  r->data_begin = LENGTH_BYTES + (int64_t)length;
  MK_TRY_GOTO(ctx, mt_st_header_parse(ctx, r->path, text, (int64_t)length, file_bytes - r->data_begin, &r->header),
              out);
out:
  mk_heap_free(ctx, text);
  return st;
}

mk_status mt_st_reader_create(mk_context *ctx, const char *path, mt_st_reader **out) {
  mk_status st = MK_OK;
  mt_st_reader *r = NULL;
  int64_t file_bytes = 0;
  MK_TRY_GOTO(ctx, mk_heap_alloc(ctx, sizeof *r, &r), out);
  r->ctx = ctx;
  r->fd = -1;
  MK_TRY_GOTO(ctx, mk_heap_strdup(ctx, path, &r->path), out);
  MK_TRY_GOTO(ctx, mk_file_open(ctx, NULL, path, &r->fd, &file_bytes), out);
  MK_TRY_GOTO(ctx, read_header(r, file_bytes), out);
  *out = r;
  r = NULL;
out:
  mt_st_reader_destroy(r);
  return st;
}

void mt_st_reader_destroy(mt_st_reader *r) {
  if (r == NULL) return;
  mt_st_header_fini(r->ctx, &r->header);
  if (r->fd >= 0) close(r->fd);
  mk_heap_free(r->ctx, r->path);
  mk_heap_free(r->ctx, r);
}

const char *mt_st_reader_path(const mt_st_reader *r) { return r->path; }

int64_t mt_st_reader_count(const mt_st_reader *r) { return r->header.count; }

const mt_st_tensor *mt_st_reader_at(const mt_st_reader *r, int64_t index) { return &r->header.tensors[index]; }

static int name_against(const void *name, const void *tensor) {
  return strcmp(name, ((const mt_st_tensor *)tensor)->name);
}

const mt_st_tensor *mt_st_reader_find(const mt_st_reader *r, const char *name) {
  return bsearch(name, r->header.tensors, (size_t)r->header.count, sizeof r->header.tensors[0], name_against);
}

const char *mt_st_reader_metadata(const mt_st_reader *r, const char *key) {
  return cJSON_GetStringValue(
      cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(r->header.root, "__metadata__"), key));
}

static bool is_integer(mk_dtype dtype) { return dtype == MK_I32 || dtype == MK_I64 || dtype == MK_U8; }

static double load_real(mk_dtype dtype, const char *from) {
  double f64 = 0;
  float f32 = 0;
  mk_bf16 bf16 = 0;
  switch (dtype) {
    case MK_F64:
      memcpy(&f64, from, sizeof f64);
      return f64;
    case MK_BF16:
      memcpy(&bf16, from, sizeof bf16);
      return mk_bf16_to_f32(bf16);
    default:
      memcpy(&f32, from, sizeof f32);
      return f32;
  }
}

static int64_t load_integer(mk_dtype dtype, const char *from) {
  int64_t i64 = 0;
  int32_t i32 = 0;
  switch (dtype) {
    case MK_I64:
      memcpy(&i64, from, sizeof i64);
      return i64;
    case MK_I32:
      memcpy(&i32, from, sizeof i32);
      return i32;
    default:
      return (unsigned char)from[0];
  }
}

/* `first` is the flat index of from[0], for the message. */
static mk_status convert(const mt_st_reader *r, const mt_st_tensor *t, const char *from, int64_t first, int64_t count,
                         mk_dtype as, char *out) {
  int64_t size = (int64_t)mk_dtype_bytes(t->dtype);
  for (int64_t i = 0; i < count; i++) {
    const char *at = from + i * size;
    if (as == MK_F32) {
      ((float *)out)[i] = (float)load_real(t->dtype, at);
    } else if (as == MK_F64) {
      ((double *)out)[i] = load_real(t->dtype, at);
    } else {
      int64_t value = load_integer(t->dtype, at);
      MK_CHECK(r->ctx, as == MK_I64 || (value >= INT32_MIN && value <= INT32_MAX), MK_ERR_FORMAT,
               "%s: tensor '%s': element %lld is %lld, beyond 32 bits", r->path, t->name, (long long)(first + i),
               (long long)value);
      if (as == MK_I64) ((int64_t *)out)[i] = value;
      if (as == MK_I32) ((int32_t *)out)[i] = (int32_t)value;
    }
  }
  return MK_OK;
}

mk_status mt_st_reader_get(const mt_st_reader *r, const mt_st_tensor *t, int64_t first, int64_t count, mk_dtype as,
                           void *out) {
  int64_t size = (int64_t)mk_dtype_bytes(t->dtype);
  MK_CHECK(r->ctx, first >= 0 && count >= 0 && first <= t->count - count, MK_ERR_ARG,
           "%s: tensor '%s': elements %lld + %lld asked of %lld", r->path, t->name, (long long)first, (long long)count,
           (long long)t->count);
  int64_t offset = r->data_begin + t->begin_bytes + first * size;
  if (as == t->dtype) return read_at(r, out, count * size, offset);
  bool legal = is_integer(t->dtype) ? as == MK_I32 || as == MK_I64 : as == MK_F32 || as == MK_F64;
  MK_CHECK(r->ctx, legal, MK_ERR_FORMAT, "%s: tensor '%s': dtype %s cannot be read as %s", r->path, t->name,
           mt_st_dtype_name(t->dtype), mk_dtype_name(as));
  _Alignas(8) char chunk[CHUNK_BYTES];
  int64_t most = CHUNK_BYTES / size;
  for (int64_t done = 0; done < count; done += most) {
    int64_t n = count - done < most ? count - done : most;
    MK_TRY(r->ctx, read_at(r, chunk, n * size, offset + done * size));
    MK_TRY(r->ctx, convert(r, t, chunk, first + done, n, as, (char *)out + done * (int64_t)mk_dtype_bytes(as)));
  }
  return MK_OK;
}
