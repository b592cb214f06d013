/* Claims: ratios inside one run set. An expression of the form A / B, where A and B are metrics or the max or min of
 * metrics (the best of several cases, chosen by median), has an exact interval; any other form has a value only.
 * The bound "+- eps" is a claim of equality: A - B of two metrics lies within eps by two one-sided tests at 5 %, that
 * is, the 90 % interval of the difference of means lies inside [-eps, eps] (Schuirmann 1987): Welch's, or, with "by
 * seed", Student's over the differences of launches of the same number, which have the same seed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "suite/judge/gate.h"
#include "suite/judge/parts.h"

typedef struct evaluation {
  mk_context *ctx;
  const ms_judgement *j;
  const ms_expr *expr;
  ms_claim_result *r;
} evaluation;

static int case_of(const evaluation *e, int ref) {
  const ms_case *c = ms_plan_case_find(e->j->run->plan, &e->expr->metric[ref]);
  return c == NULL ? -1 : (int)(c - e->j->run->plan->cases);
}

/* Median of a metric that counts, else NaN. */
static double median_of(const void *user, const ms_expr *expr, int index) {
  const evaluation *e = (const evaluation *)user;
  int case_index = case_of(e, index);
  if (case_index < 0 || strcmp(e->j->cases[case_index].verdict, "PASS") != 0) return NAN;
  const ms_metric_result *m = ms_judge_metric(e->j, case_index, expr->metric[index].metric);
  return m == NULL ? NAN : m->median;
}

/* The metric that a side stands for: itself, or the best of max/min; -1 for other forms or missing values. */
static int side_metric(const evaluation *e, int at) {
  const ms_expr_node *n = &e->expr->node[at];
  if (n->kind == MS_EXPR_METRIC) return n->ref;
  if (n->kind != MS_EXPR_MAX && n->kind != MS_EXPR_MIN) return -1;
  int a = side_metric(e, n->first), b = side_metric(e, n->second);
  if (a < 0 || b < 0) return -1;
  double va = median_of(e, e->expr, a), vb = median_of(e, e->expr, b);
  if (isnan(va) || isnan(vb)) return -1;
  return (va > vb) == (n->kind == MS_EXPR_MAX) ? a : b;
}

static bool is_equality(const evaluation *e) { return e->r->accept != NULL && strcmp(e->r->accept->op, "+-") == 0; }

/* Emulated arithmetic has the bits of the real one: what it computes may stand beside measured values in a claim of
 * equality; what takes time may not, and nothing simulated may. */
static bool compares_values(const evaluation *e, const char *a, const char *b) {
  for (int i = 0; i < e->expr->n_metrics; i++) {
    const ms_metric *metric = ms_metric_find(e->expr->metric[i].metric);
    if (metric == NULL || metric->timed) return false;
  }
  return is_equality(e) && strcmp(a, "simulated") != 0 && strcmp(b, "simulated") != 0;
}

/* Why an expression has no value: the first case that does not count; also mixed kinds. */
static bool blocked(const evaluation *e) {
  const char *kind = NULL;
  for (int i = 0; i < e->expr->n_metrics; i++) {
    int c = case_of(e, i);
    const char *metric = e->expr->metric[i].metric;
    if (c < 0) {
      snprintf(e->r->reason, MS_REASON_BYTES, "%s: this scale has no such case", metric);
      return true;
    }
    const char *verdict = e->j->cases[c].verdict, *name = e->j->run->plan->cases[c].name;
    const char *of_case = ms_case_kind(&e->j->run->plan->cases[c]);
    if (strcmp(verdict, "PASS") != 0) {
      snprintf(e->r->reason, MS_REASON_BYTES, "%s: %s", name, verdict[0] == '\0' ? "not run" : verdict);
      return true;
    }
    if (isnan(median_of(e, e->expr, i))) {
      snprintf(e->r->reason, MS_REASON_BYTES, "%s of %s is not available", metric, name);
      return true;
    }
    if (kind != NULL && strcmp(kind, of_case) != 0 && !compares_values(e, kind, of_case)) {
      snprintf(e->r->reason, MS_REASON_BYTES, "refused: %s and %s values in one claim", kind, of_case);
      return true;
    }
    kind = of_case;
  }
  return false;
}

