/* One result per case and metric: what was measured, how sure that is, and against which reference it stands. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "suite/judge/gate.h"
#include "suite/judge/parts.h"

static const double GIB = 1073741824.0, ALPHA = 0.05, DELTA_DEFAULT = 0.03;

static mk_status values_read(mk_context *ctx, const ms_judgement *j, int case_index, const char *metric, double **out,
                             int *count) {
  double *values = NULL;
  int index = ms_metric_index(metric), n = 0;
  MK_TRY(ctx, mk_heap_array(ctx, (size_t)j->run->n_launches, sizeof *values, &values));
  if (index >= 0) n = ms_run_values(j->run, case_index, index, values);
  ms_values_sort(values, n);
  *out = values;
  *count = n;
  return MK_OK;
}

static bool all_finite(const double *values, int n) {
  for (int i = 0; i < n; i++) {
    if (!isfinite(values[i])) return false;
  }
  return true;
}

mk_status ms_judge_values(mk_context *ctx, const ms_judgement *j, int case_index, const char *metric, double **out,
                          int *count) {
  MK_TRY(ctx, values_read(ctx, j, case_index, metric, out, count));
  bool usable = strcmp(j->cases[case_index].verdict, "PASS") == 0 && all_finite(*out, *count);
  if (!usable) *count = 0;
  return MK_OK;
}

static mk_status spread_fill(mk_context *ctx, const double *sorted, int n, ms_metric_result *r) {
  double *scratch = NULL;
  MK_TRY(ctx, mk_heap_array(ctx, (size_t)n, sizeof *scratch, &scratch));
  double mad = ms_mad(sorted, n, scratch);
  mk_heap_free(ctx, scratch);
  ms_ranks ranks = ms_median_ranks(n, ALPHA);
  r->n = n;
  r->median = ms_median(sorted, n);
  r->min = sorted[0];
  r->max = sorted[n - 1];
  r->mad_pct = r->median != 0 ? 100 * mad / fabs(r->median) : NAN;
  for (int i = 0; i < n; i++)
    r->outliers += ms_outlier(sorted[i], r->median, mad);
  if (ranks.lo == 0) return MK_OK;
  r->ci_lo = sorted[ranks.lo - 1];
  r->ci_hi = sorted[ranks.hi - 1];
  r->ci_pct = 100 * ranks.coverage;
  return MK_OK;
}

static double positive(double value) { return value > 0 ? value : NAN; }

/* Predicted by the plan, and the bound that no launch can beat. */
static void expectations_fill(const ms_run *run, ms_metric_result *r) {
  const ms_case *c = &run->plan->cases[r->case_index];
  const char *name = r->use->name;
  double devices = c->peer[0] == '\0' ? (double)c->config.ranks : 1, peak = NAN, flop_token = NAN;
  for (int i = 0; i < run->n_launches; i++) {
    const ms_launch *l = &run->launches[i];
    if (l->case_index != r->case_index || strcmp(l->status, "ok") != 0) continue;
    peak = l->peak_flops;
    flop_token = l->value[ms_metric_index("flop_token")];
  }
  if (strcmp(name, "tok_s") == 0 || strcmp(name, "tok_s_gpu") == 0) {
    double share = strcmp(name, "tok_s_gpu") == 0 ? devices : 1;
    r->predicted = positive(c->predicted_tok_s / share);
    r->bound = peak / flop_token / share;
  } else if (strcmp(name, "peak_mem") == 0) {
    r->predicted = positive((double)c->planned_total_bytes / GIB);
    r->bound = positive(c->config.memory_budget_mib / 1024);
  } else if (strcmp(name, "flop_token") == 0) {
    r->predicted = positive(c->flop_token);
  } else if (strcmp(name, "params_total") == 0) {
    r->predicted = positive((double)c->params_total);
  } else if (strcmp(name, "params_active") == 0) {
    r->predicted = positive((double)c->params_active);
  }
  r->bound_pct = 100 * r->median / r->bound;
}

static void ref_set(ms_metric_result *r, const char *kind, double ref) {
  snprintf(r->ref_kind, sizeof r->ref_kind, "%s", kind);
  r->ref = ref;
  r->ref_ratio = r->median / ref;
}

static void judge_published(const ms_judgement *j, ms_metric_result *r) {
  bool same = false;
  const ms_plan *plan = j->run->plan;
  int row = ms_published_row(j, r->case_index, r->use->name, &same);
  if (row < 0) return;
  double published = ms_csv_number(j->published, row, "value"), t = plan->study->published_tolerance;
  ref_set(r, "published", published);
  if (!same) {
    snprintf(r->reason, sizeof r->reason, "published on %s: shown, not judged",
             ms_csv_get(j->published, row, "system"));
  } else if (strcmp(ms_case_kind(&plan->cases[r->case_index]), "simulated") == 0) {
    snprintf(r->verdict, sizeof r->verdict, fabs(r->ref_ratio - 1) <= t ? "SIM_WITHIN" : "SIM_OFF");
  } else {
    bool low_n = isnan(r->ci_lo);
    const char *word =
        ms_published_word(low_n ? r->min : r->ci_lo, low_n ? r->max : r->ci_hi, published, t, r->use->lower_is_better);
    snprintf(r->verdict, sizeof r->verdict, "%s", word);
    if (low_n)
      snprintf(r->reason, sizeof r->reason, "low_n: %d launches, smallest and largest stand for the interval", r->n);
  }
}

