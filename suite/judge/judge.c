/* The steps in their order, over references that are read once. */
#include "suite/judge/judge.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kernels/base/heap.h"
#include "suite/judge/baseline.h"
#include "suite/judge/parts.h"

/* Oldest accepted row against the study's limit. */
static void age_check(ms_judgement *j) {
  int64_t limit_days = j->run->plan->study->baseline_max_age_days;
  double oldest_days = 0;
  for (int64_t row = 0; j->accepted != NULL && row < j->accepted->n_rows; row++) {
    struct tm parts = {0};
    if (strptime(ms_csv_get(j->accepted, row, "date_utc"), "%Y-%m-%dT%H:%M:%SZ", &parts) == NULL) continue;
    double days = difftime(time(NULL), timegm(&parts)) / 86400;
    if (days > oldest_days) oldest_days = days;
  }
  if (limit_days > 0 && oldest_days > (double)limit_days) {
    snprintf(j->warning, sizeof j->warning, "the accepted baseline is %.0f days old, the study allows %lld",
             oldest_days, (long long)limit_days);
  }
}

mk_status ms_judge_references_check(mk_context *ctx, const ms_plan *plan, const ms_judge_options *options) {
  const ms_study *study = plan->study;
  char path[MS_PATH_BYTES];
  ms_csv *published = NULL, *accepted = NULL;
  mk_status st = study->published_file[0] == '\0' ? MK_OK : ms_csv_read(ctx, study->published_file, &published);
  if (st == MK_OK) {
    st = ms_baseline_find(ctx, options->accepted_folder, study->id, ms_plan_system(plan), path, &accepted);
  }
  if (st == MK_OK && accepted != NULL) st = ms_accepted_check(ctx, path, accepted);
  ms_csv_destroy(ctx, published);
  ms_csv_destroy(ctx, accepted);
  return st;
}

static mk_status references_read(mk_context *ctx, const char *folder, ms_judgement *j) {
  const ms_study *study = j->run->plan->study;
  if (study->published_file[0] != '\0') MK_TRY(ctx, ms_csv_read(ctx, study->published_file, &j->published));
  MK_TRY(ctx, ms_baseline_find(ctx, folder, study->id, j->run->system, j->accepted_path, &j->accepted));
  if (j->accepted == NULL && study->baseline_require) {
    snprintf(j->warning, sizeof j->warning, "the study requires an accepted baseline, and %.300s does not exist",
             j->accepted_path);
  }
  age_check(j);
  return MK_OK;
}

mk_status ms_judge_create(mk_context *ctx, const ms_run *run, const ms_judge_options *options, ms_judgement **out) {
  mk_status st = MK_OK;
  ms_judgement *j = NULL;
  MK_TRY_GOTO(ctx, mk_heap_alloc(ctx, sizeof *j, &j), out);
  j->run = run;
  j->strict = options->strict;
  j->n_metrics = run->plan->n_cases * run->plan->study->n_metrics;
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)run->plan->n_cases, sizeof *j->cases, &j->cases), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)j->n_metrics, sizeof *j->metrics, &j->metrics), out);
  MK_TRY_GOTO(ctx, references_read(ctx, options->accepted_folder, j), out);
  MK_TRY_GOTO(ctx, ms_judge_cases(ctx, j), out);
  MK_TRY_GOTO(ctx, ms_judge_metrics(ctx, j), out);
  MK_TRY_GOTO(ctx, ms_judge_contrasts(ctx, j), out);
  MK_TRY_GOTO(ctx, ms_judge_claims(ctx, j), out);
  ms_judge_exit_code(j);
  *out = j;
  j = NULL;
out:
  ms_judge_destroy(ctx, j);
  return st;
}

void ms_judge_destroy(mk_context *ctx, ms_judgement *j) {
  if (j == NULL) return;
  ms_csv_destroy(ctx, j->published);
  ms_csv_destroy(ctx, j->accepted);
  mk_heap_free(ctx, j->cases);
  mk_heap_free(ctx, j->metrics);
  mk_heap_free(ctx, j->contrasts);
  mk_heap_free(ctx, j->claims);
  mk_heap_free(ctx, j);
}

const ms_metric_result *ms_judge_metric(const ms_judgement *j, int case_index, const char *metric) {
  const ms_study *study = j->run->plan->study;
  for (int m = 0; m < study->n_metrics; m++) {
    if (strcmp(study->metrics[m].name, metric) == 0) return &j->metrics[case_index * study->n_metrics + m];
  }
  return NULL;
}
