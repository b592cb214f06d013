/* Requests to stop. */
#ifndef TRAINER_STEP_STOP_H
#define TRAINER_STEP_STOP_H

#include <stdint.h>

#include "kernels/base/status.h"

/* A request that has arrived, and what to do about it. */
typedef struct mt_stop {
  bool saves; /* a request waits until a checkpoint is written, instead of ending the run at once */
  bool alone; /* one rank: nobody else must agree on when that is */
  int signal; /* 0 = none so far */
} mt_stop;

/* Takes SIGINT, SIGTERM or SIGUSR1 (what mpirun forwards), which the program has blocked. Without `saves`
 * MK_ERR_INTERRUPTED; `done` names what was finished, for the message. With it the request is kept in stop->signal.
 * Asked between microbatches, so that a request is noticed within one. Never waits. */
mk_status mt_stop_check(mk_context *ctx, mt_stop *stop, const char *done, int64_t number);

/* "SIGTERM"; "a signal to another rank" for 0. */
const char *mt_stop_name(int signal);

#endif