/* By the gate of two sets of launches; values that must repeat, and zeros, are compared for equality. */
static mk_status judge_accepted(mk_context *ctx, const double *ours, int n, const double *theirs, int m,
                                ms_metric_result *r) {
  ms_ratio slowdown;
  double delta = r->use->delta > 0 ? r->use->delta : DELTA_DEFAULT;
  if (r->use->deterministic || ours[0] <= 0 || theirs[0] <= 0) {
    bool equal = fabs(r->median - r->ref) <= 1e-9 * fabs(r->ref);
    snprintf(r->verdict, sizeof r->verdict, equal ? "PASS" : (r->use->deterministic ? "REGRESSED" : "INCONCLUSIVE"));
    if (!equal) snprintf(r->reason, sizeof r->reason, "differs from the accepted value %.10g", r->ref);
    return MK_OK;
  }
  bool lower = r->use->lower_is_better;
  MK_TRY(ctx, ms_ratio_estimate(ctx, lower ? ours : theirs, lower ? n : m, lower ? theirs : ours, lower ? m : n, ALPHA,
                                &slowdown));
  snprintf(r->verdict, sizeof r->verdict, "%s", ms_gate_word(&slowdown, delta));
  snprintf(r->reason, sizeof r->reason, "%+.1f %% (%+.1f to %+.1f; plus is worse; threshold %.1f %%, n %d and %d)",
           100 * (slowdown.value - 1), 100 * (slowdown.lo - 1), 100 * (slowdown.hi - 1), 100 * delta, n, m);
  if (!slowdown.exists) snprintf(r->reason, sizeof r->reason, "low_n: %d and %d launches allow no interval", n, m);
  if (slowdown.value < 0.8)
    snprintf(r->reason, sizeof r->reason, "better by a fifth or more: baseline outdated or run invalid");
  return MK_OK;
}

static mk_status judge_reference(mk_context *ctx, const ms_judgement *j, const double *ours, int n,
                                 ms_metric_result *r) {
  mk_status st = MK_OK;
  double *theirs = NULL;
  int m = 0;
  int64_t row = -1;
  char why[MS_REASON_BYTES];
  MK_TRY_GOTO(ctx, ms_accepted_values(ctx, j, r->case_index, r->use->name, &theirs, &m, &row, why), out);
  if (m == 0) {
    judge_published(j, r);
    if (r->reason[0] == '\0') snprintf(r->reason, sizeof r->reason, "%s", why);
    goto out;
  }
  ms_values_sort(theirs, m);
  ref_set(r, "baseline", ms_median(theirs, m));
  if (r->use->gate) MK_TRY_GOTO(ctx, judge_accepted(ctx, ours, n, theirs, m, r), out);
out:
  mk_heap_free(ctx, theirs);
  return st;
}

static mk_status metric_judge(mk_context *ctx, const ms_judgement *j, ms_metric_result *r) {
  mk_status st = MK_OK;
  double *values = NULL;
  int n = 0;
  const char *of_case = j->cases[r->case_index].verdict;
  bool ran = strcmp(of_case, "PASS") == 0 || strcmp(of_case, "XPASS") == 0;
  MK_TRY_GOTO(ctx, values_read(ctx, j, r->case_index, r->use->name, &values, &n), out);
  snprintf(r->verdict, sizeof r->verdict, "%s", strcmp(of_case, "PASS") == 0 ? "" : of_case);
  if (!ran || n == 0) goto out;
  if (!all_finite(values, n)) {
    r->n = n;
    if (r->use->gate) snprintf(r->verdict, sizeof r->verdict, "FAIL");
    bool emulated = r->metric != NULL && r->metric->timed && ms_case_is_emulated(&j->run->plan->cases[r->case_index]);
    if (emulated) snprintf(r->verdict, sizeof r->verdict, "emulated");
    snprintf(r->reason, sizeof r->reason, "%s",
             emulated ? "emulated arithmetic: its speed is no result" : "not available in at least one launch");
    goto out;
  }
  MK_TRY_GOTO(ctx, spread_fill(ctx, values, n, r), out);
  expectations_fill(j->run, r);
  if (strcmp(of_case, "PASS") != 0) goto out;
  MK_TRY_GOTO(ctx, judge_reference(ctx, j, values, n, r), out);
  if (r->use->gate && r->verdict[0] == '\0') snprintf(r->verdict, sizeof r->verdict, "no reference");
out:
  mk_heap_free(ctx, values);
  return st;
}

mk_status ms_judge_metrics(mk_context *ctx, ms_judgement *j) {
  const ms_study *study = j->run->plan->study;
  for (int i = 0; i < j->n_metrics; i++) {
    ms_metric_result *r = &j->metrics[i];
    *r = (ms_metric_result){.case_index = i / study->n_metrics,
                            .use = &study->metrics[i % study->n_metrics],
                            .median = NAN,
                            .ci_lo = NAN,
                            .ci_hi = NAN,
                            .ci_pct = NAN,
                            .min = NAN,
                            .max = NAN,
                            .mad_pct = NAN,
                            .predicted = NAN,
                            .bound = NAN,
                            .bound_pct = NAN,
                            .ref = NAN,
                            .ref_ratio = NAN};
    r->metric = ms_metric_find(r->use->name);
    MK_TRY(ctx, metric_judge(ctx, j, r));
  }
  return MK_OK;
}
