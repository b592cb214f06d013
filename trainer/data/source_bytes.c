/* A file's bytes as tokens 0..255. The file is never loaded whole: a window is one read. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "trainer/data/shuffle.h"
#include "trainer/data/source.h"

typedef struct bytes_source {
  mt_source base;
  char *path;
  int fd;
  uint64_t seed;
  int64_t train_windows; /* of an epoch */
  int64_t tail_begin;    /* first held-out byte */
  unsigned char *row;    /* [seq_len + 1] */
} bytes_source;

static mk_status read_row(bytes_source *s, int64_t offset) {
  int64_t left = mt_source_reads(&s->base);
  unsigned char *to = s->row;
  while (left > 0) {
    ssize_t got = pread(s->fd, to, (size_t)left, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    MK_CHECK(s->base.ctx, got >= 0, MK_ERR_IO, "%s: cannot read: %s", s->path, strerror(errno));
    MK_CHECK(s->base.ctx, got > 0, MK_ERR_IO, "%s: file ended at byte %lld; it has shrunk since the run began", s->path,
             (long long)offset);
    to += got;
    left -= got;
    offset += got;
  }
  return MK_OK;
}

static mk_status window(mt_source *source, int64_t index, bool held_out, int32_t *tokens, int32_t *labels) {
  bytes_source *s = (bytes_source *)source;
  int64_t place = index;
  if (!held_out) {
    uint32_t epoch = (uint32_t)(index / s->train_windows);
    place = mt_shuffle(s->seed, epoch, s->train_windows, index % s->train_windows);
  }
  int64_t offset = (held_out ? s->tail_begin : 0) + place * source->seq_len;
  MK_TRY(source->ctx, read_row(s, offset));
  for (int64_t i = 0; i < source->seq_len; i++) {
    tokens[i] = s->row[i];
    MK_CHECK(source->ctx, tokens[i] < source->vocab, MK_ERR_FORMAT,
             "%s: byte %lld is %d, outside the vocabulary of %lld", s->path, (long long)(offset + i), tokens[i],
             (long long)source->vocab);
  }
  mt_source_label(source, tokens, source->shift_inside ? 0 : s->row[source->seq_len], labels);
  return MK_OK;
}

/* Windows of `bytes` bytes: a window that labels its last token needs one byte more than it covers. */
static int64_t windows_in(const mt_source *source, int64_t bytes) {
  int64_t usable = bytes - (mt_source_reads(source) - source->seq_len);
  return usable > 0 ? usable / source->seq_len : 0;
}

static mk_status open_file(bytes_source *s, const mt_config *cfg) {
  mk_context *ctx = s->base.ctx;
  int64_t bytes = 0;
  MK_TRY(ctx, mk_file_open(ctx, "data_path", s->path, &s->fd, &bytes));
  MK_CHECK(ctx, bytes > 0, MK_ERR_FORMAT, "data_path: %s: the file is empty", s->path);
  int64_t tail = (int64_t)((double)bytes * cfg->holdout);
  s->tail_begin = bytes - tail;
  s->train_windows = windows_in(&s->base, s->tail_begin);
  MK_CHECK(ctx, s->train_windows > 0, MK_ERR_FORMAT,
           "data_path: %s: %lld training bytes are too few for one window of seq_len %lld", s->path,
           (long long)s->tail_begin, (long long)cfg->seq_len);
  int64_t eval = cfg->eval_tokens / cfg->seq_len, held_out = windows_in(&s->base, tail);
  MK_CHECK(
      ctx, eval <= held_out, MK_ERR_FORMAT,
      "data_path: %s: the held-out tail of %lld bytes has %lld windows of seq_len %lld; eval_tokens %lld needs %lld",
      s->path, (long long)tail, (long long)held_out, (long long)cfg->seq_len, (long long)cfg->eval_tokens,
      (long long)eval);
  return MK_OK;
}

static void destroy(mt_source *source) {
  bytes_source *s = (bytes_source *)source;
  if (s->fd >= 0) close(s->fd);
  mk_heap_free(source->ctx, s->row);
  mk_heap_free(source->ctx, s->path);
  mk_heap_free(source->ctx, s);
}

mk_status mt_source_bytes_create(mk_context *ctx, const mt_config *cfg, mt_source **out) {
  mk_status st = MK_OK;
  bytes_source *s = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *s, &s));
  s->base = (mt_source){.window = window, .destroy = destroy};
  mt_source_init(&s->base, ctx, cfg);
  s->fd = -1;
  s->seed = (uint64_t)cfg->seed;
  MK_TRY_GOTO(ctx, mk_heap_strdup(ctx, cfg->data_path, &s->path), out);
  MK_TRY_GOTO(ctx, mk_heap_alloc(ctx, (size_t)cfg->seq_len + 1, &s->row), out);
  MK_TRY_GOTO(ctx, open_file(s, cfg), out);
  *out = &s->base;
  s = NULL;
out:
  if (s != NULL) destroy(&s->base);
  return st;
}
