/* The smaller and the larger of two sizes. */
#ifndef KERNELS_BASE_MIN_MAX_H
#define KERNELS_BASE_MIN_MAX_H

#include <stdint.h>

static inline int64_t mk_min(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t mk_max(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
