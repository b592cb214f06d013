/* Display tables from result tables. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "suite/report/report.h"
#include "suite/report/text.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Row of the first contrast for a case, -1: none. */
static int64_t ratio_row(const ms_report *r, const char *name) {
  const char *first = ms_csv_get(r->contrasts, 0, "contrast");
  for (int64_t row = 0; row < r->contrasts->n_rows; row++) {
    if (strcmp(ms_csv_get(r->contrasts, row, "case"), name) == 0 &&
        strcmp(ms_csv_get(r->contrasts, row, "contrast"), first) == 0) {
      return row;
    }
  }
  return -1;
}

static mk_status pretty_set(mk_context *ctx, ms_csv *t, const char *column, double value) {
  char text[64];
  ms_pretty(value, text, sizeof text);
  return ms_csv_set(ctx, t, column, text);
}

static mk_status interval_set(mk_context *ctx, ms_csv *t, const char *column, const ms_csv *from, int64_t row,
                              const char *value, const char *lo, const char *hi) {
  char text[96];
  ms_pretty_interval(ms_csv_number(from, row, value), ms_csv_number(from, row, lo), ms_csv_number(from, row, hi), text,
                     sizeof text);
  return ms_csv_set(ctx, t, column, text);
}

/* "low_n, 1 outlier, <reason>" */
static void note_make(const ms_report *r, int64_t row, int64_t ratio, char *out, size_t bytes) {
  const char *reason = ms_csv_get(r->summary, row, "reason");
  double n = ms_csv_number(r->summary, row, "n"), outliers = ms_csv_number(r->summary, row, "outliers");
  const char *label = ratio < 0 ? "" : ms_csv_get(r->contrasts, ratio, "label");
  bool simulated = strcmp(ms_csv_get(r->summary, row, "kind"), "simulated") == 0;
  bool low_n = n > 0 && !simulated && ms_csv_get(r->summary, row, "ci_lo")[0] == '\0';
  size_t used = 0;
  out[0] = '\0';
  if (low_n) used += (size_t)snprintf(out + used, bytes - used, "low_n");
  if (strstr(label, "low_n") != NULL) label += low_n ? strlen("low_n") : 0;
  while (*label == ',' || *label == ' ')
    label++;
  if (strncmp(label, "no ratio", 8) == 0 && reason[0] != '\0') label = ""; /* the reason says why */
  if (label[0] != '\0') used += (size_t)snprintf(out + used, bytes - used, "%s%s", used > 0 ? ", " : "", label);
  if (outliers > 0)
    used += (size_t)snprintf(out + used, bytes - used, "%s%.0f outlier", used > 0 ? ", " : "", outliers);
  if (reason[0] != '\0') snprintf(out + used, bytes - used, "%s%.200s", used > 0 ? "; " : "", reason);
}

static mk_status case_row(mk_context *ctx, const ms_report *r, int64_t row, ms_csv *t) {
  const char *name = ms_csv_get(r->summary, row, "case"), *verdict = ms_csv_get(r->summary, row, "verdict");
  double failed = ms_csv_number(r->summary, row, "n_failed");
  int64_t ratio = ratio_row(r, name);
  char n[64], note[512];
  int used = snprintf(n, sizeof n, "%s", ms_csv_get(r->summary, row, "n"));
  if (failed > 0) snprintf(n + used, sizeof n - (size_t)used, "+%.0f failed", failed);
  MK_TRY(ctx, ms_csv_row_add(ctx, t));
  MK_TRY(ctx, ms_csv_set(ctx, t, "case", name));
  MK_TRY(ctx, ms_csv_set(ctx, t, "n", n));
  MK_TRY(ctx, pretty_set(ctx, t, "median", ms_csv_number(r->summary, row, "median")));
  MK_TRY(ctx, pretty_set(ctx, t, "min", ms_csv_number(r->summary, row, "min")));
  MK_TRY(ctx, pretty_set(ctx, t, "max", ms_csv_number(r->summary, row, "max")));
  MK_TRY(ctx, pretty_set(ctx, t, "predicted", ms_csv_number(r->summary, row, "predicted")));
  MK_TRY(ctx, pretty_set(ctx, t, "% of bound", ms_csv_number(r->summary, row, "bound_pct")));
  MK_TRY(ctx, ms_csv_set(ctx, t, "verdict", verdict[0] == '\0' ? "ok" : verdict));
  if (ratio >= 0) {
    MK_TRY(ctx, interval_set(ctx, t, "ratio to base", r->contrasts, ratio, "ratio", "lo", "hi"));
    MK_TRY(ctx, pretty_set(ctx, t, "published ratio", ms_csv_number(r->contrasts, ratio, "published_ratio")));
  }
  note_make(r, row, ratio, note, sizeof note);
  return ms_csv_set(ctx, t, "note", note);
}

