/* How ops share work between the threads of a team. Pieces have a fixed size, so that results do not depend on the
 * number of threads. The functions given run inside a parallel region: they must not open one. */
#ifndef KERNELS_DEVICE_CPU_PARALLEL_H
#define KERNELS_DEVICE_CPU_PARALLEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Work on elements (or rows) [first, first + count). */
typedef void (*mk_range_fn)(const void *args, int64_t first, int64_t count);

/* Runs fn over [0, n) in pieces of `grain`; in the calling thread alone when one piece is enough. */
void mk_cpu_ranges(int64_t n, int64_t grain, mk_range_fn fn, const void *args);

/* As above; fn also adds to `partial`, `width` floats that start at zero for each piece. */
typedef void (*mk_partial_fn)(const void *args, int64_t first, int64_t count, float *partial);

enum { MK_SUM_PIECES = 256, MK_PARTIAL_FLOATS = 1 << 17 };

/* total[i] += the pieces' partial[i], added in the order of the pieces whatever the number of threads. At most
 * MK_SUM_PIECES pieces and MK_PARTIAL_FLOATS floats in all (of the calling thread's stack): pieces grow beyond `grain`
 * where they must; a width that leaves room for less than two runs serially. With width 0 nothing is summed and `total`
 * may be NULL. */
void mk_cpu_ranges_sum(int64_t n, int64_t grain, int64_t width, mk_partial_fn fn, const void *args, float *total);

/* Sum of fn over pieces, in FP64, added in the order of the pieces. At most MK_SUM_PIECES pieces, `grain` or larger. */
typedef double (*mk_sum_fn)(const void *args, int64_t first, int64_t count);

double mk_cpu_ranges_sum_f64(int64_t n, int64_t grain, mk_sum_fn fn, const void *args);

/* Rows of `width` elements that make a piece of about `elements`; at least 1. */
static inline int64_t mk_cpu_grain_rows(int64_t elements, int64_t width) {
  return width > 0 && elements / width > 1 ? elements / width : 1;
}

#ifdef __cplusplus
}
#endif

#endif
