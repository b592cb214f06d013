/* One word per case: did it end as it should. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "suite/judge/parts.h"

static void set(ms_case_result *r, const char *verdict, const ms_launch *cause, const char *reason) {
  snprintf(r->verdict, sizeof r->verdict, "%s", verdict);
  snprintf(r->reason, sizeof r->reason, "%.500s", reason);
  r->cause = cause;
}

/* Against expect_fail: the declared status, a good end, or something else. */
static void judge_expected(const ms_expect_fail *expect, const ms_launch *failed, ms_case_result *r) {
  char text[MS_REASON_BYTES];
  if (failed == NULL) {
    snprintf(text, sizeof text, "ran well, but '%s' was expected: %.300s", expect->status, expect->reason);
    set(r, "XPASS", NULL, text);
  } else if (strcmp(failed->status, expect->status) == 0) {
    set(r, "XFAIL", failed, expect->reason);
  } else {
    snprintf(text, sizeof text, "ended with '%s' where '%s' was expected: %.300s", failed->status, expect->status,
             failed->message);
    set(r, "FAIL", failed, text);
  }
}

static void judge_sanity(const ms_judgement *j, int case_index, ms_case_result *r) {
  char reason[MS_REASON_BYTES];
  for (int i = 0; i < j->run->n_launches; i++) {
    const ms_launch *l = &j->run->launches[i];
    if (l->case_index != case_index || strcmp(l->status, "ok") != 0) continue;
    r->not_steady = r->not_steady || l->value[ms_metric_index("not_steady")] == 1;
    if (strcmp(r->verdict, "PASS") != 0 || ms_sanity_holds(j, l, reason, r->unchecked)) continue;
    set(r, "FAIL", l, reason);
  }
}

/* Metrics that the study calls deterministic must repeat to the last bit. */
static void judge_repeatable(const ms_judgement *j, int case_index, ms_case_result *r) {
  const ms_study *study = j->run->plan->study;
  char text[MS_REASON_BYTES];
  for (int m = 0; m < study->n_metrics; m++) {
    int index = ms_metric_index(study->metrics[m].name);
    const ms_launch *first = NULL;
    if (!study->metrics[m].deterministic || index < 0) continue;
    for (int i = 0; i < j->run->n_launches; i++) {
      const ms_launch *l = &j->run->launches[i];
      if (l->case_index != case_index || strcmp(l->status, "ok") != 0) continue;
      if (first == NULL) first = l;
      double a = first->value[index], b = l->value[index];
      if (a == b || (isnan(a) && isnan(b))) continue;
      snprintf(text, sizeof text, "%s is deterministic, but launch %d has %.17g and launch %d has %.17g",
               study->metrics[m].name, first->number, a, l->number, b);
      set(r, "FAIL", l, text);
      return;
    }
  }
}

static void judge_case(const ms_judgement *j, int case_index, ms_case_result *r) {
  const ms_case *c = &j->run->plan->cases[case_index];
  const ms_launch *failed = NULL;
  char text[MS_REASON_BYTES];
  r->n_failed = ms_run_failed(j->run, case_index, &failed);
  r->n = ms_run_ended(j->run, case_index) - r->n_failed;
  if (r->n + r->n_failed == 0) return;
  if (failed != NULL && strcmp(failed->status, "interrupted") == 0) {
    r->n_failed -= 1;
    set(r, "interrupted", failed, failed->message);
  } else if (failed != NULL && strcmp(failed->status, "unsupported") == 0) {
    r->n_failed -= 1;
    set(r, "unsupported", failed, failed->message);
  } else if (c->expect != NULL) {
    judge_expected(c->expect, failed, r);
  } else if (failed != NULL) {
    snprintf(text, sizeof text, "launch %d: %s: %.400s", failed->number, failed->status, failed->message);
    set(r, "FAIL", failed, text);
  } else {
    set(r, "PASS", NULL, "");
    judge_sanity(j, case_index, r);
    if (strcmp(r->verdict, "PASS") == 0) judge_repeatable(j, case_index, r);
  }
}

mk_status ms_judge_cases(mk_context *ctx, ms_judgement *j) {
  (void)ctx;
  for (int i = 0; i < j->run->plan->n_cases; i++)
    judge_case(j, i, &j->cases[i]);
  return MK_OK;
}
