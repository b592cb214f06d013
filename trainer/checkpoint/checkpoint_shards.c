/* See checkpoint_shards.h. Opening costs the headers of all files, reading one buffer of a piece. */
#include "trainer/checkpoint/checkpoint_shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "kernels/base/text.h"

enum { PATH_BYTES = 1024 };

struct mt_shards {
  mk_context *ctx;
  const char *folder; /* of the caller, used while opening */
  mk_dtype master;
  mt_st_reader **file;
  int64_t files;
  int64_t known; /* tensors of the model found so far */
};

/* One piece of a value, in one file. */
typedef struct segment {
  const mt_st_reader *file;
  const mt_st_tensor *tensor;
  int64_t first;
} segment;

void mt_shard_tensor_name(const char *param, mt_shard_value value, char *name, size_t bytes) {
  static const char *const words[] = {"main", "m", "v"};
  snprintf(name, bytes, "%s.%s", param, words[value]);
}

void mt_shard_file_name(int64_t rank, char name[MT_CHECKPOINT_NAME_BYTES]) {
  snprintf(name, MT_CHECKPOINT_NAME_BYTES, "shard-%05lld.safetensors", (long long)rank);
}

static int by_first(const void *pa, const void *pb) {
  const segment *a = pa, *b = pb;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  return (a->tensor->count > b->tensor->count) - (a->tensor->count < b->tensor->count); /* empty ones first */
}

static mk_status take_segment(const mt_shards *s, const mt_st_reader *file, const mt_st_tensor *t, const char *param,
                              segment *out) {
  const char *first = mt_st_reader_metadata(file, param), *path = mt_st_reader_path(file);
  double value = -1;
  MK_CHECK(s->ctx, first != NULL && mk_text_number(first, true, &value) && value >= 0 && value < 0x1p53, MK_ERR_FORMAT,
           "%s: the metadata do not say where '%s' begins in its parameter", path, t->name);
  MK_CHECK(s->ctx, t->dtype == s->master && t->n_dims == 1, MK_ERR_FORMAT,
           "%s: tensor '%s' is %s of %d dims, not flat %s", path, t->name, mk_dtype_name(t->dtype), t->n_dims,
           mk_dtype_name(s->master));
  *out = (segment){file, t, (int64_t)value};
  return MK_OK;
}

/* All pieces of a value in ascending order; they must cover [0, total) once. total < 0: not checked. */
static mk_status find_segments(const mt_shards *s, const char *param, mt_shard_value value, int64_t total,
                               segment *segments, int64_t *count) {
  char name[MT_SHARD_NAME_BYTES];
  int64_t n = 0, next = 0;
  mt_shard_tensor_name(param, value, name, sizeof name);
  for (int64_t f = 0; f < s->files; f++) {
    const mt_st_tensor *t = mt_st_reader_find(s->file[f], name);
    if (t != NULL) MK_TRY(s->ctx, take_segment(s, s->file[f], t, param, &segments[n++]));
  }
  qsort(segments, (size_t)n, sizeof *segments, by_first);
  for (int64_t i = 0; i < n && total >= 0; i++) {
    MK_CHECK(s->ctx, segments[i].first == next, MK_ERR_FORMAT,
             "%s: '%s' begins at element %lld where %lld is next: elements are %s", mt_st_reader_path(segments[i].file),
             name, (long long)segments[i].first, (long long)next, segments[i].first > next ? "missing" : "there twice");
    next += segments[i].tensor->count;
  }
  MK_CHECK(s->ctx, total < 0 || next == total, MK_ERR_FORMAT,
           "%s: '%s' has %lld elements in %lld files, the model %lld", s->folder, name, (long long)next, (long long)n,
           (long long)total);
  *count = n;
  return MK_OK;
}

static mk_status check_params(mt_shards *s, const mt_params *whole, segment *segments) {
  for (int p = 0; p < whole->count; p++) {
    for (int value = 0; value < MT_SHARD_VALUES; value++) {
      int64_t n = 0;
      MK_TRY(s->ctx, find_segments(s, whole->item[p].name, (mt_shard_value)value, whole->item[p].total, segments, &n));
      s->known += n;
    }
  }
  return MK_OK;
}

/* Everything of the whole model is there, and nothing else. */
static mk_status check_all(mt_shards *s, const mt_config *cfg) {
  mk_status st = MK_OK;
  mt_mesh_plan one = {.world = 1, .dp = 1, .ep = 1, .ep_dp = 1, .pp = 1};
  mt_params whole = {0};
  segment *segments = NULL;
  int64_t all = 0;
  MK_TRY_GOTO(s->ctx, mt_params_create(s->ctx, cfg, &one, &whole), out);
  MK_TRY_GOTO(s->ctx, mk_heap_array(s->ctx, (size_t)s->files, sizeof *segments, &segments), out);
  MK_TRY_GOTO(s->ctx, check_params(s, &whole, segments), out);
  for (int64_t f = 0; f < s->files; f++)
    all += mt_st_reader_count(s->file[f]);
  MK_CHECK_GOTO(s->ctx, all == s->known + 2, MK_ERR_FORMAT, out, /* and the two histories */
                "%s: the shards hold %lld tensors, the model has %lld of them", s->folder, (long long)all,
                (long long)s->known + 2);
out:
  mk_heap_free(s->ctx, segments);
  mt_params_fini(&whole);
  return st;
}

