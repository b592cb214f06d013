/* A run: all launches of a plan, each with how it ended and what it measured, in a folder that is never overwritten.
 *
 *   <out>/<study>/<UTC stamp>-<id>/          and <out>/<study>/latest -> it
 *     study.yaml manifest.json launches.csv runs.csv steps.csv evals.csv
 *     <case>/launch-N/  run.json command stdout.log stderr.log records.jsonl rc status
 *
 * Tables are rewritten whole after every launch, so that an interrupted run keeps what it has. */
#ifndef SUITE_RUN_RUN_H
#define SUITE_RUN_RUN_H

#include "suite/metrics/metric.h"
#include "suite/plan/plan.h"
#include "suite/provenance/machine.h"
#include "suite/record/csv.h"

/* Words of a launch's end: ok oom nonfinite crash timeout killed config io format comm interrupted error unsupported;
 * "ok" alone has values that count. */
typedef struct ms_launch {
  int case_index;             /* into plan->cases */
  int number;                 /* of its case, from 1 */
  int order;                  /* of the run, from 1 */
  char status[MS_WORD_BYTES]; /* "pending", "running", then one of the words above */
  char message[MK_MESSAGE_BYTES];
  int code;                   /* exit code; 128 + signal when a signal ended it */
  char folder[MS_LINE_BYTES]; /* relative to the run's */
  char start_utc[32];
  double wall_s;
  ms_records *records;          /* NULL before it has run */
  double value[MS_METRICS_MAX]; /* by index of the metric list; NaN = not available */
  double time_s, tokens;        /* of the measured steps */
  int64_t warmup_steps, steps;
  double peak_flops; /* the peak that the MFU was taken against; NaN = unknown */
  char comparability[MK_HASH_BYTES];
} ms_launch;

typedef struct ms_run {
  const ms_plan *plan;
  char id[MS_NAME_BYTES]; /* "<UTC stamp>-<id>" */
  char folder[MS_PATH_BYTES];
  char system[MS_NAME_BYTES];  /* of the scale; "local" when it names none */
  char command[4096];          /* as typed */
  char trainer[MS_PATH_BYTES]; /* program used; empty: none was needed */
  uint64_t order_seed;
  char start_utc[32], end_utc[32];
  ms_machine machine;
  ms_launch *launches; /* all planned, in the order of starting */
  int n_launches;
  bool interrupted;
} ms_run;

typedef struct ms_run_options {
  const char *out;      /* folder above the studies; NULL = "out" */
  const char *command;  /* for the manifest */
  const bool *selected; /* by case; NULL = all */
  int64_t launches;     /* 0 = as the study says */
  double timeout_s;     /* 0 = as the study says */
  int max_fail;         /* stop after so many failed launches; 0 = never */
  uint64_t order_seed;  /* 0 = drawn */
  bool quiet;
} ms_run_options;

/* Runs every selected case. A case that fails is not launched again; the others go on. Errors are those of the runner
 * itself: MK_ERR_MISMATCH the scale's system has no such device, MK_ERR_UNSUPPORTED a program is missing (names the
 * package), both before anything is made; MK_ERR_OUTPUT results cannot be written. When *out is set even an interrupted
 * run can be judged; the caller destroys it. */
mk_status ms_run_create(mk_context *ctx, const ms_plan *plan, const ms_run_options *options, ms_run **out);
void ms_run_destroy(mk_context *ctx, ms_run *run);

/* Seed of a launch: the configuration's, or with `seeds: per_launch` that plus launch - 1, so that launch n of every
 * case has the same. */
int64_t ms_launch_seed(const ms_run *run, const ms_launch *launch);

/* Launches of a case that have ended, how many of them are not "ok", and the first such (NULL: none). */
int ms_run_ended(const ms_run *run, int case_index);
int ms_run_failed(const ms_run *run, int case_index, const ms_launch **first);

/* Whether a launch ended otherwise than it should: not "ok", and not in the way its case is expected to fail. */
bool ms_run_is_failure(const ms_run *run, const ms_launch *launch);

/* Values of one metric over the "ok" launches of a case into values[] (room for n_launches), in launch order; NaN and
 * infinity included. Returns their count. */
int ms_run_values(const ms_run *run, int case_index, int metric, double *values);

/* Column of runs.csv that holds a metric; NULL: none does. */
const char *ms_run_metric_column(const char *metric);

/* Result tables of a run as it stands. */
mk_status ms_run_launches_table(mk_context *ctx, const ms_run *run, ms_csv **out);
mk_status ms_run_runs_table(mk_context *ctx, const ms_run *run, ms_csv **out);
mk_status ms_run_steps_table(mk_context *ctx, const ms_run *run, ms_csv **out);
mk_status ms_run_evals_table(mk_context *ctx, const ms_run *run, ms_csv **out);

#endif
