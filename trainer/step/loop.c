/* The run loop. Everything that ranks must decide alike (end of time, non-finite stop) follows from values that the
 * step's one reduction made equal on all of them. */
#include "trainer/step/loop.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/folder.h"
#include "kernels/base/heap.h"
#include "kernels/base/log.h"
#include "trainer/data/data.h"
#include "trainer/launch/peaks.h"
#include "trainer/step/checkpoint.h"
#include "trainer/step/evaluate.h"
#include "trainer/step/info.h"
#include "trainer/step/progress.h"
#include "trainer/step/record.h"
#include "trainer/step/weights_io.h"

typedef struct loop {
  mk_context *ctx;
  const mt_config *cfg;
  mt_trainer *t;
  mt_data *data;
  mt_recorder *rec;
  mt_progress progress;
  int32_t *tokens, *labels; /* one microbatch */
  int64_t recorded;         /* steps whose record is written */
  mt_run_position at;       /* trained_s: sum of step times, max over ranks; so all is equal on all ranks */
  int64_t waits_before, wire_before;
  int64_t waits[MT_LOG_SLOTS], wire[MT_LOG_SLOTS], allocs[MT_LOG_SLOTS];
  int64_t waits_total, wire_total;
  double rank_spread; /* NaN until a run has ended well */
  mt_stop stop;
  mt_job_memory memory;
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
  int ranks = l->t->mesh->plan.world;
  mt_step_times step = {.time_s = max_of(times, ranks, 0),
                        .time_median_s = median_of(times, ranks, 0),
                        .compute_max_s = max_of(times, ranks, 1),
                        .compute_median_s = median_of(times, ranks, 1),
                        .host_waits = l->waits[k % MT_LOG_SLOTS],
                        .wire_bytes = l->wire[k % MT_LOG_SLOTS],
                        .device_allocs = l->allocs[k % MT_LOG_SLOTS],
                        .memory = l->memory};
  l->at.trained_s += step.time_s;
  l->recorded = k;
  mt_progress_step(&l->progress, log, step.time_s, l->at.end);
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
  if (limit <= 0 || l->recorded < FIRST_LOOK || n >= l->at.end) return;
  double per_step = l->at.trained_s / (double)l->recorded;
  int64_t fits = (int64_t)(limit / per_step);
  int64_t most = l->cfg->warmup_steps + l->cfg->steps;
  l->at.end = fits < n + 1 ? n + 1 : fits < most ? fits : most;
  if (l->cfg->schedule_steps == 0) l->t->optim.total_steps = l->at.end;
}

/* Steps whose times have not travelled yet: exchange them one by one and write their records. */
static mk_status drain(loop *l, int64_t last) {
  mt_trainer *t = l->t;
  MK_TRY(l->ctx, mt_run_memory_exchange(t, &l->memory));
  for (int64_t k = l->recorded + 1; k <= last; k++) {
    mt_log_slot *slot = &t->slot[k % MT_LOG_SLOTS];
    t->optim.own_stop[0] = l->stop.signal != 0;
    MK_TRY(l->ctx, mt_trainer_time_read(t, k, t->optim.own_times[0]));
    MK_TRY(l->ctx, mt_optim_times_exchange(&t->optim, t->compute));
    MK_TRY(l->ctx, mk_copy_d2h(t->compute, slot->times, &t->optim.times));
    MK_TRY(l->ctx, mk_stream_sync(t->compute, false));
    MK_TRY(l->ctx, record_step(l, k, slot->times));
    MK_TRY(l->ctx, check_finite(l, k));
  }
  return MK_OK;
}

/* What was done between steps belongs to no step. */
static void count_anew(loop *l) {
  l->wire_before = mt_trainer_wire_bytes(l->t);
  l->waits_before = l->t->dev->host_waits;
}

static mk_status save(loop *l, int64_t step) {
  char path[MK_MESSAGE_BYTES];
  MK_TRY(l->ctx, mt_checkpoint_save(l->t, l->data, step, &l->at, path));
  l->at.saved = step;
  count_anew(l);
  return MK_OK;
}

static bool stops_alone(const loop *l) { return l->stop.signal != 0 && l->stop.alone; }

