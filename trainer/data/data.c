/* Which window goes where; the tokens themselves come from a source. */
#include "trainer/data/data.h"

#include <stdio.h>

#include "kernels/base/heap.h"
#include "trainer/data/source.h"

struct mt_data {
  mk_context *ctx;
  mt_source *source;
  int64_t dp, dp_rank;
  int64_t seq_len;
  int64_t block_windows; /* windows of a microbatch */
  int64_t step_windows;
  int64_t eval_windows;
  int64_t first_step, first_window; /* where counting begins, see mt_data_start */
  int kind;
  char path[MT_TEXT_BYTES]; /* data_path, for messages */
};

void mt_source_init(mt_source *source, mk_context *ctx, const mt_config *cfg) {
  source->ctx = ctx;
  source->seq_len = cfg->seq_len;
  source->train_windows = MT_WINDOWS_ENDLESS;
  source->vocab = cfg->vocab;
  source->shift_inside = cfg->label_shift_inside;
}

int64_t mt_source_reads(const mt_source *source) { return source->seq_len + (source->shift_inside ? 0 : 1); }

void mt_source_label(const mt_source *source, const int32_t *tokens, int32_t next, int32_t *labels) {
  int64_t last = source->seq_len - 1;
  for (int64_t i = 0; i < last; i++)
    labels[i] = tokens[i + 1];
  labels[last] = source->shift_inside ? MT_LABEL_IGNORED : next;
}

static mk_status open_source(mk_context *ctx, const mt_config *cfg, mt_source **out) {
  switch (cfg->data) {
    case MT_DATA_RANDOM:
      return mt_source_random_create(ctx, cfg, out);
    case MT_DATA_BYTES:
      return mt_source_tokens_create(ctx, cfg, MT_TOKENS_BYTES, out);
    case MT_DATA_BIN:
      return mt_source_tokens_create(ctx, cfg, MT_TOKENS_BIN, out);
    case MT_DATA_NPY:
      return mt_source_tokens_create(ctx, cfg, MT_TOKENS_NPY, out);
    case MT_DATA_TENSORS:
      return mt_source_tensors_create(ctx, cfg, out);
    default:
      return MK_FAIL(ctx, MK_ERR_UNSUPPORTED, "data: source %d is not known", (int)cfg->data);
  }
}

mk_status mt_data_create(mk_context *ctx, const mt_config *cfg, int64_t dp_rank, mt_data **out) {
  mk_status st = MK_OK;
  mt_data *d = NULL;
  MK_CHECK(ctx, dp_rank >= 0 && dp_rank < mt_config_dp(cfg), MK_ERR_ARG, "data-parallel rank %lld of %lld",
           (long long)dp_rank, (long long)mt_config_dp(cfg));
  MK_TRY_GOTO(ctx, mk_heap_alloc(ctx, sizeof *d, &d), out);
  *d = (mt_data){.ctx = ctx,
                 .dp = mt_config_dp(cfg),
                 .dp_rank = dp_rank,
                 .seq_len = cfg->seq_len,
                 .block_windows = cfg->rank_tokens / cfg->seq_len,
                 .step_windows = cfg->global_tokens / cfg->seq_len,
                 .eval_windows = cfg->eval_tokens / cfg->seq_len,
                 .kind = (int)cfg->data};
  snprintf(d->path, sizeof d->path, "%s", cfg->data_path);
  MK_TRY_GOTO(ctx, open_source(ctx, cfg, &d->source), out);
  *out = d;
  d = NULL;
out:
  mt_data_destroy(d);
  return st;
}

void mt_data_destroy(mt_data *d) {
  if (d == NULL) return;
  if (d->source != NULL) d->source->destroy(d->source);
  mk_heap_free(d->ctx, d);
}

