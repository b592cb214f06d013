/* Checks of a pipeline plan that need no rank: a simulation of all lists at once. */
#ifndef TESTS_TRAINER_PARALLEL_PP_LISTS_H
#define TESTS_TRAINER_PARALLEL_PP_LISTS_H

#include "trainer/parallel/pp_schedule.h"

enum { PP_WHY_BYTES = 256 };

/* Runs the lists of all ranks, each in order, one action at a time, a send waiting for its receive; follows what lies
 * in every set and buffer. false with the reason in why: a rank waits for ever, a pass runs twice or never or before
 * its input, a set or buffer is overwritten while it is in use, messages of a pair would be taken in another order. */
bool pp_lists_run(const mt_pp_plan *plan, char why[PP_WHY_BYTES]);

#endif
