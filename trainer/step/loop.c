/* The run loop. Everything that ranks must decide alike (end of time, non-finite stop) follows from values that the
 * step's one reduction made equal on all of them. */
#include "trainer/step/loop.h"

#include <math.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "kernels/base/log.h"
#include "trainer/data/data.h"
#include "trainer/launch/peaks.h"
#include "trainer/step/evaluate.h"
#include "trainer/step/info.h"
#include "trainer/step/progress.h"
#include "trainer/step/record.h"
#include "trainer/step/stop.h"
#include "trainer/step/weights_io.h"

typedef struct loop {
  mk_context *ctx;
  const mt_config *cfg;
  mt_trainer *t;
  mt_data *data;
  mt_recorder *rec;
  mt_progress progress;
  int32_t *tokens, *labels; /* one microbatch */
  int64_t last_step;        /* where the run ends; may shrink with a time limit */
  int64_t recorded;         /* steps whose record is written */
  double trained_s;         /* sum of step times, max over ranks: equal on all ranks */
  int64_t waits_before, wire_before;
  int64_t waits[MT_LOG_SLOTS], wire[MT_LOG_SLOTS], allocs[MT_LOG_SLOTS];
  int64_t waits_total, wire_total;
  double rank_spread; /* NaN until a run has ended well */
} loop;

