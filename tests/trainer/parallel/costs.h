/* What a run cost beside what the formulas say: bytes on the wire and through windows, device memory, host waits. */
#ifndef TESTS_TRAINER_PARALLEL_COSTS_H
#define TESTS_TRAINER_PARALLEL_COSTS_H

#include "tests/trainer/parallel/outcome.h"

/* Of one rank; wire over all steps of the run, host waits of one. */
typedef struct costs {
  int64_t wire_predicted, wire_traced;
  int64_t ep_predicted, ep_traced; /* the part of the token exchange */
  int64_t sharding_predicted, optim_predicted, counts_predicted,
      pp_predicted;                         /* other parts; counts of the token exchange */
  int64_t window_predicted, window_counted; /* bytes through windows, which no communicator sees: window_tally.h */
  int64_t state_predicted, state_counted;   /* parameters, gradients and optimizer state, the strategy's own formula */
  int64_t memory_predicted, memory_counted; /* all device memory */
  int64_t waits_predicted, waits_counted;
} costs;

/* Predicts for the trainer of `own`, whose run is over. The routes of the EP group's ranks are those of the one-rank
 * twin, which has to have chosen the same experts. */
void costs_predict(costs *c, mt_trainer *t, const outcome *own, const outcome *one);

/* Sums the bytes of a trace file, which is then removed. Ends the process when the file cannot be read. */
void costs_trace_read(costs *c, const char *path);

#endif