static mk_status open_files(mt_shards *s, const mt_checkpoint_meta *meta) {
  char path[PATH_BYTES];
  MK_TRY(s->ctx, mk_heap_array(s->ctx, (size_t)meta->files, sizeof *s->file, &s->file));
  for (; s->files < meta->files; s->files++) {
    snprintf(path, sizeof path, "%.900s/%s", s->folder, meta->file[s->files].name);
    MK_TRY(s->ctx, mt_st_reader_create(s->ctx, path, &s->file[s->files]));
  }
  return MK_OK;
}

mk_status mt_shards_open(mk_context *ctx, const char *folder, const mt_checkpoint_meta *meta, const mt_config *cfg,
                         mt_shards **out) {
  mk_status st = MK_OK;
  mt_shards *s = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *s, &s));
  *s = (mt_shards){.ctx = ctx, .folder = folder, .master = mt_master_dtype(cfg)};
  MK_TRY_GOTO(ctx, open_files(s, meta), out);
  MK_TRY_GOTO(ctx, check_all(s, cfg), out);
  *out = s;
  s = NULL;
out:
  mt_shards_close(s);
  return st;
}

void mt_shards_close(mt_shards *s) {
  if (s == NULL) return;
  for (int64_t f = 0; f < s->files; f++)
    mt_st_reader_destroy(s->file[f]);
  mk_heap_free(s->ctx, s->file);
  mk_heap_free(s->ctx, s);
}

/* The part of [first, end) that the segment holds, piece by piece. */
static mk_status read_segment(const mt_shards *s, const segment *seg, int64_t first, int64_t end, int64_t piece,
                              void *buffer, mt_shard_put_fn put, void *user) {
  int64_t from = first > seg->first ? first : seg->first, to = seg->first + seg->tensor->count;
  if (end < to) to = end;
  while (from < to) {
    int64_t n = to - from < piece ? to - from : piece;
    MK_TRY(s->ctx, mt_st_reader_get(seg->file, seg->tensor, from - seg->first, n, s->master, buffer));
    MK_TRY(s->ctx, put(user, from, n, buffer));
    from += n;
  }
  return MK_OK;
}

mk_status mt_shards_read(const mt_shards *s, const char *param, mt_shard_value value, int64_t first, int64_t count,
                         int64_t piece, mt_shard_put_fn put, void *user) {
  mk_status st = MK_OK;
  segment *segments = NULL;
  void *buffer = NULL;
  int64_t n = 0, most = count < piece ? count : piece;
  MK_TRY_GOTO(s->ctx, mk_heap_array(s->ctx, (size_t)s->files, sizeof *segments, &segments), out);
  MK_TRY_GOTO(s->ctx, mk_heap_array(s->ctx, (size_t)most, mk_dtype_bytes(s->master), &buffer), out);
  MK_TRY_GOTO(s->ctx, find_segments(s, param, value, -1, segments, &n), out);
  for (int64_t i = 0; i < n; i++)
    MK_TRY_GOTO(s->ctx, read_segment(s, &segments[i], first, first + count, piece, buffer, put, user), out);
out:
  mk_heap_free(s->ctx, buffer);
  mk_heap_free(s->ctx, segments);
  return st;
}

mk_status mt_shards_history(const mt_shards *s, int64_t entries, double *loss, double *norm, int64_t *used) {
  const char *const names[] = {MT_SHARD_LOSS_HISTORY, MT_SHARD_NORM_HISTORY};
  double *const out[] = {loss, norm};
  const char *text = mt_st_reader_metadata(s->file[0], MT_SHARD_HISTORY_COUNT);
  double n = -1;
  MK_CHECK(s->ctx, text != NULL && mk_text_number(text, true, &n) && n >= 0 && n <= (double)entries, MK_ERR_FORMAT,
           "%s: '%s' is missing or not 0 to %lld", mt_st_reader_path(s->file[0]), MT_SHARD_HISTORY_COUNT,
           (long long)entries);
  for (int i = 0; i < 2; i++) {
    const mt_st_tensor *t = mt_st_reader_find(s->file[0], names[i]);
    MK_CHECK(s->ctx, t != NULL && t->dtype == MK_F64 && t->count == entries, MK_ERR_FORMAT,
             "%s: tensor '%s' of %lld F64 values is missing", mt_st_reader_path(s->file[0]), names[i],
             (long long)entries);
    MK_TRY(s->ctx, mt_st_reader_get(s->file[0], t, 0, entries, MK_F64, out[i]));
  }
  *used = (int64_t)n;
  return MK_OK;
}
