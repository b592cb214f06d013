/* In which order launches start. */
#ifndef SUITE_RUN_ORDER_H
#define SUITE_RUN_ORDER_H

#include <stdint.h>

#include "kernels/base/status.h"

typedef struct ms_slot {
  int case_index, number; /* number of the case's launch, from 1 */
} ms_slot;

/* Shuffled blocks: block b holds the b-th launch of every case that has one, in an order drawn from (seed, b), so that
 * drift of the machine falls on all cases alike. Not shuffled: case after case. `slots` has room for the sum of
 * launches[]; returns that sum. */
int ms_order_slots(const int64_t *launches, int n_cases, bool shuffled, uint64_t seed, ms_slot *slots);

#endif
