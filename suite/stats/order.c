/* Order statistics. Cost: one sort. */
#include <math.h>
#include <stdlib.h>

#include "suite/stats/stats.h"

static int compare(const void *x, const void *y) {
  double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

void ms_values_sort(double *values, int64_t n) {
  if (n > 1) qsort(values, (size_t)n, sizeof *values, compare);
}

double ms_median(const double *sorted, int64_t n) {
  if (n <= 0) return NAN;
  return n % 2 == 1 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

double ms_percentile(const double *sorted, int64_t n, double p) {
  if (n <= 0) return NAN;
  int64_t rank = (int64_t)ceil(p / 100.0 * (double)n - 1e-9); /* 0.95 * 20 must stay 19 */
  if (rank < 1) rank = 1;
  return sorted[(rank > n ? n : rank) - 1];
}

double ms_mad(const double *sorted, int64_t n, double *scratch) {
  double median = ms_median(sorted, n);
  for (int64_t i = 0; i < n; i++)
    scratch[i] = fabs(sorted[i] - median);
  ms_values_sort(scratch, n);
  return ms_median(scratch, n);
}

bool ms_outlier(double x, double median, double mad) { return mad > 0 && fabs(x - median) / mad > 14.826; }
