/* See compare.h. */
#include "tests/trainer/parallel/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/trainer/support/tiny.h"

void result_fail(result *r, const char *row, int rank, const char *what, int64_t index, double expected, double got) {
  fprintf(stderr, "FAIL '%s' rank %d: %s index %lld: expected %.9g got %.9g\n", row, rank, what, (long long)index,
          expected, got);
  if (r->failures++ == 0) snprintf(r->first_failure, sizeof r->first_failure, "%s on rank %d", what, rank);
}

static void compare_routes(result *r, const char *row, const outcome *got, const outcome *one, bool exact) {
  for (int64_t i = 0; i < OUTCOME_STEPS * got->microbatches * got->moe_layers; i++) {
    int64_t layer = i % got->moe_layers, m = i / got->moe_layers % got->microbatches;
    int step = (int)(i / got->moe_layers / got->microbatches);
    const int32_t *a = outcome_routes(got, step, m, layer);
    const int32_t *b = outcome_routes(one, step, outcome_block(got, m), layer);
    if (a[0] < 0) continue; /* another pipeline rank's layer */
    for (int64_t k = 0; k < got->layer_routes; k++) {
      if (a[k] == b[k]) continue;
      char label[96];
      snprintf(label, sizeof label, "route of step %d microbatch %lld MoE layer %lld", step + 1, (long long)m,
               (long long)layer);
      if (exact && r->flips == 0) result_fail(r, row, got->plan.rank, label, k, b[k], a[k]);
      r->flips += 1;
      r->first_flips += step == 0;
    }
  }
}

static void compare_sums(result *r, const char *row, const outcome *got, const outcome *one) {
  static const char *const names[MK_SUM_COUNT] = {"ce", "z", "lb", "rz", "dropped", "routed", "labels"};
  for (int i = 0; i < MK_SUM_COUNT; i++) {
    double error = fabs(got->sums[i] - one->sums[i]) / (fabs(one->sums[i]) + 1e-12);
    r->loss_error = fmax(r->loss_error, error);
    if (r->first_flips == 0 && !(error <= r->sum_tolerance))
      result_fail(r, row, got->plan.rank, names[i], i, one->sums[i], got->sums[i]);
  }
}

/* Of the whole step: every rank has the same. Counts are integers, so exact. */
static void compare_step(result *r, const char *row, const outcome *got, const outcome *one) {
  double error = fabs(got->grad_norm - one->grad_norm) / one->grad_norm;
  if (!(error <= r->tolerance)) result_fail(r, row, got->plan.rank, "gradient norm", 0, one->grad_norm, got->grad_norm);
  for (int64_t i = 0; i < got->moe_layers * got->cfg.experts; i++) {
    if (got->counts[i] == one->counts[i]) continue;
    result_fail(r, row, got->plan.rank, "routes to an expert", i, one->counts[i], got->counts[i]);
    return;
  }
}

/* How far a parameter is from the twin's, relative to the way that the twin's went. */
static double way_error(const double *got, const double *expected, const double *initial, int64_t count) {
  double difference = 0, way = 0;
  for (int64_t i = 0; i < count; i++) {
    difference += (got[i] - expected[i]) * (got[i] - expected[i]);
    way += (expected[i] - initial[i]) * (expected[i] - initial[i]);
  }
  return way > 0 ? sqrt(difference / way) : sqrt(difference);
}

static void judge(result *r, const char *row, const outcome *got, const char *what, const outcome_param *p,
                  double error, double tolerance) {
  char label[128];
  snprintf(label, sizeof label, "%s of %s, norm-relative error", what, p->name);
  if (!(error <= tolerance)) result_fail(r, row, got->plan.rank, label, p->first, 0, error);
}

/* Words that no token has and experts without tokens: their gradients are exactly zero in every layout. */
static int64_t zeros(const double *values, int64_t count) {
  int64_t n = 0;
  for (int64_t i = 0; i < count; i++)
    n += values[i] == 0;
  return n;
}

static void compare_zeros(result *r, const char *row, const outcome *got, const outcome_param *p,
                          const outcome_param *q) {
  int64_t own = p->own_first, n = zeros(p->gradient + own, p->own_count);
  int64_t expected = zeros(q->gradient + p->first + own, p->own_count);
  char label[128];
  snprintf(label, sizeof label, "zero gradients of %s", p->name);
  if (n != expected) result_fail(r, row, got->plan.rank, label, p->first, (double)expected, (double)n);
}

