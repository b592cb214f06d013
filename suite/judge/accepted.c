/* Accepted baselines: the row of <study>/<system>.csv and the raw launches beside it in <run id>.runs.csv. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/heap.h"
#include "suite/judge/parts.h"
#include "suite/record/schema.h"

/* Hash of a case's launches; "" when none has run well. */
static const char *comparability_of(const ms_run *run, int case_index) {
  for (int i = 0; i < run->n_launches; i++) {
    const ms_launch *l = &run->launches[i];
    if (l->case_index == case_index && strcmp(l->status, "ok") == 0) return l->comparability;
  }
  return "";
}

static int64_t row_find(const ms_csv *accepted, const char *name, const char *metric) {
  for (int64_t row = 0; accepted != NULL && row < accepted->n_rows; row++) {
    if (strcmp(ms_csv_get(accepted, row, "case"), name) == 0 &&
        strcmp(ms_csv_get(accepted, row, "metric"), metric) == 0) {
      return row;
    }
  }
  return -1;
}

static mk_status launches_read(mk_context *ctx, const ms_judgement *j, int64_t row, ms_csv **out) {
  char folder[MS_PATH_BYTES], name[MS_PATH_BYTES], path[MS_PATH_BYTES];
  ms_path_folder(j->accepted_path, folder);
  snprintf(name, sizeof name, "%s.runs.csv", ms_csv_get(j->accepted, row, "run_id"));
  MK_TRY(ctx, ms_path_join(ctx, folder, name, path));
  MK_CHECK(ctx, access(path, R_OK) == 0, MK_ERR_FORMAT, "%s: the launches behind %s are missing", path,
           j->accepted_path);
  return ms_result_read(ctx, MS_CSV_RUNS, path, out);
}

mk_status ms_accepted_values(mk_context *ctx, const ms_judgement *j, int case_index, const char *metric, double **out,
                             int *count, int64_t *row, char *reason) {
  mk_status st = MK_OK;
  ms_csv *runs = NULL;
  double *values = NULL;
  int64_t well = 0;
  int n = 0, others = 0;
  const char *name = j->run->plan->cases[case_index].name, *column = ms_run_metric_column(metric);
  const char *hash = comparability_of(j->run, case_index);
  *row = row_find(j->accepted, name, metric);
  reason[0] = '\0';
  if (*row >= 0 && column != NULL) {
    MK_TRY_GOTO(ctx, launches_read(ctx, j, *row, &runs), out);
    MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)runs->n_rows, sizeof *values, &values), out);
    for (int64_t i = 0; i < runs->n_rows; i++) {
      if (strcmp(ms_csv_get(runs, i, "case"), name) != 0 || strcmp(ms_csv_get(runs, i, "status"), "ok") != 0) continue;
      bool same = strcmp(ms_csv_get(runs, i, "comparability"), hash) == 0;
      double value = ms_csv_number(runs, i, column);
      well += 1;
      others += !same;
      if (same && isfinite(value)) values[n++] = value;
    }
  }
  double accepted_n = *row >= 0 && column != NULL ? ms_csv_number(j->accepted, *row, "n") : NAN;
  MK_CHECK_GOTO(ctx, !(accepted_n > (double)well), MK_ERR_FORMAT, out,
                "%s: row of %.100s says n = %.0f, but %lld launches of it stand in %.100s.runs.csv: lines were lost",
                j->accepted_path, name, accepted_n, (long long)well, ms_csv_get(j->accepted, *row, "run_id"));
  if (n == 0 && others > 0) {
    snprintf(reason, MS_REASON_BYTES, "the accepted baseline is of another machine, kernel or configuration");
  }
  *out = values;
  *count = n;
  values = NULL;
out:
  mk_heap_free(ctx, values);
  ms_csv_destroy(ctx, runs);
  return st;
}
