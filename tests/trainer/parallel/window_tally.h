/* Bytes that pass through windows, counted where rows are put and fetched: no communicator sees them. Each row_put,
 * row_get and row_sum of the trainer's device is preceded, on its stream, by a count of the routes that it is about to
 * follow, so that what is counted is what the op reads, drops included. One trainer of a process at a time. */
#ifndef TESTS_TRAINER_PARALLEL_WINDOW_TALLY_H
#define TESTS_TRAINER_PARALLEL_WINDOW_TALLY_H

#include "trainer/step/trainer.h"

/* Counts from zero, until the trainer is destroyed. Of the cpu and cpu_async devices. */
void window_tally_start(mt_trainer *t);

/* Bytes to and from other ranks of the EP group so far. The streams must have passed what is to be counted. */
int64_t window_tally_bytes(const mt_trainer *t);

#endif
