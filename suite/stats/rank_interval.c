/* Exact interval of the median from the binomial distribution: the largest l with P(Bin(n, 1/2) <= l - 1) <= alpha / 2,
 * interval [x_l, x_(n+1-l)]. Hoefler and Belli, SC'15, 3.1.3; asv/_stats.py. Probabilities by logarithms, so that any
 * n works. Cost: n terms. */
#include <math.h>

#include "suite/stats/stats.h"

static double binomial_half(int64_t n, int64_t k) {
  return exp(lgamma((double)n + 1) - lgamma((double)k + 1) - lgamma((double)(n - k) + 1) - (double)n * M_LN2);
}

ms_ranks ms_median_ranks(int64_t n, double alpha) {
  double below = 0; /* P(Bin <= l - 1) of the last accepted l */
  int64_t lo = 0;
  double sum = 0;
  for (int64_t k = 0; k < n / 2; k++) {
    sum += binomial_half(n, k);
    if (sum > 0.5 * alpha) break;
    lo = k + 1;
    below = sum;
  }
  if (lo == 0) return (ms_ranks){0, 0, 0};
  return (ms_ranks){lo, n + 1 - lo, 1 - 2 * below};
}
