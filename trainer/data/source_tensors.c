/* Windows of a safetensors file in file order: what another system trained on, replayed. */
#include "kernels/base/heap.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/data/source.h"

typedef struct tensors_source {
  mt_source base;
  mt_st_reader *file;
  const mt_st_tensor *tokens, *labels; /* labels may be NULL */
} tensors_source;

/* One row of `t`; every value in [0, vocab), or -100 where the label rule says so. */
static mk_status read_row(const tensors_source *s, const mt_st_tensor *t, int64_t row, int32_t *out) {
  mk_context *ctx = s->base.ctx;
  int64_t seq = s->base.seq_len;
  MK_TRY(ctx, mt_st_reader_get(s->file, t, row * seq, seq, MK_I32, out));
  for (int64_t i = 0; i < seq; i++) {
    bool ignored = t == s->labels && s->base.shift_inside && i == seq - 1;
    bool legal = ignored ? out[i] == MT_LABEL_IGNORED : out[i] >= 0 && out[i] < s->base.vocab;
    MK_CHECK(ctx, legal, MK_ERR_FORMAT, "%s: tensor '%s': window %lld, position %lld is %d, expected %s%lld",
             mt_st_reader_path(s->file), t->name, (long long)row, (long long)i, out[i],
             ignored ? "the ignored label " : "0 to ",
             ignored ? (long long)MT_LABEL_IGNORED : (long long)s->base.vocab - 1);
  }
  return MK_OK;
}

static mk_status window(mt_source *source, int64_t index, bool held_out, int32_t *tokens, int32_t *labels) {
  const tensors_source *s = (const tensors_source *)source;
  MK_CHECK(source->ctx, held_out || index < s->base.train_windows, MK_ERR_FORMAT,
           "%s: training asks for window %lld, but the file has %lld", mt_st_reader_path(s->file), (long long)index,
           (long long)s->base.train_windows);
  int64_t row = held_out ? s->base.train_windows + index : index;
  MK_TRY(source->ctx, read_row(s, s->tokens, row, tokens));
  if (s->labels != NULL) return read_row(s, s->labels, row, labels);
  mt_source_label(source, tokens, 0, labels);
  return MK_OK;
}

static mk_status check_tensor(const tensors_source *s, const mt_st_tensor *t, const char *name) {
  mk_context *ctx = s->base.ctx;
  char shape[128];
  const char *path = mt_st_reader_path(s->file);
  MK_CHECK(ctx, t != NULL, MK_ERR_FORMAT, "data_path: %s: tensor '%s' is missing", path, name);
  MK_CHECK(ctx, t->dtype == MK_I32 || t->dtype == MK_I64 || t->dtype == MK_U8, MK_ERR_FORMAT,
           "data_path: %s: tensor '%s' is %s, expected i32, i64 or u8", path, name, mk_dtype_name(t->dtype));
  MK_CHECK(ctx, t->n_dims == 3 && t->dim[2] == s->base.seq_len, MK_ERR_FORMAT,
           "data_path: %s: tensor '%s' has shape %s, expected [steps,batch,%lld]", path, name,
           mt_st_shape_text(t->n_dims, t->dim, shape, sizeof shape), (long long)s->base.seq_len);
  MK_CHECK(ctx, t->count == s->tokens->count, MK_ERR_FORMAT, "data_path: %s: tokens and labels differ in shape", path);
  return MK_OK;
}

static mk_status check_held_out(tensors_source *s, const mt_config *cfg) {
  mk_context *ctx = s->base.ctx;
  int64_t all = s->tokens->count / cfg->seq_len, held_out = (int64_t)((double)all * cfg->holdout);
  s->base.train_windows = all - held_out;
  MK_CHECK(ctx, cfg->eval_tokens / cfg->seq_len <= held_out, MK_ERR_FORMAT,
           "data_path: %s: %lld windows are held out, but eval_tokens %lld needs %lld", mt_st_reader_path(s->file),
           (long long)held_out, (long long)cfg->eval_tokens, (long long)(cfg->eval_tokens / cfg->seq_len));
  return MK_OK;
}

static mk_status open_file(tensors_source *s, const mt_config *cfg) {
  mk_context *ctx = s->base.ctx;
  MK_TRY(ctx, mt_st_reader_create(ctx, cfg->data_path, &s->file));
  s->tokens = mt_st_reader_find(s->file, "tokens");
  s->labels = mt_st_reader_find(s->file, "labels");
  MK_TRY(ctx, check_tensor(s, s->tokens, "tokens"));
  if (s->labels != NULL) MK_TRY(ctx, check_tensor(s, s->labels, "labels"));
  MK_CHECK(ctx, s->labels != NULL || cfg->label_shift_inside, MK_ERR_FORMAT,
           "data_path: %s: tensor 'labels' is missing; without it label_shift_inside must be true", cfg->data_path);
  return check_held_out(s, cfg);
}

static mk_status fingerprint(mt_source *source, mk_hash *hash) {
  const tensors_source *s = (const tensors_source *)source;
  return mt_source_hash_file(source->ctx, hash, "data_path", mt_st_reader_path(s->file));
}

static void destroy(mt_source *source) {
  tensors_source *s = (tensors_source *)source;
  mt_st_reader_destroy(s->file);
  mk_heap_free(source->ctx, s);
}

mk_status mt_source_tensors_create(mk_context *ctx, const mt_config *cfg, mt_source **out) {
  mk_status st = MK_OK;
  tensors_source *s = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *s, &s));
  s->base = (mt_source){.window = window, .fingerprint = fingerprint, .destroy = destroy};
  mt_source_init(&s->base, ctx, cfg);
  MK_TRY_GOTO(ctx, open_file(s, cfg), out);
  *out = &s->base;
  s = NULL;
out:
  if (s != NULL) destroy(&s->base);
  return st;
}