int mt_exit_code(mk_status status) {
  switch (status) {
    case MK_OK:
      return 0;
    case MK_ERR_ARG:
    case MK_ERR_CONFIG:
    case MK_ERR_UNSUPPORTED:
      return 2;
    case MK_ERR_OUTPUT:
      return 5;
    case MK_ERR_INTERRUPTED:
      return 130;
    default:
      return 3;
  }
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Median of times[2*r + which] over ranks; values are few, copied to a small array. */
static double median_of(const double *times, int ranks, int which) {
  double sorted[MT_MAX_RANKS];
  for (int r = 0; r < ranks; r++)
    sorted[r] = times[2 * r + which];
  for (int i = 1; i < ranks; i++) {
    for (int j = i; j > 0 && compare_doubles(&sorted[j - 1], &sorted[j]) > 0; j--) {
      double swap = sorted[j];
      sorted[j] = sorted[j - 1];
      sorted[j - 1] = swap;
    }
  }
  return ranks % 2 == 1 ? sorted[ranks / 2] : 0.5 * (sorted[ranks / 2 - 1] + sorted[ranks / 2]);
}

static double max_of(const double *times, int ranks, int which) {
  double most = times[which];
  for (int r = 1; r < ranks; r++)
    most = times[2 * r + which] > most ? times[2 * r + which] : most;
  return most;
}

/* Record of step k, whose times stand in `times`. */
static mk_status record_step(loop *l, int64_t k, const double *times) {
  const mk_step_log *log = &l->t->slot[k % MT_LOG_SLOTS].log;
  int ranks = l->t->mesh->plan.dp;
  mt_step_times step = {.time_s = max_of(times, ranks, 0),
                        .time_median_s = median_of(times, ranks, 0),
                        .compute_max_s = max_of(times, ranks, 1),
                        .compute_median_s = median_of(times, ranks, 1),
                        .host_waits = l->waits[k % MT_LOG_SLOTS],
                        .wire_bytes = l->wire[k % MT_LOG_SLOTS],
                        .device_allocs = l->allocs[k % MT_LOG_SLOTS]};
  l->trained_s += step.time_s;
  l->recorded = k;
  mt_progress_step(&l->progress, log, step.time_s, l->last_step);
  return mt_recorder_step(l->rec, l->cfg, log, &step);
}

static mk_status check_finite(loop *l, int64_t k) {
  const mk_step_log *log = &l->t->slot[k % MT_LOG_SLOTS].log;
  MK_CHECK(
      l->ctx, !log->nonfinite || l->cfg->skip_step, MK_ERR_NUMERIC,
      "step %lld: loss (%g) or gradient norm (%g) is not finite; parameters are those before the step. Lower lr or "
      "set skip_step",
      (long long)k, log->sum[MK_SUM_CE], log->grad_norm);
  return MK_OK;
}

/* A time limit turns into a number of steps from the measured rate, again and again; schedule and end follow it. Once
 * the last step has run the end stays where it is. */
static void follow_time(loop *l, int64_t n) {
  enum { FIRST_LOOK = 8 };
  double limit = l->cfg->time_limit_s;
  if (limit <= 0 || l->recorded < FIRST_LOOK || n >= l->last_step) return;
  double per_step = l->trained_s / (double)l->recorded;
  int64_t fits = (int64_t)(limit / per_step);
  int64_t most = l->cfg->warmup_steps + l->cfg->steps;
  l->last_step = fits < n + 1 ? n + 1 : fits < most ? fits : most;
  if (l->cfg->schedule_steps == 0) l->t->optim.total_steps = l->last_step;
}

static mk_status run_step(loop *l, int64_t n) {
  mt_trainer *t = l->t;
  int64_t allocs = t->dev->alloc_calls, heap = l->ctx->heap_calls;
  MK_TRY(l->ctx, mt_trainer_begin(t));
  for (int64_t m = 0; m < t->microbatches; m++) {
    MK_TRY(l->ctx, mt_data_batch(l->data, n - 1, m, l->tokens, l->labels));
    MK_TRY(l->ctx, mt_trainer_microbatch(t, l->tokens, l->labels));
    if (m + 1 < t->microbatches) MK_TRY(l->ctx, mt_stop_check(l->ctx, "step", n - 1));
  }
  MK_TRY(l->ctx, mt_trainer_finish(t));
  int64_t wire = mt_trainer_wire_bytes(t), slot = n % MT_LOG_SLOTS;
  l->waits[slot] = t->dev->host_waits - l->waits_before;
  l->wire[slot] = wire - l->wire_before;
  l->allocs[slot] = t->dev->alloc_calls - allocs + (l->ctx->heap_calls - heap);
  l->waits_total += l->waits[slot];
  l->wire_total += l->wire[slot];
  l->waits_before = t->dev->host_waits;
  l->wire_before = wire;
  return MK_OK;
}

static mk_status evaluate(loop *l, int64_t step) {
  double loss = 0;
  MK_TRY(l->ctx, mt_evaluate(l->t, l->data, l->tokens, l->labels, &loss));
  mt_progress_eval(&l->progress, step, loss);
  MK_TRY(l->ctx, mt_recorder_eval(l->rec, step, l->trained_s, mt_data_eval_labels(l->cfg), loss));
  l->wire_before = mt_trainer_wire_bytes(l->t);
  l->waits_before = l->t->dev->host_waits;
  return MK_OK;
}

/* Steps whose times have not travelled yet: exchange them one by one and write their records. */
static mk_status drain(loop *l, int64_t last) {
  mt_trainer *t = l->t;
  for (int64_t k = l->recorded + 1; k <= last; k++) {
    mt_log_slot *slot = &t->slot[k % MT_LOG_SLOTS];
    MK_TRY(l->ctx, mt_trainer_time_read(t, k, t->optim.own_times[0]));
    MK_TRY(l->ctx, mt_optim_times_exchange(&t->optim, t->compute));
    MK_TRY(l->ctx, mk_copy_d2h(t->compute, slot->times, &t->optim.times));
    MK_TRY(l->ctx, mk_stream_sync(t->compute, false));
    MK_TRY(l->ctx, record_step(l, k, slot->times));
    MK_TRY(l->ctx, check_finite(l, k));
  }
  return MK_OK;
}

static bool eval_due(const mt_config *c, int64_t n, int64_t last) {
  if (c->eval_tokens == 0) return false;
  return n == last || (c->eval_every > 0 && n % c->eval_every == 0);
}

static mk_status run_steps(loop *l) {
  for (int64_t n = 1; n <= l->last_step; n++) {
    MK_TRY(l->ctx, run_step(l, n));
    if (n >= 2) MK_TRY(l->ctx, check_finite(l, n - 1)); /* its end was waited for in finish */
    if (n >= 4 && l->recorded == n - 4) {
      MK_TRY(l->ctx, record_step(l, n - 3, l->t->slot[(n - 1) % MT_LOG_SLOTS].times));
    }
    follow_time(l, n);
    MK_TRY(l->ctx, mt_stop_check(l->ctx, "step", n));
    if (n == l->last_step || eval_due(l->cfg, n, l->last_step)) MK_TRY(l->ctx, drain(l, n));
    if (eval_due(l->cfg, n, l->last_step)) MK_TRY(l->ctx, evaluate(l, n));
  }
  return mk_device_poll(l->t->dev);
}

/* The bound of profile mode is this machine's own: measured now, with the rank's threads. */
static mk_status set_roofline(loop *l) {
  mt_peaks peaks;
  MK_TRY(l->ctx, mt_peaks_measure(l->ctx, l->cfg, &peaks));
  l->t->dev->roofline = mt_peaks_roofline(&peaks, l->cfg->precision);
  return MK_OK;
}

/* Made before the run, so that a name that cannot be written to costs no training. */
static mk_status make_weights_folder(loop *l, const mt_comm *world) {
  if (l->cfg->weights_out[0] == '\0' || world->rank != 0) return MK_OK;
  mk_status st = mk_folder_make(l->ctx, l->cfg->weights_out);
  if (st != MK_OK) mk_error_prefix(l->ctx, "weights_out");
  return st;
}

static mk_status open_parts(loop *l, mt_comm *world) {
  mk_context *ctx = l->ctx;
  size_t tokens = (size_t)l->cfg->rank_tokens;
  mt_run_info info = {0};
  MK_TRY(ctx, make_weights_folder(l, world));
  MK_TRY(ctx, mt_trainer_create(ctx, l->cfg, world, &l->t));
  MK_TRY(ctx, mt_data_create(ctx, l->cfg, l->t->mesh->plan.dp_rank, &l->data));
  MK_TRY(ctx, mk_heap_array(ctx, tokens, sizeof(int32_t), &l->tokens));
  MK_TRY(ctx, mk_heap_array(ctx, tokens, sizeof(int32_t), &l->labels));
  if (l->cfg->weights_in[0] != '\0') MK_TRY(ctx, mt_weights_load(l->t, l->cfg->weights_in));
  if (l->cfg->profile) MK_TRY(ctx, set_roofline(l));
  mt_run_info_fill(l->t, &info);
  return mt_recorder_start(l->rec, l->cfg, &info);
}

static mk_status write_end(loop *l, mk_status status) {
  mt_run_end end = {.status = status,
                    .exit_code = mt_exit_code(status),
                    .message = l->ctx->error.message,
                    .steps = l->recorded,
                    .time_s = l->trained_s,
                    .rank_spread_loss = l->rank_spread,
                    .bound_s = NAN};
  if (l->t != NULL) {
    mt_run_end_fill(l->t, &end);
    end.host_waits_step = l->recorded > 0 ? (double)l->waits_total / (double)l->t->step : 0;
    end.wire_bytes_step = l->recorded > 0 ? (double)l->wire_total / (double)l->t->step : 0;
    if (l->cfg->profile) mt_run_profile_write(l->t, l->rec, &end);
  }
  return mt_recorder_end(l->rec, &end);
}

mk_status mt_loop_run(mk_context *ctx, const mt_config *cfg, mt_comm *world, const char *folder) {
  mk_status st = MK_OK;
  loop l = {.ctx = ctx, .cfg = cfg, .last_step = cfg->warmup_steps + cfg->steps, .rank_spread = NAN};
  MK_TRY(ctx, mt_recorder_create(ctx, world->rank == 0 ? folder : NULL, &l.rec));
  l.progress = mt_progress_begin(ctx, cfg, world->rank == 0);
  MK_TRY_GOTO(ctx, open_parts(&l, world), out);
  MK_TRY_GOTO(ctx, run_steps(&l), out);
  MK_TRY_GOTO(ctx, mt_run_rank_spread(l.t, &l.rank_spread), out);
  if (cfg->weights_out[0] != '\0') MK_TRY_GOTO(ctx, mt_weights_save(l.t, cfg->weights_out), out);
out:
  mt_progress_end(&l.progress);
  if (write_end(&l, st) != MK_OK && st == MK_OK) st = MK_ERR_OUTPUT;
  mk_heap_free(ctx, l.labels);
  mk_heap_free(ctx, l.tokens);
  mt_data_destroy(l.data);
  mt_trainer_destroy(l.t);
  mt_recorder_destroy(l.rec);
  return st;
}
