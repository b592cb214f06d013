/* `moemark-trainer --schedule`: what each pipeline rank does in a step, for a reader. */
#ifndef TRAINER_LAUNCH_SCHEDULE_H
#define TRAINER_LAUNCH_SCHEDULE_H

#include "trainer/launch/config.h"

/* Prints the shape, the bubble, and for each rank its stages, live chunks, timeline and list of actions. */
mk_status mt_schedule_print(mk_context *ctx, const mt_config *cfg);

#endif
