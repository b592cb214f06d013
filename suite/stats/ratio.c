/* Two sets of launches: Hodges-Lehmann estimate of the shift of logarithms with the exact Mann-Whitney interval.
 *
 * The distribution of U comes from the recurrence N(i, j, u) = N(i, j-1, u) + N(i-1, j, u-j), the count of orderings of
 * i and j values with U = u (Mann and Whitney, 1947), here divided by C(i+j, i) along the way so that nothing
 * overflows: P(i, j, u) = (j P(i, j-1, u) + i P(i-1, j, u-j)) / (i+j). Cost: n m (n m + 1) additions. */
#include <math.h>

#include "kernels/base/heap.h"
#include "suite/stats/stats.h"

/* row[j] holds P(i, j, .), each of nm + 1 entries, while i grows from 0 to n. */
static void grow(double *row, int64_t i, int64_t m, int64_t width) {
  for (int64_t j = 1; j <= m; j++) {
    double *left = row + (j - 1) * width, *here = row + j * width;
    double from_j = (double)j / (double)(i + j), from_i = (double)i / (double)(i + j);
    for (int64_t u = width - 1; u >= 0; u--) {
      here[u] = from_j * left[u] + (u >= j ? from_i * here[u - j] : 0);
    }
  }
}

mk_status ms_shift_rank(mk_context *ctx, int64_t n, int64_t m, double alpha, int64_t *out) {
  MK_CHECK(ctx, n >= 1 && m >= 1 && n <= 1000 && m <= 1000, MK_ERR_ARG,
           "interval of two sets needs 1 to 1000 launches on each side, not %lld and %lld", (long long)n, (long long)m);
  double *row = NULL;
  int64_t width = n * m + 1;
  MK_TRY(ctx, mk_heap_array(ctx, (size_t)((m + 1) * width), sizeof *row, &row));
  for (int64_t j = 0; j <= m; j++)
    row[j * width] = 1; /* i = 0: U is 0 */
  for (int64_t i = 1; i <= n; i++)
    grow(row, i, m, width);
  double sum = 0;
  int64_t k = 0;
  for (int64_t u = 0; u < width; u++) {
    sum += row[m * width + u];
    if (sum > 0.5 * alpha * (1 + 1e-12)) break;
    k = u + 1;
  }
  mk_heap_free(ctx, row);
  *out = k;
  return MK_OK;
}

static bool all_positive(const double *values, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (!(values[i] > 0) || !isfinite(values[i])) return false;
  }
  return true;
}

mk_status ms_ratio_estimate(mk_context *ctx, const double *b, int64_t m, const double *a, int64_t n, double alpha,
                            ms_ratio *out) {
  MK_CHECK(ctx, n >= 1 && m >= 1 && all_positive(a, n) && all_positive(b, m), MK_ERR_ARG,
           "a ratio needs positive finite values on both sides");
  mk_status st = MK_OK;
  double *log_ratio = NULL;
  int64_t k = 0;
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)(n * m), sizeof *log_ratio, &log_ratio), out);
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < m; j++)
      log_ratio[i * m + j] = log(b[j]) - log(a[i]);
  }
  ms_values_sort(log_ratio, n * m);
  MK_TRY_GOTO(ctx, ms_shift_rank(ctx, n, m, alpha, &k), out);
  ms_ratio ratio = {.value = exp(ms_median(log_ratio, n * m)), .lo = NAN, .hi = NAN, .exists = k >= 1};
  if (ratio.exists) {
    ratio.lo = exp(log_ratio[k - 1]);
    ratio.hi = exp(log_ratio[n * m - k]);
  }
  *out = ratio;
out:
  mk_heap_free(ctx, log_ratio);
  return st;
}
