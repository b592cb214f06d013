/* Ratios of cases that differ in one factor, each with its base and, where both are published, the published ratio. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "suite/judge/parts.h"

static int base_find(const ms_plan *plan, int factor, const char *base, int case_index) {
  char level[MS_MAX_FACTORS][MS_NAME_BYTES];
  memcpy(level, plan->cases[case_index].level, sizeof level);
  snprintf(level[factor], MS_NAME_BYTES, "%s", base);
  const ms_case *found = ms_plan_case_at(plan, (const char(*)[MS_NAME_BYTES])level);
  return found == NULL ? -1 : (int)(found - plan->cases);
}

static double published_value(const ms_judgement *j, int case_index, const char *metric) {
  bool same = false;
  int row = ms_published_row(j, case_index, metric, &same);
  return row < 0 ? NAN : ms_csv_number(j->published, row, "value");
}

/* More than one key differs, or another program runs: stacks are compared, not one knob. */
static bool is_stack(const ms_case *a, const ms_case *b) {
  char keys[MS_LINE_BYTES];
  return strcmp(a->peer, b->peer) != 0 || ms_case_difference(a, b, keys, sizeof keys) > 1;
}

static mk_status contrast_fill(mk_context *ctx, const ms_judgement *j, ms_contrast_result *r) {
  mk_status st = MK_OK;
  const ms_plan *plan = j->run->plan;
  const ms_case *a = &plan->cases[r->base_index], *b = &plan->cases[r->case_index];
  const char *metric = r->contrast->metric, *kind = ms_case_kind(b);
  double *ours = NULL, *base = NULL;
  r->ratio = (ms_ratio){NAN, NAN, NAN, false};
  r->published_ratio = published_value(j, r->case_index, metric) / published_value(j, r->base_index, metric);
  MK_TRY_GOTO(ctx, ms_judge_values(ctx, j, r->case_index, metric, &ours, &r->n), out);
  MK_TRY_GOTO(ctx, ms_judge_values(ctx, j, r->base_index, metric, &base, &r->n_base), out);
  if (strcmp(kind, ms_case_kind(a)) != 0) {
    snprintf(r->label, sizeof r->label, "no ratio: %s against %s", kind, ms_case_kind(a));
  } else if (r->n == 0 || r->n_base == 0) {
    snprintf(r->label, sizeof r->label, "no ratio: %s has no value", r->n == 0 ? b->name : a->name);
  } else if (ours[0] <= 0 || base[0] <= 0) {
    snprintf(r->label, sizeof r->label, "no ratio: a value is not above 0");
  } else {
    MK_TRY_GOTO(ctx, ms_ratio_estimate(ctx, ours, r->n, base, r->n_base, 0.05, &r->ratio), out);
    bool stack = is_stack(a, b);
    bool low_n = !r->ratio.exists && strcmp(kind, "simulated") != 0;
    snprintf(r->label, sizeof r->label, "%s%s%s", low_n ? "low_n" : "", low_n && stack ? ", " : "",
             stack ? "stack vs stack" : "");
  }
out:
  mk_heap_free(ctx, ours);
  mk_heap_free(ctx, base);
  return st;
}

static bool ran(const ms_judgement *j, int case_index) { return j->cases[case_index].verdict[0] != '\0'; }

static mk_status contrast_judge(mk_context *ctx, ms_judgement *j, const ms_contrast *contrast) {
  const ms_plan *plan = j->run->plan;
  int factor = ms_study_factor_find(plan->study, contrast->factor);
  for (int i = 0; i < plan->n_cases && factor >= 0; i++) {
    int base = base_find(plan, factor, contrast->base, i);
    if (base < 0 || base == i || !ran(j, i)) continue;
    ms_contrast_result *r = &j->contrasts[j->n_contrasts];
    *r = (ms_contrast_result){.contrast = contrast, .case_index = i, .base_index = base};
    MK_TRY(ctx, contrast_fill(ctx, j, r));
    j->n_contrasts += 1;
  }
  return MK_OK;
}

mk_status ms_judge_contrasts(mk_context *ctx, ms_judgement *j) {
  const ms_plan *plan = j->run->plan;
  size_t most = (size_t)(plan->study->n_contrasts * plan->n_cases);
  MK_TRY(ctx, mk_heap_array(ctx, most, sizeof *j->contrasts, &j->contrasts));
  for (int i = 0; i < plan->study->n_contrasts; i++) {
    MK_TRY(ctx, contrast_judge(ctx, j, &plan->study->contrasts[i]));
  }
  return MK_OK;
}
