/* Accepted baselines: the row of <study>/<system>.csv and the raw launches beside it in <run id>.runs.csv. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/heap.h"
#include "suite/judge/parts.h"
#include "suite/record/schema.h"
#include "suite/study/schema.h"

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

/* The launches behind a row of the accepted file `from`. */
static mk_status launches_read(mk_context *ctx, const char *from, const char *run_id, ms_csv **out) {
  char folder[MS_PATH_BYTES], name[2 * MS_NAME_BYTES], path[MS_PATH_BYTES];
  MK_CHECK(ctx, ms_name_is_plain(run_id) && strlen(run_id) < MS_NAME_BYTES, MK_ERR_FORMAT,
           "%s: run_id '%.60s' is no name of a run", from, run_id);
  ms_path_folder(from, folder);
  snprintf(name, sizeof name, "%s.runs.csv", run_id);
  MK_TRY(ctx, ms_path_join(ctx, folder, name, path));
  MK_CHECK(ctx, access(path, R_OK) == 0, MK_ERR_FORMAT, "%s: the launches behind %s are missing", path, from);
  return ms_result_read(ctx, MS_CSV_RUNS, path, out);
}

int64_t ms_launches_well(const ms_csv *runs, const char *name) {
  int64_t n = 0;
  for (int64_t row = 0; row < runs->n_rows; row++)
    n += strcmp(ms_csv_get(runs, row, "case"), name) == 0 && strcmp(ms_csv_get(runs, row, "status"), "ok") == 0;
  return n;
}

mk_status ms_accepted_check(mk_context *ctx, const char *path, const ms_csv *accepted) {
  mk_status st = MK_OK;
  ms_csv *runs = NULL;
  const char *read = ""; /* run whose launches are in `runs` */
  for (int64_t row = 0; row < accepted->n_rows; row++) {
    const char *run_id = ms_csv_get(accepted, row, "run_id"), *name = ms_csv_get(accepted, row, "case");
    if (runs == NULL || strcmp(run_id, read) != 0) {
      ms_csv_destroy(ctx, runs);
      runs = NULL;
      MK_TRY_GOTO(ctx, launches_read(ctx, path, run_id, &runs), out);
      read = run_id;
    }
    double n = ms_csv_number(accepted, row, "n");
    int64_t kept = ms_launches_well(runs, name);
    MK_CHECK_GOTO(ctx, !(n > (double)kept), MK_ERR_FORMAT, out,
                  "%s: %s of %s has n = %.0f, but %s.runs.csv holds %lld launches of it: lines were lost", path,
                  ms_csv_get(accepted, row, "metric"), name, n, run_id, (long long)kept);
  }
out:
  ms_csv_destroy(ctx, runs);
  return st;
}

mk_status ms_accepted_values(mk_context *ctx, const ms_judgement *j, int case_index, const char *metric, double **out,
                             int *count, int64_t *row, char *reason) {
  mk_status st = MK_OK;
  ms_csv *runs = NULL;
  double *values = NULL;
  int n = 0, others = 0;
  const char *name = j->run->plan->cases[case_index].name, *column = ms_run_metric_column(metric);
  const char *hash = comparability_of(j->run, case_index);
  *row = row_find(j->accepted, name, metric);
  reason[0] = '\0';
  if (*row >= 0 && column != NULL) {
    MK_TRY_GOTO(ctx, launches_read(ctx, j->accepted_path, ms_csv_get(j->accepted, *row, "run_id"), &runs), out);
    MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)runs->n_rows, sizeof *values, &values), out);
    for (int64_t i = 0; i < runs->n_rows; i++) {
      if (strcmp(ms_csv_get(runs, i, "case"), name) != 0 || strcmp(ms_csv_get(runs, i, "status"), "ok") != 0) continue;
      bool same = strcmp(ms_csv_get(runs, i, "comparability"), hash) == 0;
      double value = ms_csv_number(runs, i, column);
      others += !same;
      if (same && isfinite(value)) values[n++] = value;
    }
  }
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