static mk_status ratio_fill(evaluation *e, int top, int bottom, bool *exists) {
  mk_status st = MK_OK;
  mk_context *ctx = e->ctx;
  double *a = NULL, *b = NULL;
  int n_a = 0, n_b = 0;
  ms_ratio ratio;
  MK_TRY_GOTO(ctx, ms_judge_values(ctx, e->j, case_of(e, top), e->expr->metric[top].metric, &b, &n_b), out);
  MK_TRY_GOTO(ctx, ms_judge_values(ctx, e->j, case_of(e, bottom), e->expr->metric[bottom].metric, &a, &n_a), out);
  e->r->n = n_a < n_b ? n_a : n_b;
  if (n_a == 0 || n_b == 0 || a[0] <= 0 || b[0] <= 0) goto out;
  MK_TRY_GOTO(ctx, ms_ratio_estimate(ctx, b, n_b, a, n_a, 0.05, &ratio), out);
  e->r->value = ratio.value;
  e->r->lo = ratio.lo;
  e->r->hi = ratio.hi;
  *exists = ratio.exists;
out:
  mk_heap_free(ctx, a);
  mk_heap_free(ctx, b);
  return st;
}

/* Value of the metric in the launch of this number, NaN where there is none that counts. */
static double launch_value(const evaluation *e, int ref, int number) {
  const ms_run *run = e->j->run;
  for (int i = 0; i < run->n_launches; i++) {
    const ms_launch *l = &run->launches[i];
    if (l->case_index != case_of(e, ref) || l->number != number || strcmp(l->status, "ok") != 0) continue;
    return l->value[ms_metric_index(e->expr->metric[ref].metric)];
  }
  return NAN;
}

static mk_status paired_fill(evaluation *e, int first, int second, bool *exists) {
  double *differences = NULL;
  int n = 0;
  MK_TRY(e->ctx, mk_heap_array(e->ctx, (size_t)e->j->run->n_launches, sizeof *differences, &differences));
  for (int number = 1; number <= e->j->run->n_launches; number++) {
    differences[n] = launch_value(e, first, number) - launch_value(e, second, number);
    n += isfinite(differences[n]);
  }
  ms_difference d = ms_paired(differences, n, 0.90);
  mk_heap_free(e->ctx, differences);
  e->r->n = n;
  e->r->lo = d.lo;
  e->r->hi = d.hi;
  *exists = d.exists;
  if (d.exists) e->r->value = d.value;
  return MK_OK;
}

static mk_status difference_fill(evaluation *e, int first, int second, bool *exists) {
  mk_status st = MK_OK;
  mk_context *ctx = e->ctx;
  double *a = NULL, *b = NULL;
  int n_a = 0, n_b = 0;
  MK_TRY_GOTO(ctx, ms_judge_values(ctx, e->j, case_of(e, first), e->expr->metric[first].metric, &a, &n_a), out);
  MK_TRY_GOTO(ctx, ms_judge_values(ctx, e->j, case_of(e, second), e->expr->metric[second].metric, &b, &n_b), out);
  e->r->n = n_a < n_b ? n_a : n_b;
  ms_difference d = ms_welch(a, n_a, b, n_b, 0.90);
  e->r->value = d.value;
  e->r->lo = d.lo;
  e->r->hi = d.hi;
  *exists = d.exists;
out:
  mk_heap_free(ctx, a);
  mk_heap_free(ctx, b);
  return st;
}

/* Value and, where there is one, interval. */
static mk_status evaluate(evaluation *e, bool *exists) {
  const ms_expr_node *root = &e->expr->node[e->expr->root];
  *exists = false;
  e->r->value = ms_expr_value(e->expr, median_of, e);
  for (int i = 0; i < e->expr->n_metrics; i++) {
    int n = e->j->cases[case_of(e, i)].n;
    if (i == 0 || n < e->r->n) e->r->n = n;
  }
  if (is_equality(e) && root->kind == MS_EXPR_SUBTRACT) {
    int first = side_metric(e, root->first), second = side_metric(e, root->second);
    if (first < 0 || second < 0) return MK_OK;
    return e->r->accept->by_seed ? paired_fill(e, first, second, exists) : difference_fill(e, first, second, exists);
  }
  if (root->kind != MS_EXPR_DIVIDE) return MK_OK;
  int top = side_metric(e, root->first), bottom = side_metric(e, root->second);
  return top < 0 || bottom < 0 ? MK_OK : ratio_fill(e, top, bottom, exists);
}

