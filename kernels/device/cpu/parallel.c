/* OpenMP loops over pieces whose size follows from the problem alone. Sums: each piece has its own partial, and the
 * calling thread adds them in the order of the pieces after the loop, so that no thread waits for another inside it. */
#include "kernels/device/cpu/parallel.h"

#include <string.h>

#include "kernels/base/min_max.h"

void mk_cpu_ranges(int64_t n, int64_t grain, mk_range_fn fn, const void *args) {
  if (n <= grain) {
    if (n > 0) fn(args, 0, n);
    return;
  }
  int64_t pieces = (n + grain - 1) / grain;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < pieces; i++)
    fn(args, i * grain, mk_min(grain, n - i * grain));
}

void mk_cpu_ranges_sum(int64_t n, int64_t grain, int64_t width, mk_partial_fn fn, const void *args, float *total) {
  float partial[MK_PARTIAL_FLOATS] __attribute__((aligned(64))); /* only what the pieces use is ever touched */
  int64_t most = width > 0 ? mk_min(MK_SUM_PIECES, MK_PARTIAL_FLOATS / width) : MK_SUM_PIECES;
  if (most < 2) {
    for (int64_t i = 0; i < n; i += grain)
      fn(args, i, mk_min(grain, n - i), total);
    return;
  }
  if (n > grain * most) grain = (n + most - 1) / most;
  int64_t pieces = (n + grain - 1) / grain;
  memset(partial, 0, (size_t)(pieces * width) * sizeof *partial);
#pragma omp parallel for schedule(static) if (pieces > 1)
  for (int64_t i = 0; i < pieces; i++)
    fn(args, i * grain, mk_min(grain, n - i * grain), partial + i * width);
  for (int64_t i = 0; i < pieces; i++) {
#pragma omp simd
    for (int64_t c = 0; c < width; c++)
      total[c] += partial[i * width + c];
  }
}

double mk_cpu_ranges_sum_f64(int64_t n, int64_t grain, mk_sum_fn fn, const void *args) {
  double sums[MK_SUM_PIECES];
  if (n > grain * MK_SUM_PIECES) grain = (n + MK_SUM_PIECES - 1) / MK_SUM_PIECES;
  int64_t pieces = (n + grain - 1) / grain;
#pragma omp parallel for schedule(static) if (pieces > 1)
  for (int64_t i = 0; i < pieces; i++)
    sums[i] = fn(args, i * grain, mk_min(grain, n - i * grain));
  double total = 0;
  for (int64_t i = 0; i < pieces; i++)
    total += sums[i];
  return total;
}
