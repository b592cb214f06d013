/* Held-out loss: the mean cross-entropy of the held-out windows over all ranks, in nat per token. Dropless, without
 * gradients, without a trace in the training state. */
#ifndef TRAINER_STEP_EVALUATE_H
#define TRAINER_STEP_EVALUATE_H

#include "trainer/data/data.h"
#include "trainer/step/stop.h"
#include "trainer/step/trainer.h"

/* tokens and labels are scratch of rank_tokens each. Ends early, with NaN, where a request to stop need not wait for
 * other ranks. */
mk_status mt_evaluate(mt_trainer *t, mt_data *data, mt_stop *stop, int32_t *tokens, int32_t *labels, double *loss);

#endif