static void compare_param(result *r, const char *row, const outcome *got, const outcome_param *p,
                          const outcome_param *q) {
  int64_t own = p->own_first, shard = p->shard_first;
  double initial = tiny_norm_error(p->initial, q->initial + p->first, p->count);
  judge(r, row, got, "initial value", p, initial, 0); /* no layout may change initial values */
  double gradient = tiny_norm_error(p->gradient + own, q->gradient + p->first + own, p->own_count);
  if (!(gradient <= r->gradient_error)) {
    r->gradient_error = gradient;
    memcpy(r->gradient_name, p->name, sizeof r->gradient_name);
  }
  if (r->first_flips == 0) judge(r, row, got, "gradient", p, gradient, r->tolerance);
  if (r->first_flips == 0 && got->cfg.precision == MT_FP32) compare_zeros(r, row, got, p, q);
  double way = way_error(p->main, q->main + p->first + shard, q->initial + p->first + shard, p->shard_count);
  double copy = tiny_norm_error(p->weight, q->weight + p->first, p->count);
  r->parameter_error = fmax(r->parameter_error, way);
  if (r->flips > 0) return;
  /* Adam's first steps divide a gradient by its own size, rounding included */
  judge(r, row, got, "way of three steps", p, way, fmax(r->tolerance, 1e-3));
  judge(r, row, got, "compute copy after three steps", p, copy, r->tolerance);
}

void compare_one(result *r, const char *row, const outcome *got, const outcome *one, bool exact_routes) {
  compare_routes(r, row, got, one, exact_routes);
  compare_sums(r, row, got, one);
  if (r->first_flips == 0) compare_step(r, row, got, one);
  for (int i = 0; i < got->n_params; i++) {
    const outcome_param *q = outcome_param_find(one, got->param[i].name);
    if (q != NULL) {
      compare_param(r, row, got, &got->param[i], q);
    } else {
      result_fail(r, row, got->plan.rank, got->param[i].name, 0, 1, 0);
    }
  }
}

void compare_costs(result *r, const char *row, const outcome *got) {
  const costs *c = &r->cost;
  int rank = got->plan.rank;
  if (r->flips == 0 && c->ep_traced != c->ep_predicted)
    result_fail(r, row, rank, "bytes of the token exchange", 0, (double)c->ep_predicted, (double)c->ep_traced);
  if (r->flips == 0 && c->wire_traced != c->wire_predicted)
    result_fail(r, row, rank, "bytes on the wire", 0, (double)c->wire_predicted, (double)c->wire_traced);
  if (r->flips == 0 && c->window_counted != c->window_predicted)
    result_fail(r, row, rank, "bytes through windows", 0, (double)c->window_predicted, (double)c->window_counted);
  if (c->state_counted != c->state_predicted)
    result_fail(r, row, rank, "parameters, gradients and optimizer state, bytes", 0, (double)c->state_predicted,
                (double)c->state_counted);
  if (c->memory_counted > c->memory_predicted || (double)c->memory_counted < 0.9 * (double)c->memory_predicted)
    result_fail(r, row, rank, "peak memory, bytes (0.9 to 1 of)", 0, (double)c->memory_predicted,
                (double)c->memory_counted);
  if (c->waits_counted != c->waits_predicted)
    result_fail(r, row, rank, "host waits of a step", 0, (double)c->waits_predicted, (double)c->waits_counted);
}

static void same_bits(result *r, const char *row, const outcome *got, const char *what, const char *name,
                      const double *a, const double *b, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    if (memcmp(&a[i], &b[i], sizeof a[i]) == 0) continue;
    char label[128];
    snprintf(label, sizeof label, "bits of %s %s", what, name);
    result_fail(r, row, got->plan.rank, label, i, b[i], a[i]);
    return;
  }
}

void compare_bits(result *r, const char *row, const outcome *got, const outcome *twin) {
  same_bits(r, row, got, "sums", "of step 1", got->sums, twin->sums, MK_SUM_COUNT);
  for (int i = 0; i < got->n_params; i++) {
    const outcome_param *p = &got->param[i], *q = &twin->param[i];
    same_bits(r, row, got, "gradient", p->name, p->gradient + p->own_first, q->gradient + p->own_first, p->own_count);
    same_bits(r, row, got, "compute copy", p->name, p->weight, q->weight, p->count);
    same_bits(r, row, got, "main", p->name, p->main, q->main, p->shard_count);
  }
}
