/* One launch of a run, shared by the loop (runner.c) and the work (launch.c). */
#ifndef SUITE_RUN_RUNNER_H
#define SUITE_RUN_RUNNER_H

#include "suite/run/command.h"
#include "suite/run/progress.h"
#include "suite/run/supervisor.h"

typedef struct ms_runner {
  mk_context *ctx;
  const ms_run_options *options;
  ms_run *run;
  ms_tools tools;
  ms_supervisor *supervisor;
  ms_progress progress;
} ms_runner;

void ms_launch_status_set(ms_launch *launch, const char *status, const char *message);

/* Runs one launch to its end and fills everything of it. What the launch does wrong is its status, not an error. */
mk_status ms_launch_run(ms_runner *r, ms_launch *launch);

#endif