/* Ends a run that saves, after step `done`. */
static mk_status stop_after(loop *l, int64_t done) {
  MK_TRY(l->ctx, drain(l, done));
  if (done > l->at.saved) MK_TRY(l->ctx, save(l, done));
  bool kept = l->at.saved > 0;
  return MK_FAIL(l->ctx, MK_ERR_INTERRUPTED, "interrupted by %s after step %lld%s%s", mt_stop_name(l->stop.signal),
                 (long long)done, kept ? "; resume=auto goes on from there, checkpoint_dir is " : "",
                 kept ? l->cfg->checkpoint_dir : "");
}

static mk_status run_step(loop *l, int64_t n) {
  mt_trainer *t = l->t;
  int64_t allocs = t->dev->alloc_calls, heap = l->ctx->heap_calls;
  t->optim.own_stop[n % MT_TIME_SLOTS] = l->stop.signal != 0;
  MK_TRY(l->ctx, mt_trainer_begin(t));
  for (int64_t m = 0; m < t->microbatches; m++) {
    MK_TRY(l->ctx, mt_data_batch(l->data, n - 1, m, l->tokens, l->labels));
    MK_TRY(l->ctx, mt_trainer_microbatch(t, l->tokens, l->labels));
    if (m + 1 < t->microbatches) MK_TRY(l->ctx, mt_stop_check(l->ctx, &l->stop, "step", n - 1));
    if (m + 1 < t->microbatches && stops_alone(l)) return stop_after(l, n - 1);
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
  MK_TRY(l->ctx, mt_evaluate(l->t, l->data, &l->stop, l->tokens, l->labels, &loss));
  if (stops_alone(l)) return stop_after(l, step);
  mt_progress_eval(&l->progress, step, loss);
  MK_TRY(l->ctx, mt_recorder_eval(l->rec, step, l->at.trained_s, mt_data_eval_labels(l->cfg), loss));
  l->at.evaluated = step;
  count_anew(l);
  return MK_OK;
}

static bool eval_due(const mt_config *c, int64_t n, int64_t last) {
  if (c->eval_tokens == 0) return false;
  return n == last || (c->eval_every > 0 && n % c->eval_every == 0);
}

/* Some rank was told to stop before step k began: a word of the step's reduction, so that all ranks know it at once. */
static bool told_to_stop(const loop *l, int64_t k) {
  return l->stop.saves && l->t->slot[k % MT_LOG_SLOTS].times[2 * l->t->mesh->plan.world] > 0;
}

/* What follows step n: records that are due, evaluation, checkpoint, end on request. */
static mk_status after_step(loop *l, int64_t n) {
  bool last = n == l->at.end, eval = eval_due(l->cfg, n, l->at.end);
  bool due = mt_checkpoint_due(l->cfg, n, l->at.end), stop = stops_alone(l) || told_to_stop(l, n - 1);
  if (last || eval || due) MK_TRY(l->ctx, drain(l, n));
  if (eval) MK_TRY(l->ctx, evaluate(l, n));
  if (due) MK_TRY(l->ctx, save(l, n));
  return stop && !last ? stop_after(l, n) : MK_OK;
}

/* What the run that is resumed did not come to: an evaluation, where it was stopped between step and evaluation. */
static mk_status catch_up(loop *l) {
  int64_t done = l->t->resumed;
  bool missing = done > l->at.evaluated && eval_due(l->cfg, done, l->at.end);
  return missing ? evaluate(l, done) : MK_OK;
}

/* A run that had nothing to do but goes on from another folder's checkpoint has none of its own yet. */
static mk_status save_end(loop *l) {
  bool missing = l->cfg->checkpoint_dir[0] != '\0' && l->t->step > l->at.saved;
  return missing ? save(l, l->t->step) : MK_OK;
}

static mk_status run_steps(loop *l) {
  int64_t first = l->t->step;
  MK_TRY(l->ctx, catch_up(l));
  for (int64_t n = first + 1; n <= l->at.end; n++) {
    MK_TRY(l->ctx, run_step(l, n));
    if (n >= first + 2) MK_TRY(l->ctx, check_finite(l, n - 1)); /* its end was waited for in finish */
    if (n >= first + 4 && l->recorded == n - 4) {
      MK_TRY(l->ctx, record_step(l, n - 3, l->t->slot[(n - 1) % MT_LOG_SLOTS].times));
    }
    follow_time(l, n);
    MK_TRY(l->ctx, mt_stop_check(l->ctx, &l->stop, "step", n));
    MK_TRY(l->ctx, after_step(l, n));
  }
  MK_TRY(l->ctx, save_end(l));
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
  char path[MT_TEXT_BYTES + 32];
  snprintf(path, sizeof path, "%s/model.safetensors", l->cfg->weights_out);
  mk_status st = mk_folder_make(l->ctx, l->cfg->weights_out);
  if (st == MK_OK) st = mk_file_replaceable(l->ctx, path);
  if (st != MK_OK) mk_error_prefix(l->ctx, "weights_out");
  return st;
}

static mk_status open_memory(loop *l, int ranks) {
  MK_TRY(l->ctx, mk_heap_array(l->ctx, (size_t)ranks, sizeof(mt_rank_memory), &l->memory.rank));
  l->memory.ranks = ranks;
  return mt_run_memory_exchange(l->t, &l->memory);
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
  MK_TRY(ctx, mt_checkpoint_resume(l->t, l->data, &l->at));
  MK_TRY(ctx, mt_data_check_length(l->data, l->t->step, l->at.end));
  bool fresh = l->t->resumed == 0; /* else the checkpoint's weights are newer */
  if (fresh && l->cfg->weights_in[0] != '\0') MK_TRY(ctx, mt_weights_load(l->t, l->cfg->weights_in));
  l->recorded = l->t->resumed;
  MK_TRY(ctx, open_memory(l, world->size));
  count_anew(l);
  if (l->cfg->profile) MK_TRY(ctx, set_roofline(l));
  mt_run_info_fill(l->t, &info);
  info.memory = l->memory;
  info.resumed_step = l->t->resumed;
  return mt_recorder_start(l->rec, l->cfg, &info);
}

static mk_status write_end(loop *l, mk_status status) {
  mt_run_end end = {.status = status,
                    .exit_code = mt_exit_code(status),
                    .message = l->ctx->error.message,
                    .steps = l->recorded,
                    .time_s = l->at.trained_s,
                    .rank_spread_loss = l->rank_spread,
                    .bound_s = NAN};
  if (l->t != NULL) {
    if (l->memory.ranks > 0) mt_run_memory_fill(l->t, &l->memory);
    end.memory = l->memory;
    double done = (double)(l->t->step - l->t->resumed);
    end.host_waits_step = done > 0 ? (double)l->waits_total / done : 0;
    end.wire_bytes_step = done > 0 ? (double)l->wire_total / done : 0;
    if (l->cfg->profile) mt_run_profile_write(l->t, l->rec, &end);
  }
  return mt_recorder_end(l->rec, &end);
}

mk_status mt_loop_run(mk_context *ctx, const mt_config *cfg, mt_comm *world, const char *folder) {
  mk_status st = MK_OK;
  loop l = {.ctx = ctx, .cfg = cfg, .at.end = cfg->warmup_steps + cfg->steps, .rank_spread = NAN};
  l.stop = (mt_stop){.saves = cfg->checkpoint_dir[0] != '\0', .alone = world->size == 1};
  bool append = strcmp(cfg->resume, "none") != 0;
  MK_TRY(ctx, mt_recorder_create(ctx, world->rank == 0 ? folder : NULL, append, &l.rec));
  l.progress = mt_progress_begin(ctx, cfg, world->rank == 0);
  MK_TRY_GOTO(ctx, open_parts(&l, world), out);
  MK_TRY_GOTO(ctx, run_steps(&l), out);
  MK_TRY_GOTO(ctx, mt_run_rank_spread(l.t, &l.rank_spread), out);
  if (cfg->weights_out[0] != '\0') MK_TRY_GOTO(ctx, mt_weights_save(l.t, cfg->weights_out), out);
out:
  mt_progress_end(&l.progress);
  if (write_end(&l, st) != MK_OK && st == MK_OK) st = MK_ERR_OUTPUT;
  mk_heap_free(ctx, l.memory.rank);
  mk_heap_free(ctx, l.labels);
  mk_heap_free(ctx, l.tokens);
  mt_data_destroy(l.data);
  mt_trainer_destroy(l.t);
  mt_recorder_destroy(l.rec);
  return st;
}
