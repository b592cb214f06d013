/* Difference of two means: of independent samples by Welch (1947), degrees of freedom by Satterthwaite; of pairs by
 * Student (1908). For equality within a margin the 90 % interval is compared with it: two one-sided tests at 5 %
 * (Schuirmann 1987).
 *
 * Student's distribution goes through the regularised incomplete beta function, whose continued fraction is evaluated
 * by Lentz's method (Numerical Recipes, 3rd ed., 6.4); the quantile by bisection. */
#include <math.h>

#include "suite/stats/stats.h"

/* Continued fraction of I_x(a, b); converges fast for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x) {
  enum { MOST = 500 };
  const double tiny = 1e-300, enough = 1e-15;
  double c = 1, d = 1 - (a + b) * x / (a + 1);
  d = 1 / (fabs(d) < tiny ? tiny : d);
  double f = d;
  for (int i = 1; i <= MOST; i++) {
    double m = i, even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 + even * d, d = 1 / (fabs(d) < tiny ? tiny : d);
    c = 1 + even / c, c = fabs(c) < tiny ? tiny : c;
    f *= d * c;
    d = 1 + odd * d, d = 1 / (fabs(d) < tiny ? tiny : d);
    c = 1 + odd / c, c = fabs(c) < tiny ? tiny : c;
    f *= d * c;
    if (fabs(d * c - 1) < enough) break;
  }
  return f;
}

static double beta_regularised(double a, double b, double x) {
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

/* P(T > t) for t >= 0. */
static double upper_tail(double t, double freedom) {
  return 0.5 * beta_regularised(freedom / 2, 0.5, freedom / (freedom + t * t));
}

double ms_student_quantile(double p, double freedom) {
  enum { STEPS = 200 };
  if (p < 0.5) return -ms_student_quantile(1 - p, freedom);
  double lo = 0, hi = 1;
  while (upper_tail(hi, freedom) > 1 - p && hi < 1e300)
    hi *= 2;
  for (int i = 0; i < STEPS; i++) {
    double middle = 0.5 * (lo + hi);
    if (upper_tail(middle, freedom) > 1 - p) {
      lo = middle;
    } else {
      hi = middle;
    }
  }
  return 0.5 * (lo + hi);
}

static double mean_of(const double *values, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += values[i];
  return sum / (double)n;
}

/* Squared standard error of the mean. */
static double error_of(const double *values, int64_t n, double mean) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += (values[i] - mean) * (values[i] - mean);
  return sum / (double)(n - 1) / (double)n;
}

ms_difference ms_welch(const double *a, int64_t n, const double *b, int64_t m, double coverage) {
  if (n < 2 || m < 2) return (ms_difference){NAN, NAN, NAN, false};
  double mean_a = mean_of(a, n), mean_b = mean_of(b, m);
  double va = error_of(a, n, mean_a), vb = error_of(b, m, mean_b), value = mean_a - mean_b, half = 0;
  if (va + vb > 0) {
    double freedom = (va + vb) * (va + vb) / (va * va / (double)(n - 1) + vb * vb / (double)(m - 1));
    half = ms_student_quantile(0.5 + 0.5 * coverage, freedom) * sqrt(va + vb);
  }
  return (ms_difference){value, value - half, value + half, true};
}

ms_difference ms_paired(const double *differences, int64_t n, double coverage) {
  if (n < 2) return (ms_difference){NAN, NAN, NAN, false};
  double value = mean_of(differences, n);
  double half = ms_student_quantile(0.5 + 0.5 * coverage, (double)(n - 1)) * sqrt(error_of(differences, n, value));
  return (ms_difference){value, value - half, value + half, true};
}
