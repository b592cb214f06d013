/* Look-ups over a run's launches. */
#include "suite/run/run.h"

#include <string.h>

#include "kernels/base/heap.h"

void ms_run_destroy(mk_context *ctx, ms_run *run) {
  if (run == NULL) return;
  for (int i = 0; i < run->n_launches; i++)
    ms_records_destroy(ctx, run->launches[i].records);
  mk_heap_free(ctx, run->launches);
  mk_heap_free(ctx, run);
}

int64_t ms_launch_seed(const ms_run *run, const ms_launch *launch) {
  bool each = strcmp(run->plan->scale->measure.seeds, "per_launch") == 0;
  return run->plan->cases[launch->case_index].config.seed + (each ? launch->number - 1 : 0);
}

static bool is_ok(const ms_launch *l) { return strcmp(l->status, "ok") == 0; }

int ms_run_ended(const ms_run *run, int case_index) {
  int count = 0;
  for (int i = 0; i < run->n_launches; i++) {
    count += run->launches[i].case_index == case_index && run->launches[i].records != NULL;
  }
  return count;
}

int ms_run_failed(const ms_run *run, int case_index, const ms_launch **first) {
  int count = 0;
  *first = NULL;
  for (int i = 0; i < run->n_launches; i++) {
    const ms_launch *l = &run->launches[i];
    if (l->case_index != case_index || l->records == NULL || is_ok(l)) continue;
    if (count == 0) *first = l;
    count += 1;
  }
  return count;
}

bool ms_run_is_failure(const ms_run *run, const ms_launch *launch) {
  const ms_expect_fail *expect = run->plan->cases[launch->case_index].expect;
  if (is_ok(launch) || strcmp(launch->status, "unsupported") == 0) return false;
  return expect == NULL || strcmp(expect->status, launch->status) != 0;
}

int ms_run_values(const ms_run *run, int case_index, int metric, double *values) {
  int count = 0;
  for (int i = 0; i < run->n_launches; i++) {
    const ms_launch *l = &run->launches[i];
    if (l->case_index == case_index && l->records != NULL && is_ok(l)) values[count++] = l->value[metric];
  }
  return count;
}
