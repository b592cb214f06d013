/* What one rank knows, told to all, outside steps: without it a rank that met a fault would leave the others waiting.
 * Collective over the world, on the compute stream; both wait for the device. */
#ifndef TRAINER_STEP_AGREE_H
#define TRAINER_STEP_AGREE_H

#include "trainer/step/trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* MK_OK where every rank brings MK_OK; else all ranks fail with the status and message of the lowest rank that failed
 * (a rank that failed by itself keeps its own). */
mk_status mt_agree(mt_trainer *t, mk_status own);

/* The text of rank `root` for all. */
mk_status mt_tell(mt_trainer *t, int root, char text[MK_MESSAGE_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
