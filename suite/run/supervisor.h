/* One child program at a time, with everything it starts: logs, limits on silence, and an end that leaves nothing
 * behind.
 *
 * Signals are read through a signalfd, so that no handler and no global is needed. The process becomes the reaper of
 * its descendants' orphans (PR_SET_CHILD_SUBREAPER): ranks whose mpirun was killed stay in our tree and are found. */
#ifndef SUITE_RUN_SUPERVISOR_H
#define SUITE_RUN_SUPERVISOR_H

#include <stdint.h>

#include "kernels/base/status.h"

typedef struct ms_supervisor ms_supervisor;

/* Blocks SIGINT, SIGTERM, SIGHUP, SIGPIPE and SIGCHLD until destroy. */
mk_status ms_supervisor_create(mk_context *ctx, ms_supervisor **out);
void ms_supervisor_destroy(mk_context *ctx, ms_supervisor *supervisor);

/* True once SIGINT, SIGTERM or SIGHUP has arrived. */
bool ms_supervisor_interrupted(ms_supervisor *supervisor);

/* A count that grows as long as the child gets on (bytes of its records); called twice a second. */
typedef int64_t (*ms_progress_fn)(void *user);

typedef struct ms_child {
  char *const *argv;               /* NULL-terminated; argv[0] is a path */
  const char *const *env;          /* NAME=value to set, NULL-terminated; may be NULL */
  const char *out_path, *err_path; /* created; parents must exist */
  double first_limit_s;            /* longest silence before the first progress; 0 = none */
  double limit_s;                  /* longest silence after it; 0 = none */
  int64_t first_progress;          /* the count from which on limit_s counts */
  ms_progress_fn progress;         /* may be NULL: no progress is ever seen */
  void *user;
} ms_child;

typedef struct ms_child_end {
  int code;         /* exit code, 128 + signal when a signal ended it */
  int signal;       /* 0 = none */
  bool timed_out;   /* ended by us: silent for too long */
  bool interrupted; /* ended by us: we were told to stop */
  int strays;       /* processes still there after its end, killed */
  double limit_s;   /* the limit that was broken */
  double wall_s;
} ms_child_end;

/* Starts the child in a session of its own, without the variables that the trainer reads, and waits for its end. A
 * child that must go gets SIGTERM, three seconds, then SIGKILL, with all its descendants. MK_ERR_OUTPUT: its logs
 * cannot be created; MK_ERR_DEVICE: it cannot be started at all. */
mk_status ms_supervisor_run(mk_context *ctx, ms_supervisor *supervisor, const ms_child *child, ms_child_end *out);

/* Seconds of CLOCK_MONOTONIC, for waiting; never for results. */
double ms_wall_now_s(void);

#endif