mk_status ms_report_cases(mk_context *ctx, const ms_report *r, ms_csv **out) {
  static const char *const COLUMNS[] = {
      "case",      "n",          "median",  "min", "max", "ratio to base", "published ratio",
      "predicted", "% of bound", "verdict", "note"};
  mk_status st = MK_OK;
  ms_csv *t = NULL;
  MK_TRY_GOTO(ctx, ms_csv_create(ctx, COLUMNS, COUNT(COLUMNS), &t), out);
  for (int64_t row = 0; row < r->summary->n_rows; row++) {
    if (strcmp(ms_csv_get(r->summary, row, "metric"), r->metric) != 0) continue;
    MK_TRY_GOTO(ctx, case_row(ctx, r, row, t), out);
  }
  *out = t;
  t = NULL;
out:
  ms_csv_destroy(ctx, t);
  return st;
}

static mk_status contrast_row(mk_context *ctx, const ms_report *r, int64_t row, ms_csv *t) {
  static const char *const SAME[][2] = {{"contrast", "contrast"}, {"metric", "metric"}, {"case", "case"},
                                        {"base", "base_case"},    {"kind", "kind"},     {"note", "label"}};
  char n[64];
  MK_TRY(ctx, ms_csv_row_add(ctx, t));
  for (int i = 0; i < COUNT(SAME); i++) {
    MK_TRY(ctx, ms_csv_set(ctx, t, SAME[i][0], ms_csv_get(r->contrasts, row, SAME[i][1])));
  }
  snprintf(n, sizeof n, "%.20s/%.20s", ms_csv_get(r->contrasts, row, "n"), ms_csv_get(r->contrasts, row, "n_base"));
  MK_TRY(ctx, ms_csv_set(ctx, t, "n", n));
  MK_TRY(ctx, interval_set(ctx, t, "ratio", r->contrasts, row, "ratio", "lo", "hi"));
  return pretty_set(ctx, t, "published ratio", ms_csv_number(r->contrasts, row, "published_ratio"));
}

mk_status ms_report_contrasts(mk_context *ctx, const ms_report *r, ms_csv **out) {
  static const char *const COLUMNS[] = {"contrast", "metric",          "case", "base", "kind", "n",
                                        "ratio",    "published ratio", "note"};
  mk_status st = MK_OK;
  ms_csv *t = NULL;
  MK_TRY_GOTO(ctx, ms_csv_create(ctx, COLUMNS, COUNT(COLUMNS), &t), out);
  for (int64_t row = 0; row < r->contrasts->n_rows; row++)
    MK_TRY_GOTO(ctx, contrast_row(ctx, r, row, t), out);
  *out = t;
  t = NULL;
out:
  ms_csv_destroy(ctx, t);
  return st;
}

