/* See token_file.h. The file is never loaded whole. */
#include "trainer/data/token_file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "trainer/data/npy_header.h"

static mk_status read_bin_header(mk_context *ctx, mt_token_file *file, int64_t bytes) {
  static const struct {
    int32_t magic, version;
    int width;
  } kinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};
  int32_t header[256];
  MK_CHECK(ctx, bytes >= (int64_t)sizeof header, MK_ERR_FORMAT,
           "data_path: %s: %lld bytes are too few for the 1,024 of a bin header", file->path, (long long)bytes);
  MK_TRY(ctx, mk_file_read_at(ctx, file->path, file->fd, header, sizeof header, 0));
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if (header[0] == kinds[i].magic && header[1] == kinds[i].version) file->width = kinds[i].width;
  }
  MK_CHECK(ctx, file->width > 0, MK_ERR_FORMAT,
           "data_path: %s: magic %d, version %d; a bin file of tokens has 20240520 and 1 (u16) or 20240801 and 7 (u32)",
           file->path, (int)header[0], (int)header[1]);
  file->begin_bytes = sizeof header;
  file->tokens = header[2];
  MK_CHECK(ctx, file->tokens >= 0 && file->begin_bytes + file->tokens * file->width == bytes, MK_ERR_FORMAT,
           "data_path: %s: the header says %lld tokens of %d bytes, but %lld bytes follow it (cut short?)", file->path,
           (long long)file->tokens, file->width, (long long)(bytes - file->begin_bytes));
  return MK_OK;
}

/* Smallest width that holds every token. */
static int width_for(int64_t vocab) { return vocab <= 1 << 8 ? 1 : vocab <= 1 << 16 ? 2 : 4; }

static mk_status size_raw(mk_context *ctx, const mt_config *cfg, mt_token_file *file, int64_t bytes) {
  static const int widths[] = {
      [MT_DTYPE_AUTO] = 0, [MT_DTYPE_U8] = 1, [MT_DTYPE_U16] = 2, [MT_DTYPE_U32] = 4, [MT_DTYPE_U64] = 8};
  file->width = widths[cfg->data_dtype] > 0 ? widths[cfg->data_dtype] : width_for(cfg->vocab);
  MK_CHECK(ctx, bytes % file->width == 0, MK_ERR_FORMAT,
           "data_path: %s: %lld bytes are no whole number of %d-byte tokens; set data_dtype to the file's", file->path,
           (long long)bytes, file->width);
  file->tokens = bytes / file->width;
  return MK_OK;
}

static mk_status read_npy_header(mk_context *ctx, const mt_config *cfg, mt_token_file *file, int64_t bytes) {
  char head[MT_NPY_HEAD_BYTES];
  mt_npy_header npy = {0};
  int64_t got = bytes < MT_NPY_HEAD_BYTES ? bytes : MT_NPY_HEAD_BYTES;
  MK_TRY(ctx, mk_file_read_at(ctx, file->path, file->fd, head, got, 0));
  if (!mt_npy_header_is(head, got)) return size_raw(ctx, cfg, file, bytes);
  MK_TRY(ctx, mt_npy_header_parse(ctx, file->path, head, got, &npy));
  file->width = npy.width;
  file->begin_bytes = npy.begin_bytes;
  file->tokens = npy.count;
  MK_CHECK(ctx, npy.count <= bytes / npy.width && npy.begin_bytes + npy.count * npy.width == bytes, MK_ERR_FORMAT,
           "data_path: %s: the header says %lld tokens of %d bytes, but %lld bytes follow it (cut short?)", file->path,
           (long long)npy.count, npy.width, (long long)(bytes - npy.begin_bytes));
  MK_CHECK(ctx, cfg->data_dtype == MT_DTYPE_AUTO || npy.width == 1 << (cfg->data_dtype - MT_DTYPE_U8), MK_ERR_FORMAT,
           "data_path: %s: its header says tokens of %d bytes, data_dtype says otherwise", file->path, npy.width);
  return MK_OK;
}

static mk_status read_layout(mk_context *ctx, const mt_config *cfg, mt_token_format format, mt_token_file *file,
                             int64_t bytes) {
  switch (format) {
    case MT_TOKENS_BIN:
      return read_bin_header(ctx, file, bytes);
    case MT_TOKENS_NPY:
      return read_npy_header(ctx, cfg, file, bytes);
    default:
      file->width = 1;
      file->tokens = bytes;
      return MK_OK;
  }
}

mk_status mt_token_file_open(mk_context *ctx, const mt_config *cfg, mt_token_format format, const char *path,
                             mt_token_file *out) {
  mk_status st = MK_OK;
  mt_token_file file = {.fd = -1};
  int64_t bytes = 0;
  MK_TRY_GOTO(ctx, mk_file_open(ctx, "data_path", path, &file.fd, &bytes), out);
  MK_TRY_GOTO(ctx, mk_heap_strdup(ctx, path, &file.path), out);
  MK_CHECK_GOTO(ctx, bytes > 0, MK_ERR_FORMAT, out, "data_path: %s: the file is empty", path);
  MK_TRY_GOTO(ctx, read_layout(ctx, cfg, format, &file, bytes), out);
  *out = file;
  file = (mt_token_file){.fd = -1};
out:
  mt_token_file_close(ctx, &file);
  return st;
}

void mt_token_file_close(mk_context *ctx, mt_token_file *file) {
  if (file->fd >= 0) close(file->fd);
  mk_heap_free(ctx, file->path);
  *file = (mt_token_file){.fd = -1};
}

static uint64_t token_at(const unsigned char *raw, int width) {
  uint64_t value = 0;
  for (int i = width - 1; i >= 0; i--)
    value = value << 8 | raw[i];
  return value;
}

mk_status mt_token_file_read(mk_context *ctx, const mt_token_file *file, int64_t first, int64_t count, int64_t vocab,
                             unsigned char *raw, int32_t *out) {
  int64_t offset = file->begin_bytes + first * file->width;
  MK_TRY(ctx, mk_file_read_at(ctx, file->path, file->fd, raw, count * file->width, offset));
  for (int64_t i = 0; i < count; i++) {
    uint64_t value = token_at(raw + i * file->width, file->width);
    MK_CHECK(ctx, value < (uint64_t)vocab, MK_ERR_FORMAT,
             "%s: token %lld at byte %lld is %llu, outside the vocabulary of %lld", file->path, (long long)(first + i),
             (long long)(offset + i * file->width), (unsigned long long)value, (long long)vocab);
    out[i] = (int32_t)value;
  }
  return MK_OK;
}
