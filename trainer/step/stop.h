/* Requests to stop. */
#ifndef TRAINER_STEP_STOP_H
#define TRAINER_STEP_STOP_H

#include <stdint.h>

#include "kernels/base/status.h"

/* MK_ERR_INTERRUPTED once SIGINT or SIGTERM, which the program has blocked, has arrived. Asked between microbatches, so
 * that a request is served within one; `done` names what was finished, for the message. Never waits. */
mk_status mt_stop_check(mk_context *ctx, const char *done, int64_t number);

#endif
