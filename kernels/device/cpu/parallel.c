/* OpenMP loops over pieces of fixed size. Ordered sums: piece i adds to the total after piece i-1 has, which costs one
 * pass over `width` floats a piece; with static,1 scheduling the turns come round in step with the work. */
#include "kernels/device/cpu/parallel.h"

#include <string.h>

static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

void mk_cpu_ranges(int64_t n, int64_t grain, mk_range_fn fn, const void *args) {
  if (n <= grain) {
    if (n > 0) fn(args, 0, n);
    return;
  }
  int64_t pieces = (n + grain - 1) / grain;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < pieces; i++)
    fn(args, i * grain, min(grain, n - i * grain));
}

static void add_to(float *total, const float *partial, int64_t width) {
#pragma omp simd
  for (int64_t i = 0; i < width; i++)
    total[i] += partial[i];
}

void mk_cpu_ranges_sum(int64_t n, int64_t grain, int64_t width, mk_partial_fn fn, const void *args, float *total) {
  int64_t pieces = (n + grain - 1) / grain;
  if (width > MK_PARTIAL_MAX) {
    for (int64_t i = 0; i < pieces; i++)
      fn(args, i * grain, min(grain, n - i * grain), total);
    return;
  }
#pragma omp parallel if (pieces > 1)
  {
    float partial[MK_PARTIAL_MAX] __attribute__((aligned(64)));
#pragma omp for schedule(static, 1) ordered
    for (int64_t i = 0; i < pieces; i++) {
      memset(partial, 0, (size_t)width * sizeof *partial);
      fn(args, i * grain, min(grain, n - i * grain), partial);
#pragma omp ordered
      add_to(total, partial, width);
    }
  }
}

double mk_cpu_ranges_sum_f64(int64_t n, int64_t grain, mk_sum_fn fn, const void *args) {
  double sums[MK_SUM_PIECES];
  if (n > grain * MK_SUM_PIECES) grain = (n + MK_SUM_PIECES - 1) / MK_SUM_PIECES;
  int64_t pieces = (n + grain - 1) / grain;
#pragma omp parallel for schedule(static) if (pieces > 1)
  for (int64_t i = 0; i < pieces; i++)
    sums[i] = fn(args, i * grain, min(grain, n - i * grain));
  double total = 0;
  for (int64_t i = 0; i < pieces; i++)
    total += sums[i];
  return total;
}
