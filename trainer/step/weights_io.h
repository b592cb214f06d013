/* Weights of a trainer from and to safetensors files (trainer/checkpoint/weights.h). Collective. */
#ifndef TRAINER_STEP_WEIGHTS_IO_H
#define TRAINER_STEP_WEIGHTS_IO_H

#include "trainer/step/trainer.h"

/* Loads a file or folder in any layout that weights.h knows; every rank reads what it owns. */
mk_status mt_weights_load(mt_trainer *t, const char *path);

/* Writes the compute copies (FP32 runs: the parameters themselves; BF16 runs: rounded) into a folder; rank 0 writes,
 * owners of other experts send theirs. */
mk_status mt_weights_save(mt_trainer *t, const char *folder);

#endif
