/* Loss and step time against the step, over the launches of a case; plots are drawn by gnuplot from the same numbers.
 * Points are joined because the step is ordered; cases are colours, never an axis. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "kernels/base/log.h"
#include "suite/report/report.h"
#include "suite/report/text.h"
#include "suite/run/capture.h"
#include "suite/run/folder.h"
#include "suite/run/tools.h"
#include "suite/stats/stats.h"

static const char *const COLUMNS[] = {"schema",   "case",     "step",           "n",           "loss_median",
                                      "loss_min", "loss_max", "step_ms_median", "step_ms_min", "step_ms_max"};

/* One step of one launch. */
typedef struct point {
  const char *name; /* of the case */
  int case_rank;    /* order of first appearance */
  double step, loss, step_ms;
} point;

static int compare(const void *x, const void *y) {
  const point *a = (const point *)x, *b = (const point *)y;
  if (a->case_rank != b->case_rank) return a->case_rank < b->case_rank ? -1 : 1;
  return (a->step > b->step) - (a->step < b->step);
}

/* Rows of steps.csv in the order (case, step); rows of one launch stand together, so most names equal their
 * neighbour's. */
static mk_status points_read(mk_context *ctx, const ms_csv *steps, point **out) {
  point *list = NULL;
  int cases = 0;
  MK_TRY(ctx, mk_heap_array(ctx, (size_t)steps->n_rows, sizeof *list, &list));
  for (int64_t row = 0; row < steps->n_rows; row++) {
    point *p = &list[row];
    *p = (point){.name = ms_csv_get(steps, row, "case"),
                 .step = ms_csv_number(steps, row, "step"),
                 .case_rank = -1,
                 .loss = ms_csv_number(steps, row, "loss"),
                 .step_ms = ms_csv_number(steps, row, "rank_max_ms")};
    for (int64_t before = row - 1; before >= 0 && p->case_rank < 0; before--) {
      if (strcmp(list[before].name, p->name) == 0) p->case_rank = list[before].case_rank;
    }
    if (p->case_rank < 0) p->case_rank = cases++;
  }
  qsort(list, (size_t)steps->n_rows, sizeof *list, compare);
  *out = list;
  return MK_OK;
}

static mk_status spread_set(mk_context *ctx, ms_csv *t, const char *prefix, const double *sorted, int64_t n) {
  char column[64];
  const struct {
    const char *suffix;
    double value;
  } cells[] = {
      {"median", ms_median(sorted, n)}, {"min", n > 0 ? sorted[0] : NAN}, {"max", n > 0 ? sorted[n - 1] : NAN}};
  for (int i = 0; i < 3; i++) {
    snprintf(column, sizeof column, "%s_%s", prefix, cells[i].suffix);
    MK_TRY(ctx, ms_csv_set_number(ctx, t, column, cells[i].value));
  }
  return MK_OK;
}

/* Points first .. first + count - 1 are of one case and step. */
static mk_status row_add(mk_context *ctx, const point *first, int64_t count, double *scratch, ms_csv *t) {
  int64_t n = 0;
  MK_TRY(ctx, ms_csv_row_add(ctx, t));
  MK_TRY(ctx, ms_csv_set(ctx, t, "schema", "moemark/curves/1"));
  MK_TRY(ctx, ms_csv_set(ctx, t, "case", first->name));
  MK_TRY(ctx, ms_csv_set_number(ctx, t, "step", first->step));
  MK_TRY(ctx, ms_csv_set_integer(ctx, t, "n", count));
  for (int64_t i = 0; i < count; i++) {
    if (isfinite(first[i].loss)) scratch[n++] = first[i].loss;
  }
  MK_TRY(ctx, spread_set(ctx, t, "loss", scratch, n));
  n = 0;
  for (int64_t i = 0; i < count; i++) {
    if (isfinite(first[i].step_ms)) scratch[n++] = first[i].step_ms;
  }
  return spread_set(ctx, t, "step_ms", scratch, n);
}

/* One row a case and step. */
static mk_status curves_make(mk_context *ctx, const ms_csv *steps, ms_csv **out) {
  mk_status st = MK_OK;
  ms_csv *t = NULL;
  point *points = NULL;
  double *scratch = NULL;
  MK_TRY_GOTO(ctx, ms_csv_create(ctx, COLUMNS, (int)(sizeof COLUMNS / sizeof COLUMNS[0]), &t), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)steps->n_rows, sizeof *scratch, &scratch), out);
  MK_TRY_GOTO(ctx, points_read(ctx, steps, &points), out);
  for (int64_t first = 0, next = 0; first < steps->n_rows; first = next) {
    while (next < steps->n_rows && compare(&points[next], &points[first]) == 0)
      next++;
    MK_TRY_GOTO(ctx, row_add(ctx, &points[first], next - first, scratch, t), out);
  }
  *out = t;
  t = NULL;
out:
  mk_heap_free(ctx, points);
  mk_heap_free(ctx, scratch);
  ms_csv_destroy(ctx, t);
  return st;
}