static bool is_simulated(const evaluation *e) {
  return e->expr->n_metrics > 0 && strcmp(ms_case_kind(&e->j->run->plan->cases[case_of(e, 0)]), "simulated") == 0;
}

static void word_set(evaluation *e, bool exists) {
  ms_claim_result *r = e->r;
  if (r->accept == NULL) {
    snprintf(r->verdict, sizeof r->verdict, "not judged");
    snprintf(r->reason, sizeof r->reason, "scale '%s' states no bound for it", e->j->run->plan->scale->name);
    return;
  }
  const char *word =
      ms_claim_word(exists ? r->lo : r->value, exists ? r->hi : r->value, r->accept->op, r->accept->value);
  bool low_n = !exists && !is_simulated(e);
  if (low_n && is_equality(e)) { /* one value proves no equality */
    snprintf(r->verdict, sizeof r->verdict, "INCONCLUSIVE");
    snprintf(r->reason, sizeof r->reason,
             "n = %d a side: equality needs a difference of two metrics with 2 launches each", r->n);
    return;
  }
  snprintf(r->verdict, sizeof r->verdict, "%s%s", word, low_n ? " (low_n)" : "");
  if (low_n) snprintf(r->reason, sizeof r->reason, "n = %d a side: the value alone decides, without an interval", r->n);
}

static mk_status claim_evaluate(mk_context *ctx, const ms_judgement *j, ms_claim_result *r) {
  ms_expr *expr = NULL;
  ms_expr_fault fault;
  mk_status st = ms_expr_parse_claim(ctx, r->claim->expr, &fault, &expr);
  MK_CHECK(ctx, st != MK_ERR_CONFIG, MK_ERR_CONFIG, "claim %s: %s", r->claim->id, fault.message);
  if (st != MK_OK) return st;
  evaluation e = {.ctx = ctx, .j = j, .expr = expr, .r = r};
  bool exists = false;
  if (blocked(&e)) {
    snprintf(r->verdict, sizeof r->verdict, r->accept != NULL ? "INCONCLUSIVE" : "not judged");
  } else {
    st = evaluate(&e, &exists);
    if (st == MK_OK) word_set(&e, exists);
  }
  ms_expr_destroy(ctx, expr);
  return st;
}

static mk_status claim_judge(mk_context *ctx, ms_judgement *j, const ms_claim *claim, ms_claim_result *r) {
  const ms_scale *scale = j->run->plan->scale;
  *r = (ms_claim_result){.claim = claim, .value = NAN, .lo = NAN, .hi = NAN, .predicted = NAN};
  for (int i = 0; i < scale->n_accept; i++) {
    if (strcmp(scale->accept[i].claim, claim->id) == 0) r->accept = &scale->accept[i];
  }
  for (int i = 0; i < scale->n_predict; i++) {
    if (strcmp(scale->predict[i].claim, claim->id) == 0) r->predicted = scale->predict[i].value;
  }
  MK_TRY(ctx, claim_evaluate(ctx, j, r));
  for (int i = 0; i < scale->n_not_testable; i++) {
    if (strcmp(scale->not_testable[i].claim, claim->id) != 0) continue;
    snprintf(r->verdict, sizeof r->verdict, "not testable");
    snprintf(r->reason, sizeof r->reason, "%.500s", scale->not_testable[i].reason);
  }
  return MK_OK;
}

mk_status ms_judge_claims(mk_context *ctx, ms_judgement *j) {
  const ms_study *study = j->run->plan->study;
  MK_TRY(ctx, mk_heap_array(ctx, (size_t)study->n_claims, sizeof *j->claims, &j->claims));
  for (int i = 0; i < study->n_claims; i++)
    MK_TRY(ctx, claim_judge(ctx, j, &study->claims[i], &j->claims[i]));
  return MK_OK;
}
