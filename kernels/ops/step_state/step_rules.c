/* The rules follow Olmo-core 3.0.0: schedules from olmo_core/optim/scheduler.py (the counter is advanced before the
 * rate is taken, so that the first step has peak/warmup and not 0), SkipStep from
 * olmo_core/optim/skip_step_optimizer.py (mean and unbiased deviation of all entries but the newest; the newest stays
 * in the history whether skipped or not), fed with the cross-entropy alone as its train modules do
 * (`optim.latest_loss = ce_batch_loss`). One departure: a step whose loss or norm is not finite is skipped and does not
 * enter the history, where it would reject every later step. */
#include "kernels/ops/step_state/step_rules.h"

#include <math.h>
#include <string.h>

enum { HISTORY = 129, HISTORY_NEEDED = 64 }; /* rolling interval 128, and the newest; half of it must be there */

static double decayed(const mk_step_begin_args *a, double done) {
  double floor_lr = a->peak_lr * a->min_ratio;
  if (done >= 1.0) return floor_lr;
  if (a->schedule == MK_LR_COSINE) return floor_lr + (a->peak_lr - floor_lr) * (1.0 + cos(M_PI * done)) / 2.0;
  return a->peak_lr - (a->peak_lr - floor_lr) * done;
}

double mk_step_lr(const mk_step_begin_args *a, int64_t step) {
  if (step <= a->warmup_steps) return a->peak_lr * (double)step / (double)a->warmup_steps;
  if (a->schedule == MK_LR_CONSTANT) return a->peak_lr;
  int64_t span = a->total_steps - a->warmup_steps;
  return decayed(a, span > 0 ? (double)(step - a->warmup_steps) / (double)span : 1.0);
}

void mk_step_begin_rule(const mk_step_begin_args *args, mk_step_state *state, double *sums, int64_t *counts) {
  state->step += 1;
  state->lr = mk_step_lr(args, state->step);
  state->grad_norm = 0;
  state->clip_coef = 1;
  state->skip = 0;
  state->nonfinite = 0;
  memset(sums, 0, MK_SUM_COUNT * sizeof *sums);
  if (counts != NULL) memset(counts, 0, mk_tensor_bytes(&args->counts));
}

static void history_push(mk_step_state *state, double loss, double norm) {
  if (state->history == HISTORY) {
    memmove(state->loss_history, state->loss_history + 1, (HISTORY - 1) * sizeof(double));
    memmove(state->norm_history, state->norm_history + 1, (HISTORY - 1) * sizeof(double));
    state->history -= 1;
  }
  state->loss_history[state->history] = loss;
  state->norm_history[state->history] = norm;
  state->history += 1;
}

/* Mean plus sigma_factor standard deviations of all entries but the newest. */
static double upper_bound(const double *history, int64_t entries, double sigma_factor) {
  double mean = 0, squares = 0;
  for (int64_t i = 0; i < entries - 1; i++)
    mean += history[i];
  mean /= (double)(entries - 1);
  for (int64_t i = 0; i < entries - 1; i++)
    squares += (history[i] - mean) * (history[i] - mean);
  return mean + sigma_factor * sqrt(squares / (double)(entries - 2));
}

bool mk_step_is_outlier(const mk_step_state *state, double sigma_factor) {
  int64_t entries = state->history;
  if (entries < HISTORY_NEEDED) return false;
  return state->loss_history[entries - 1] > upper_bound(state->loss_history, entries, sigma_factor) ||
         state->norm_history[entries - 1] > upper_bound(state->norm_history, entries, sigma_factor);
}

void mk_step_clip_rule(const mk_step_clip_args *args, mk_step_state *state, double squared_norm, const double *sums) {
  double total =
      sums[MK_SUM_CE] + sums[MK_SUM_Z] + args->lb_weight * sums[MK_SUM_LB] + args->rz_weight * sums[MK_SUM_RZ];
  double norm = sqrt(squared_norm);
  state->grad_norm = norm;
  state->nonfinite = !isfinite(total) || !isfinite(norm);
  state->clip_coef = args->max_norm > 0 ? fmin(1.0, args->max_norm / (norm + 1e-6)) : 1.0;
  state->skip = state->nonfinite;
  if (args->skip_step && !state->nonfinite) {
    history_push(state, sums[MK_SUM_CE], norm);
    state->skip = mk_step_is_outlier(state, args->sigma_factor);
  }
  if (!state->skip) state->taken += 1;
}

/* Worst layer's largest expert count over the mean; 0 without routed tokens. */
static double worst_imbalance(const mk_tensor *shape, const int64_t *counts) {
  double worst = 0;
  for (int64_t layer = 0; layer < shape->dim[0]; layer++) {
    const int64_t *of_layer = counts + layer * shape->dim[1];
    int64_t total = 0, largest = 0;
    for (int64_t e = 0; e < shape->dim[1]; e++) {
      total += of_layer[e];
      largest = of_layer[e] > largest ? of_layer[e] : largest;
    }
    if (total > 0) worst = fmax(worst, (double)largest * (double)shape->dim[1] / (double)total);
  }
  return worst;
}

void mk_step_record_rule(const mk_step_record_args *args, const mk_step_state *state, const double *sums,
                         const int64_t *counts, mk_step_log *log) {
  log->step = state->step;
  memcpy(log->sum, sums, sizeof log->sum);
  log->grad_norm = state->grad_norm;
  log->lr = state->lr;
  log->imbalance = counts != NULL ? worst_imbalance(&args->counts, counts) : 0;
  log->skipped = state->skip;
  log->nonfinite = state->nonfinite;
}
