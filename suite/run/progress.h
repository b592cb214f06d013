/* What a waiting user sees on stderr: one line that is rewritten on a terminal, a plain line a launch otherwise. */
#ifndef SUITE_RUN_PROGRESS_H
#define SUITE_RUN_PROGRESS_H

#include "suite/run/run.h"

typedef struct ms_progress {
  const ms_run *run;
  bool terminal, quiet;
  int done, failed; /* launches that have ended */
  double started_s; /* of the current launch */
  const ms_launch *current;
} ms_progress;

ms_progress ms_progress_begin(const ms_run *run, bool quiet);

/* A launch starts, gets on (records so far), ends. */
void ms_progress_start(ms_progress *progress, const ms_launch *launch);
void ms_progress_show(const ms_progress *progress, const ms_records *records);
void ms_progress_end(mk_context *ctx, ms_progress *progress, const ms_launch *launch);

/* Seconds that the launches after the current one will take, by the mean of their own case, else of all; NaN while
 * nothing has ended. */
double ms_progress_left_s(const ms_progress *progress);

#endif