mk_status mt_data_batch(mt_data *d, int64_t step, int64_t microbatch, int32_t *tokens, int32_t *labels) {
  int64_t first = (microbatch * d->dp + d->dp_rank) * d->block_windows;
  MK_CHECK(d->ctx, step >= d->first_step && microbatch >= 0 && first + d->block_windows <= d->step_windows, MK_ERR_ARG,
           "step %lld has no microbatch %lld", (long long)step, (long long)microbatch);
  for (int64_t i = 0; i < d->block_windows; i++) {
    int64_t window = mt_data_windows_before(d, step) + first + i;
    MK_TRY(d->ctx, d->source->window(d->source, window, false, tokens + i * d->seq_len, labels + i * d->seq_len));
  }
  return MK_OK;
}

void mt_data_start(mt_data *d, int64_t step, int64_t window) {
  d->first_step = step;
  d->first_window = window;
}

int64_t mt_data_windows_before(const mt_data *d, int64_t step) {
  return d->first_window + (step - d->first_step) * d->step_windows;
}

mk_status mt_data_check_length(const mt_data *d, int64_t step, int64_t last) {
  double first = (double)mt_data_windows_before(d, step);
  double need = first + (double)(last - step) * (double)d->step_windows; /* may exceed 64 bits */
  if (d->source->train_windows == MT_WINDOWS_ENDLESS || need <= (double)d->source->train_windows) return MK_OK;
  return MK_FAIL(d->ctx, MK_ERR_FORMAT,
                 "data_path: %s: %lld windows for training, but steps %lld to %lld of %lld tokens need %.0f%s; lower "
                 "steps or holdout",
                 d->path, (long long)d->source->train_windows, (long long)step + 1, (long long)last,
                 (long long)(d->step_windows * d->seq_len), need, first > 0 ? " with those already consumed" : "");
}

mk_status mt_data_fingerprint(const mt_data *d, char out[MK_HASH_BYTES]) {
  mk_status st = MK_OK;
  mk_hash *hash = NULL;
  MK_TRY_GOTO(d->ctx, mk_hash_create(d->ctx, &hash), out);
  MK_TRY_GOTO(d->ctx, mk_hash_add(hash, &d->kind, sizeof d->kind), out);
  MK_TRY_GOTO(d->ctx, d->source->fingerprint(d->source, hash), out);
  MK_TRY_GOTO(d->ctx, mk_hash_end(hash, out), out);
out:
  mk_hash_destroy(hash);
  return st;
}

mk_status mt_data_eval_batch(mt_data *d, int64_t microbatch, int32_t *tokens, int32_t *labels) {
  int64_t first = (microbatch * d->dp + d->dp_rank) * d->block_windows;
  for (int64_t i = 0; i < d->block_windows; i++) {
    int32_t *t = tokens + i * d->seq_len, *l = labels + i * d->seq_len;
    if (first + i < d->eval_windows) {
      MK_TRY(d->ctx, d->source->window(d->source, first + i, true, t, l));
      continue;
    }
    for (int64_t j = 0; j < d->seq_len; j++) {
      t[j] = 0;
      l[j] = MT_LABEL_IGNORED;
    }
  }
  return MK_OK;
}

static int64_t labels_of(const mt_config *cfg, int64_t tokens) {
  return tokens - (cfg->label_shift_inside ? tokens / cfg->seq_len : 0);
}

int64_t mt_data_labels_per_step(const mt_config *cfg) { return labels_of(cfg, cfg->global_tokens); }

int64_t mt_data_first_token(const mt_config *cfg, int64_t dp_rank, int64_t microbatch) {
  return (microbatch * mt_config_dp(cfg) + dp_rank) * cfg->rank_tokens;
}

int64_t mt_data_eval_microbatches(const mt_config *cfg) {
  int64_t all_ranks = cfg->rank_tokens * mt_config_dp(cfg);
  return (cfg->eval_tokens + all_ranks - 1) / all_ranks;
}

int64_t mt_data_eval_labels(const mt_config *cfg) { return labels_of(cfg, cfg->eval_tokens); }