/* Evaluations of each case's first launch. */
static mk_status evals_first(mk_context *ctx, const ms_csv *evals, ms_csv **out) {
  mk_status st = MK_OK;
  ms_csv *t = NULL;
  MK_TRY_GOTO(ctx, ms_csv_create(ctx, (const char *const *)evals->column, evals->n_columns, &t), out);
  for (int64_t row = 0; row < evals->n_rows; row++) {
    if (strcmp(ms_csv_get(evals, row, "launch"), "1") != 0) continue;
    MK_TRY_GOTO(ctx, ms_csv_row_add(ctx, t), out);
    for (int i = 0; i < t->n_columns; i++) {
      MK_TRY_GOTO(ctx, ms_csv_set(ctx, t, t->column[i], ms_csv_get(evals, row, t->column[i])), out);
    }
  }
  *out = t;
  t = NULL;
out:
  ms_csv_destroy(ctx, t);
  return st;
}

/* A row whose case differs from the row before starts a curve. */
static bool starts_curve(const ms_csv *t, int64_t row) {
  return row == 0 || strcmp(ms_csv_get(t, row - 1, "case"), ms_csv_get(t, row, "case")) != 0;
}

/* A data block for each curve: x, y. Returns their number. */
static int blocks_add(ms_text *s, const ms_csv *t, const char *tag, const char *x, const char *y) {
  int blocks = 0;
  for (int64_t row = 0; row < t->n_rows; row++) {
    const char *a = ms_csv_get(t, row, x), *b = ms_csv_get(t, row, y);
    if (starts_curve(t, row)) ms_text_add(s, "%s$%s%d << EOD\n", blocks > 0 ? "EOD\n" : "", tag, blocks);
    blocks += starts_curve(t, row);
    ms_text_add(s, "%s %s\n", a[0] == '\0' ? "NaN" : a, b[0] == '\0' ? "NaN" : b);
  }
  if (blocks > 0) ms_text_add(s, "EOD\n");
  return blocks;
}

static void title_add(ms_text *s, const char *text) {
  for (; *text != '\0'; text++) {
    if (*text != '%' && *text != '\'' && *text != '\n') ms_text_add(s, "%c", *text);
  }
}

typedef struct plot {
  const char *file, *tag, *x, *y, *x_label, *y_label;
} plot;

static void plot_add(ms_text *s, const ms_csv *t, const plot *p) {
  int shown = 0;
  if (blocks_add(s, t, p->tag, p->x, p->y) == 0) return;
  ms_text_add(s, "set output '%s'\nset xlabel '%s'\nset ylabel '%s'\nplot ", p->file, p->x_label, p->y_label);
  for (int64_t row = 0; row < t->n_rows; row++) {
    if (!starts_curve(t, row)) continue;
    ms_text_add(s, "%s$%s%d using 1:2 with lines lt %d title '", shown > 0 ? ", " : "", p->tag, shown, shown + 1);
    title_add(s, ms_csv_get(t, row, "case"));
    ms_text_add(s, "'");
    shown += 1;
  }
  ms_text_add(s, "\n");
}

static mk_status script_write(mk_context *ctx, const ms_report *r, const ms_csv *curves) {
  static const plot LOSS = {"loss.svg",    "loss", "step",
                            "loss_median", "step", "training loss (nat), median of launches"};
  static const plot TIME = {"step_ms.svg",    "time", "step",
                            "step_ms_median", "step", "step time (ms), median of launches"};
  static const plot EVAL = {"eval.svg",           "eval", "time_s", "loss", "seconds since the first step",
                            "held-out loss (nat)"};
  ms_csv *evals = NULL;
  ms_text s = {.ctx = ctx};
  MK_TRY(ctx, evals_first(ctx, r->evals, &evals));
  ms_text_add(&s, "set terminal svg size 900,540 noenhanced\nset key outside below\nset grid\n");
  plot_add(&s, curves, &LOSS);
  plot_add(&s, curves, &TIME);
  plot_add(&s, evals, &EVAL);
  mk_status st = s.status != MK_OK ? s.status : ms_text_write(ctx, r->folder, "curves.gp", s.text);
  mk_heap_free(ctx, s.text);
  ms_csv_destroy(ctx, evals);
  return st;
}

/* Plots are a convenience: a gnuplot that fails is told, not an error. */
static mk_status draw(mk_context *ctx, ms_supervisor *supervisor, const ms_report *r) {
  char gnuplot[MS_PATH_BYTES], command[2 * MS_PATH_BYTES];
  char option[] = "-e", script[] = "curves.gp";
  char *text = NULL;
  int code = 0;
  if (!ms_tool_find("gnuplot", gnuplot)) return MK_OK;
  snprintf(command, sizeof command, "cd '%s'", r->folder);
  char *argv[] = {gnuplot, option, command, script, NULL};
  MK_TRY(ctx, ms_capture(ctx, supervisor, argv, 60, &text, &code));
  mk_heap_free(ctx, text);
  if (code != 0) mk_log(ctx, "warning: gnuplot ended with code %d: no plots (script: %s/curves.gp)", code, r->folder);
  return MK_OK;
}

mk_status ms_report_curves(mk_context *ctx, ms_supervisor *supervisor, const ms_report *r) {
  mk_status st = MK_OK;
  char path[MS_PATH_BYTES];
  ms_csv *curves = NULL;
  MK_TRY_GOTO(ctx, curves_make(ctx, r->steps, &curves), out);
  MK_TRY_GOTO(ctx, ms_path_join(ctx, r->folder, "curves.csv", path), out);
  MK_TRY_GOTO(ctx, ms_csv_write(ctx, path, curves), out);
  if (curves->n_rows == 0) goto out;
  MK_TRY_GOTO(ctx, script_write(ctx, r, curves), out);
  MK_TRY_GOTO(ctx, draw(ctx, supervisor, r), out);
out:
  ms_csv_destroy(ctx, curves);
  return st;
}
