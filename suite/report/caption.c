/* Sentences from manifest and tables. */
#include "suite/report/caption.h"

#include <stdio.h>
#include <string.h>

static double number_at(const cJSON *root, const char *group, const char *key) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(root, group), key);
  return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

void ms_caption_run(const ms_report *r, char *out, size_t bytes) {
  snprintf(out, bytes, "%s, scale %s, system %s, run %s (%s): %.0f of %.0f launches ran well",
           ms_report_text(r->manifest, "run", "study"), ms_report_text(r->manifest, "run", "scale"),
           ms_report_text(r->manifest, "run", "system"), ms_report_text(r->manifest, "run", "id"),
           ms_report_text(r->manifest, "run", "state"), number_at(r->manifest, "run", "launches_valid"),
           number_at(r->manifest, "run", "launches_planned"));
}

static int64_t metric_row(const ms_report *r) {
  for (int64_t row = 0; row < r->summary->n_rows; row++) {
    if (strcmp(ms_csv_get(r->summary, row, "metric"), r->metric) == 0) return row;
  }
  return 0;
}

void ms_caption_cases(const ms_report *r, char *out, size_t bytes) {
  int64_t row = metric_row(r);
  int used = snprintf(out, bytes, "%s in %s, %s is better, %s, one value a launch", r->metric,
                      ms_csv_get(r->summary, row, "unit"), ms_csv_get(r->summary, row, "better"),
                      ms_csv_get(r->summary, row, "stat"));
  if (r->contrasts->n_rows == 0 || used < 0 || (size_t)used >= bytes) return;
  snprintf(out + used, bytes - (size_t)used, "; ratio: contrast '%s', base %s=%s, Hodges-Lehmann [95 %% interval]",
           ms_csv_get(r->contrasts, 0, "contrast"), ms_csv_get(r->contrasts, 0, "factor"),
           ms_csv_get(r->contrasts, 0, "base"));
}

/* Whether the run has launches enough to become a baseline (judge/baseline.h). */
static bool may_become_baseline(const ms_report *r) {
  for (int64_t row = 0; row < r->summary->n_rows; row++) {
    bool measured = strcmp(ms_csv_get(r->summary, row, "kind"), "simulated") != 0;
    double n = ms_csv_number(r->summary, row, "n");
    if (measured && n > 0 && n < 6) return false;
  }
  return true;
}

void ms_caption_reference(const ms_report *r, char *out, size_t bytes) {
  int missing = 0;
  out[0] = '\0';
  for (int64_t row = 0; row < r->summary->n_rows; row++) {
    missing += strcmp(ms_csv_get(r->summary, row, "verdict"), "no reference") == 0;
  }
  if (missing == 0) return;
  int used = snprintf(out, bytes, "%d gated values have no reference on this system: shown, not judged", missing);
  if (used < 0 || (size_t)used >= bytes) return;
  if (may_become_baseline(r)) {
    snprintf(out + used, bytes - (size_t)used, " (accept them with: moemark baseline update --from %s)", r->folder);
  } else {
    snprintf(out + used, bytes - (size_t)used, " (a baseline needs six launches a case: --launches 6)");
  }
}
