/* Weights of a trainer from and to safetensors files (trainer/checkpoint/weights.h). Collective. */
#ifndef TRAINER_STEP_WEIGHTS_IO_H
#define TRAINER_STEP_WEIGHTS_IO_H

#include "trainer/step/trainer.h"

/* Loads a file or folder in any layout that weights.h knows; every rank reads what it owns. */
mk_status mt_weights_load(mt_trainer *t, const char *path);

/* Writes the FP32 main parameters into a folder, wherever their shards live; rank 0 writes, and all return when
 * it has. */
mk_status mt_weights_save(mt_trainer *t, const char *folder);

#endif
