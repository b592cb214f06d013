/* A whole run: data, steps, evaluation, records, progress; ends cleanly on every fault. */
#ifndef TRAINER_STEP_LOOP_H
#define TRAINER_STEP_LOOP_H

#include "trainer/step/trainer.h"

/* Runs cfg over `world` and writes records into `folder` (NULL: none). Returns the run's status; the end record is
 * written in every case in which records could be written at all. SIGINT and SIGTERM, which the caller has blocked,
 * end the run after the running microbatch with MK_ERR_INTERRUPTED. */
mk_status mt_loop_run(mk_context *ctx, const mt_config *cfg, mt_comm *world, const char *folder);

/* Documented exit code of a status: 0 ok, 2 configuration, 3 failed run, 5 results not writable, 130 interrupted. */
int mt_exit_code(mk_status status);

#endif
