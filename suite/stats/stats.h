/* Statistics over launches: order statistics, exact intervals without a distribution, ratios of two sets.
 *
 * The sample unit is one launch; steps of a launch are never pooled. No random numbers, no removal of outliers. */
#ifndef SUITE_STATS_STATS_H
#define SUITE_STATS_STATS_H

#include <stdint.h>

#include "kernels/base/status.h"

/* Ascending, in place. NaN is a caller error: filter first. */
void ms_values_sort(double *values, int64_t n);

/* Median of sorted values; NaN for n = 0. */
double ms_median(const double *sorted, int64_t n);

/* Nearest-rank percentile: the ceil(p/100 n)-th smallest value, 0 < p <= 100; NaN for n = 0. */
double ms_percentile(const double *sorted, int64_t n, double p);

/* Median absolute deviation from the median, in the unit of the values. Uses `scratch` of n values. */
double ms_mad(const double *sorted, int64_t n, double *scratch);

/* |x - median| / MAD > 14.826, that is ten robust standard deviations. With MAD = 0 nothing is marked. */
bool ms_outlier(double x, double median, double mad);

/* Ranks (from 1) of the exact interval of the median: [x_lo, x_hi] covers it with probability `coverage` >= 1 - alpha.
 * lo = 0: n values cannot give such an interval. */
typedef struct ms_ranks {
  int64_t lo, hi;
  double coverage;
} ms_ranks;

ms_ranks ms_median_ranks(int64_t n, double alpha);

/* Largest k for which [D_k, D_(nm+1-k)] of the n*m sorted differences covers the shift with probability >= 1 - alpha
 * (exact Mann-Whitney distribution); 0: no such interval. */
mk_status ms_shift_rank(mk_context *ctx, int64_t n, int64_t m, double alpha, int64_t *out);

/* b over a: Hodges-Lehmann estimate on logarithms and its exact interval. `exists` is false when the launches are too
 * few for one; lo and hi are NaN then. */
typedef struct ms_ratio {
  double value, lo, hi;
  bool exists;
} ms_ratio;

/* All values must be positive and finite (MK_ERR_ARG otherwise). The order of the inputs does not matter. */
mk_status ms_ratio_estimate(mk_context *ctx, const double *b, int64_t m, const double *a, int64_t n, double alpha,
                            ms_ratio *out);

/* Mean of a minus mean of b with the interval of Welch's t at `coverage` (0.90 for two one-sided tests at 5 %).
 * `exists` is false with fewer than 2 values on a side. Equal values on both sides have an interval of length 0. */
typedef struct ms_difference {
  double value, lo, hi;
  bool exists;
} ms_difference;

ms_difference ms_welch(const double *a, int64_t n, const double *b, int64_t m, double coverage);

/* Mean of n differences with the interval of Student's t: each is of two launches that belong together, such as those
 * of one seed, whose common part cancels. `exists` is false with fewer than 2. */
ms_difference ms_paired(const double *differences, int64_t n, double coverage);

/* The t with P(T <= t) = p of Student's distribution with `freedom` > 0 degrees of freedom; 0 < p < 1. */
double ms_student_quantile(double p, double freedom);

#endif