static mk_status claim_row(mk_context *ctx, const ms_report *r, int64_t row, ms_csv *t) {
  static const char *const SAME[] = {"claim", "says", "n", "accept", "verdict"};
  MK_TRY(ctx, ms_csv_row_add(ctx, t));
  for (int i = 0; i < COUNT(SAME); i++) {
    MK_TRY(ctx, ms_csv_set(ctx, t, SAME[i], ms_csv_get(r->claims, row, SAME[i])));
  }
  MK_TRY(ctx, pretty_set(ctx, t, "published", ms_csv_number(r->claims, row, "published")));
  MK_TRY(ctx, pretty_set(ctx, t, "predicted", ms_csv_number(r->claims, row, "predicted")));
  MK_TRY(ctx, interval_set(ctx, t, "value", r->claims, row, "value", "lo", "hi"));
  return ms_csv_set(ctx, t, "note", ms_csv_get(r->claims, row, "reason"));
}

mk_status ms_report_claims(mk_context *ctx, const ms_report *r, ms_csv **out) {
  static const char *const COLUMNS[] = {"claim", "says",   "published", "predicted", "value",
                                        "n",     "accept", "verdict",   "note"};
  mk_status st = MK_OK;
  ms_csv *t = NULL;
  MK_TRY_GOTO(ctx, ms_csv_create(ctx, COLUMNS, COUNT(COLUMNS), &t), out);
  for (int64_t row = 0; row < r->claims->n_rows; row++)
    MK_TRY_GOTO(ctx, claim_row(ctx, r, row, t), out);
  *out = t;
  t = NULL;
out:
  ms_csv_destroy(ctx, t);
  return st;
}

static mk_status metric_row(mk_context *ctx, const ms_report *r, int64_t row, ms_csv *t) {
  static const char *const SAME[] = {"case", "metric", "unit", "n", "verdict"};
  char text[96];
  MK_TRY(ctx, ms_csv_row_add(ctx, t));
  for (int i = 0; i < COUNT(SAME); i++) {
    MK_TRY(ctx, ms_csv_set(ctx, t, SAME[i], ms_csv_get(r->summary, row, SAME[i])));
  }
  MK_TRY(ctx, pretty_set(ctx, t, "median", ms_csv_number(r->summary, row, "median")));
  MK_TRY(ctx, pretty_set(ctx, t, "min", ms_csv_number(r->summary, row, "min")));
  MK_TRY(ctx, pretty_set(ctx, t, "max", ms_csv_number(r->summary, row, "max")));
  MK_TRY(ctx, pretty_set(ctx, t, "ref", ms_csv_number(r->summary, row, "ref")));
  MK_TRY(ctx, pretty_set(ctx, t, "of ref", ms_csv_number(r->summary, row, "ref_ratio")));
  MK_TRY(ctx, ms_csv_set(ctx, t, "ref kind", ms_csv_get(r->summary, row, "ref_kind")));
  double lo = ms_csv_number(r->summary, row, "ci_lo"), hi = ms_csv_number(r->summary, row, "ci_hi");
  snprintf(text, sizeof text, "%.4g to %.4g (%.1f %%)", lo, hi, ms_csv_number(r->summary, row, "ci_pct"));
  return isnan(lo) ? MK_OK : ms_csv_set(ctx, t, "interval of median", text);
}

mk_status ms_report_metrics(mk_context *ctx, const ms_report *r, ms_csv **out) {
  static const char *const COLUMNS[] = {"case", "metric", "unit", "n",      "median",   "interval of median",
                                        "min",  "max",    "ref",  "of ref", "ref kind", "verdict"};
  mk_status st = MK_OK;
  ms_csv *t = NULL;
  MK_TRY_GOTO(ctx, ms_csv_create(ctx, COLUMNS, COUNT(COLUMNS), &t), out);
  for (int64_t row = 0; row < r->summary->n_rows; row++)
    MK_TRY_GOTO(ctx, metric_row(ctx, r, row, t), out);
  *out = t;
  t = NULL;
out:
  ms_csv_destroy(ctx, t);
  return st;
}
