/* Correctness apart from speed. Three checks hold for every study: there are measured steps with positive times; no
 * FLOP rate far above the machine's own peak; the trainer counts the parameters and FLOP that the plan counts from the
 * dimensions. The others are those that the study lists. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/text.h"
#include "suite/judge/parts.h"

static double value_of(const ms_launch *l, const char *metric) {
  int index = ms_metric_index(metric);
  return index < 0 ? NAN : l->value[index];
}

static bool near(double value, double expected, double rel, double abs) {
  return fabs(value - expected) <= rel * fabs(expected) + abs;
}

static bool counts_agree(const ms_case *c, const ms_launch *l, char *reason) {
  const struct {
    const char *metric;
    double planned;
  } counts[] = {{"params_total", (double)c->params_total}, {"flop_token", c->flop_token}};
  for (int i = 0; i < 2 && c->peer[0] == '\0'; i++) {
    double value = value_of(l, counts[i].metric);
    if (!(counts[i].planned > 0) || isnan(value) || near(value, counts[i].planned, 1e-3, 0)) continue;
    snprintf(reason, MS_REASON_BYTES, "%s: the trainer reports %.10g, the plan counts %.10g", counts[i].metric, value,
             counts[i].planned);
    return false;
  }
  return true;
}

static bool always_holds(const ms_judgement *j, const ms_launch *l, char *reason) {
  bool emulated = ms_case_is_emulated(&j->run->plan->cases[l->case_index]);
  if (emulated ? !(l->steps > 0 && l->time_s > 0) : !(value_of(l, "tok_s") > 0)) {
    snprintf(reason, MS_REASON_BYTES, "%lld measured steps in %.3g s: no rate", (long long)l->steps, l->time_s);
    return false;
  }
  double mfu = value_of(l, "mfu_pct");
  if (mfu > 1000) { /* a wrong unit or count; a peak measured on a busy machine has been seen four times too low */
    snprintf(
        reason, MS_REASON_BYTES,
        "FLOP rate is %.0f %% of the measured peak: time, FLOP count or peak is wrong (measure it again on an idle "
        "machine: moemark sysinfo --peaks)",
        mfu);
    return false;
  }
  return counts_agree(&j->run->plan->cases[l->case_index], l, reason);
}

static bool losses_finite(const ms_case *c, const ms_launch *l, char *reason) {
  const ms_records *r = l->records;
  for (int64_t i = c->peer[0] != '\0' ? r->n_steps - 1 : 0; i < r->n_steps; i++) { /* a peer tells the last loss only */
    if (isfinite(r->steps[i].loss)) continue;
    snprintf(reason, MS_REASON_BYTES, "loss of step %lld is not finite", (long long)r->steps[i].step);
    return false;
  }
  return true;
}

static void unchecked_add(char *unchecked, const char *text) {
  size_t used = strlen(unchecked);
  if (strstr(unchecked, text) != NULL) return;
  snprintf(unchecked + used, MS_REASON_BYTES - used, "%s%s", used > 0 ? "; " : "", text);
}

static bool ranks_agree(const ms_sanity *s, const ms_case *c, const ms_launch *l, char *reason, char *unchecked) {
  double spread = l->records->rank_spread_loss;
  if (c->config.ranks <= 1) return true;
  if (isnan(spread)) {
    unchecked_add(unchecked, "rank_agreement: the records hold one value for all ranks");
    return true;
  }
  if (spread <= s->abs) return true;
  snprintf(reason, MS_REASON_BYTES, "ranks disagree on the last loss by %.3g, allowed %.3g", spread, s->abs);
  return false;
}

/* "published.<metric>" or a number; NaN when nothing is published for this case. */
static double expected_of(const ms_judgement *j, const ms_sanity *s, int case_index) {
  double number = NAN;
  bool same = false;
  if (strncmp(s->equals, "published.", 10) != 0) return mk_text_number(s->equals, false, &number) ? number : NAN;
  int row = ms_published_row(j, case_index, s->equals + 10, &same);
  const ms_scale *published = ms_study_scale_find(j->run->plan->study, "published");
  bool same_model = published != NULL && strcmp(j->run->plan->scale->model, published->model) == 0;
  return row >= 0 && same_model ? ms_csv_number(j->published, row, "value") : NAN;
}

static bool metric_holds(const ms_judgement *j, const ms_sanity *s, const ms_launch *l, char *reason, char *unchecked) {
  char text[2 * MS_NAME_BYTES + 64];
  const char *name = s->of[0] != '\0' ? s->of : s->check;
  double value = value_of(l, name);
  if (s->has_max && !(value <= s->max)) {
    snprintf(reason, MS_REASON_BYTES, "%s is %.6g, allowed at most %.6g", name, value, s->max);
    return false;
  }
  if (s->equals[0] == '\0') return true;
  double expected = expected_of(j, s, l->case_index);
  if (isnan(expected)) {
    snprintf(text, sizeof text, "%s: no value of %s for this model", name, s->equals);
    unchecked_add(unchecked, text);
    return true;
  }
  if (near(value, expected, s->rel, s->abs)) return true;
  snprintf(reason, MS_REASON_BYTES, "%s is %.10g, expected %.10g (rel %.3g, abs %.3g)", name, value, expected, s->rel,
           s->abs);
  return false;
}

bool ms_sanity_holds(const ms_judgement *j, const ms_launch *launch, char *reason, char *unchecked) {
  const ms_study *study = j->run->plan->study;
  const ms_case *c = &j->run->plan->cases[launch->case_index];
  bool holds = always_holds(j, launch, reason);
  for (int i = 0; i < study->n_sanity && holds; i++) {
    const ms_sanity *s = &study->sanity[i];
    if (strcmp(s->check, "loss_finite") == 0) {
      holds = losses_finite(c, launch, reason);
    } else if (strcmp(s->check, "rank_agreement") == 0) {
      holds = ranks_agree(s, c, launch, reason, unchecked);
    } else if (c->peer[0] == '\0') {
      holds = metric_holds(j, s, launch, reason, unchecked);
    }
  }
  return holds;
}
