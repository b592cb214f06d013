/* A random order of n things without a table: place i of the order is found in O(1), from (seed, epoch) alone, so that
 * any rank and a resumed run know it at once. */
#ifndef TRAINER_DATA_SHUFFLE_H
#define TRAINER_DATA_SHUFFLE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Image of `index` in [0, n) under the permutation of (seed, epoch); n from 1 to 2^62. */
int64_t mt_shuffle(uint64_t seed, uint32_t epoch, int64_t n, int64_t index);

#ifdef __cplusplus
}
#endif

#endif
