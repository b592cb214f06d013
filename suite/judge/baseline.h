/* Accepted baselines: baselines/accepted/<study>/<system>.csv, the launches behind them in <run id>.runs.csv, and a log
 * of old and new values in <system>.log. Nothing else writes there; published numbers are never touched. */
#ifndef SUITE_JUDGE_BASELINE_H
#define SUITE_JUDGE_BASELINE_H

#include "suite/record/csv.h"
#include "suite/study/paths.h"

typedef struct ms_baseline_options {
  const char *run_folder;      /* finished run to accept */
  const char *accepted_folder; /* NULL: baselines/accepted of the data root */
  const char *reason;          /* needed when a value is worse than the accepted one; may be NULL */
  bool dry_run;                /* say what would change, change nothing */
} ms_baseline_options;

typedef struct ms_baseline_change {
  int added, better, worse, equal; /* rows */
  char path[MS_PATH_BYTES];        /* file written */
} ms_baseline_change;

/* MK_ERR_MISMATCH refuses a run that is not complete, has failures, fewer than six launches of a measured case, a build
 * from a changed tree, throttling, another scale than the accepted one, or a worse value without a reason. */
mk_status ms_baseline_update(mk_context *ctx, const ms_baseline_options *options, ms_baseline_change *out);

/* The file of a study and system, under `accepted_folder` (NULL: as above), and its rows; *out stays NULL where it does
 * not exist. MK_ERR_CONFIG where one of the two is no plain name. */
mk_status ms_baseline_find(mk_context *ctx, const char *accepted_folder, const char *study, const char *system,
                           char path[MS_PATH_BYTES], ms_csv **out);

/* Accepted rows of a study and system; MK_ERR_MISMATCH when there are none. */
mk_status ms_baseline_read(mk_context *ctx, const char *accepted_folder, const char *study, const char *system,
                           ms_csv **out);

#endif
