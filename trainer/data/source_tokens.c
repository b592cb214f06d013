/* Windows of files of tokens: bytes, bin, npy. Each file is cut into windows that do not overlap; what is left at its
 * end is not used, so that no window crosses from one file into the next (Olmo-core 3.0.0
 * olmo_core/data/numpy_dataset.py). Training windows of all files, in the order of the list, are one row of numbers;
 * each epoch goes through it in the order of mt_shuffle(seed, epoch). Of every file the last `holdout` part is held
 * out. */
#include <string.h>

#include "kernels/base/heap.h"
#include "trainer/data/file_list.h"
#include "trainer/data/shuffle.h"
#include "trainer/data/source.h"
#include "trainer/data/token_file.h"

/* A file's part of the two rows of windows: training, held out. */
typedef struct share {
  mt_token_file file;
  int64_t first[2]; /* number of its first window */
  int64_t begin[2]; /* its first token */
  int64_t windows[2];
} share;

typedef struct tokens_source {
  mt_source base;
  uint64_t seed;
  share *share; /* [shares] */
  int64_t shares;
  int64_t windows[2];
  unsigned char *raw; /* one window as it stands in a file */
  int32_t *row;       /* [seq_len + 1] */
} tokens_source;

/* The file that holds window `place`: the last one whose first window is not behind it. */
static const share *find(const tokens_source *s, int part, int64_t place) {
  int64_t low = 0, high = s->shares - 1;
  while (low < high) {
    int64_t middle = (low + high + 1) / 2;
    if (s->share[middle].first[part] <= place) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return &s->share[low];
}

static mk_status window(mt_source *source, int64_t index, bool held_out, int32_t *tokens, int32_t *labels) {
  tokens_source *s = (tokens_source *)source;
  int64_t place = index;
  if (!held_out) {
    uint32_t epoch = (uint32_t)(index / s->windows[0]);
    place = mt_shuffle(s->seed, epoch, s->windows[0], index % s->windows[0]);
  }
  const share *from = find(s, held_out, place);
  int64_t first = from->begin[held_out] + (place - from->first[held_out]) * source->seq_len;
  MK_TRY(source->ctx,
         mt_token_file_read(source->ctx, &from->file, first, mt_source_reads(source), source->vocab, s->raw, s->row));
  memcpy(tokens, s->row, (size_t)source->seq_len * sizeof *tokens);
  mt_source_label(source, tokens, source->shift_inside ? 0 : s->row[source->seq_len], labels);
  return MK_OK;
}

/* Windows of `tokens` tokens: a window that labels its last token needs one token more than it covers. */
static int64_t windows_in(const mt_source *source, int64_t tokens) {
  int64_t usable = tokens - (mt_source_reads(source) - source->seq_len);
  return usable > 0 ? usable / source->seq_len : 0;
}

static mk_status open_share(tokens_source *s, const mt_config *cfg, mt_token_format format, const char *path) {
  share *next = &s->share[s->shares];
  MK_TRY(s->base.ctx, mt_token_file_open(s->base.ctx, cfg, format, path, &next->file));
  int64_t tail = (int64_t)((double)next->file.tokens * cfg->holdout);
  int64_t tokens[2] = {next->file.tokens - tail, tail};
  next->begin[1] = tokens[0];
  for (int part = 0; part < 2; part++) {
    next->first[part] = s->windows[part];
    next->windows[part] = windows_in(&s->base, tokens[part]);
    s->windows[part] += next->windows[part];
  }
  s->shares += 1;
  return MK_OK;
}

/* Enough for one step's first window, and for evaluation. */
static mk_status check_windows(const tokens_source *s, const mt_config *cfg) {
  int64_t training = 0, tail = 0, eval = cfg->eval_tokens / cfg->seq_len;
  for (int64_t i = 0; i < s->shares; i++) {
    training += s->share[i].begin[1];
    tail += s->share[i].file.tokens - s->share[i].begin[1];
  }
  MK_CHECK(s->base.ctx, s->windows[0] > 0, MK_ERR_FORMAT,
           "data_path: %s: %lld training tokens in %lld files are too few for one window of seq_len %lld",
           cfg->data_path, (long long)training, (long long)s->shares, (long long)cfg->seq_len);
  MK_CHECK(
      s->base.ctx, eval <= s->windows[1], MK_ERR_FORMAT,
      "data_path: %s: the held-out tail of %lld tokens has %lld windows of seq_len %lld; eval_tokens %lld needs %lld",
      cfg->data_path, (long long)tail, (long long)s->windows[1], (long long)cfg->seq_len, (long long)cfg->eval_tokens,
      (long long)eval);
  return MK_OK;
}

static mk_status open_files(tokens_source *s, const mt_config *cfg, mt_token_format format) {
  mk_context *ctx = s->base.ctx;
  mk_status st = MK_OK;
  char **paths = NULL;
  size_t count = 0;
  MK_TRY_GOTO(ctx, mt_file_list_make(ctx, cfg->data_path, &paths, &count), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, count, sizeof *s->share, &s->share), out);
  for (size_t i = 0; i < count; i++)
    MK_TRY_GOTO(ctx, open_share(s, cfg, format, paths[i]), out);
  MK_TRY_GOTO(ctx, check_windows(s, cfg), out);
out:
  mt_file_list_free(ctx, paths, count);
  return st;
}

static mk_status fingerprint(mt_source *source, mk_hash *hash) {
  const tokens_source *s = (const tokens_source *)source;
  for (int64_t i = 0; i < s->shares; i++)
    MK_TRY(source->ctx, mt_source_hash_file(source->ctx, hash, "data_path", s->share[i].file.path));
  return MK_OK;
}

static void destroy(mt_source *source) {
  tokens_source *s = (tokens_source *)source;
  for (int64_t i = 0; i < s->shares; i++)
    mt_token_file_close(source->ctx, &s->share[i].file);
  mk_heap_free(source->ctx, s->share);
  mk_heap_free(source->ctx, s->raw);
  mk_heap_free(source->ctx, s->row);
  mk_heap_free(source->ctx, s);
}

mk_status mt_source_tokens_create(mk_context *ctx, const mt_config *cfg, mt_token_format format, mt_source **out) {
  enum { WIDEST = 8 };
  mk_status st = MK_OK;
  tokens_source *s = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *s, &s));
  s->base = (mt_source){.window = window, .fingerprint = fingerprint, .destroy = destroy};
  mt_source_init(&s->base, ctx, cfg);
  s->seed = (uint64_t)cfg->seed;
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)cfg->seq_len + 1, WIDEST, &s->raw), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)cfg->seq_len + 1, sizeof *s->row, &s->row), out);
  MK_TRY_GOTO(ctx, open_files(s, cfg, format), out);
  *out = &s->base;
  s = NULL;
out:
  if (s != NULL) destroy(&s->base);
  return st;
}
