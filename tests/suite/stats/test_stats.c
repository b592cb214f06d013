/* Exact ranks and intervals against published tables. */
#include <math.h>
#include <stdlib.h>

#include "suite/stats/stats.h"
#include "tests/support/check_main.h"

/* Ranks of the 95 % and 99 % interval of the median (Hoefler and Belli, SC'15; binomial tables); 0 = none. */
static const struct {
  int64_t n, lo95, hi95;
  double pct95;
  int64_t lo99, hi99;
  double pct99;
} RANKS[] = {
    {3, 0, 0, 0, 0, 0, 0},          {5, 0, 0, 0, 0, 0, 0},          {6, 1, 6, 96.9, 0, 0, 0},
    {7, 1, 7, 98.4, 0, 0, 0},       {8, 1, 8, 99.2, 1, 8, 99.2},    {9, 2, 8, 96.1, 1, 9, 99.6},
    {10, 2, 9, 97.9, 1, 10, 99.8},  {12, 3, 10, 96.1, 2, 11, 99.4}, {15, 4, 12, 96.5, 3, 13, 99.3},
    {20, 6, 15, 95.9, 4, 17, 99.7},
};

START_TEST(median_ranks_match_the_table) {
  for (size_t i = 0; i < sizeof RANKS / sizeof RANKS[0]; i++) {
    ms_ranks r95 = ms_median_ranks(RANKS[i].n, 0.05), r99 = ms_median_ranks(RANKS[i].n, 0.01);
    ck_assert_msg(r95.lo == RANKS[i].lo95 && r95.hi == RANKS[i].hi95, "n %lld 95 %%: got %lld,%lld want %lld,%lld",
                  (long long)RANKS[i].n, (long long)r95.lo, (long long)r95.hi, (long long)RANKS[i].lo95,
                  (long long)RANKS[i].hi95);
    ck_assert_msg(r99.lo == RANKS[i].lo99 && r99.hi == RANKS[i].hi99, "n %lld 99 %%: got %lld,%lld want %lld,%lld",
                  (long long)RANKS[i].n, (long long)r99.lo, (long long)r99.hi, (long long)RANKS[i].lo99,
                  (long long)RANKS[i].hi99);
    ck_assert_double_eq_tol(100 * r95.coverage, RANKS[i].pct95, 0.05);
    ck_assert_double_eq_tol(100 * r99.coverage, RANKS[i].pct99, 0.05);
  }
}
END_TEST

/* Large n: floor((n - z sqrt n) / 2) and ceil(1 + (n + z sqrt n) / 2) are at most one rank off the exact ones. */
START_TEST(median_ranks_approach_the_normal_formula) {
  for (int64_t n = 70; n <= 2000; n += 193) {
    double z = 1.959964, root = sqrt((double)n);
    ms_ranks r = ms_median_ranks(n, 0.05);
    ck_assert_double_eq_tol((double)r.lo, floor(((double)n - z * root) / 2), 1.001);
    ck_assert_double_eq_tol((double)r.hi, ceil(1 + ((double)n + z * root) / 2), 1.001);
    ck_assert_double_ge(r.coverage, 0.95);
  }
}
END_TEST

/* Quantiles of Student's t as printed in tables (Fisher and Yates), and the normal limit. */
START_TEST(student_quantiles_match_the_table) {
  static const struct {
    double p, freedom, t;
  } rows[] = {{0.95, 1, 6.314},   {0.95, 4, 2.132}, {0.95, 8, 1.860},   {0.975, 2, 4.303},
              {0.975, 10, 2.228}, {0.99, 5, 3.365}, {0.995, 30, 2.750}, {0.9, 3, 1.638},
              {0.95, 1e6, 1.645}, {0.5, 7, 0},      {0.05, 8, -1.860}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    double got = ms_student_quantile(rows[i].p, rows[i].freedom);
    ck_assert_msg(fabs(got - rows[i].t) < 6e-4, "t(%g, %g): expected %g, got %g", rows[i].p, rows[i].freedom, rows[i].t,
                  got);
  }
}
END_TEST

/* Student's sleep data (Student 1908, as in R's `sleep`): t.test(extra ~ group) prints -3.3654832 0.2054832 at 95 %. */
START_TEST(welch_interval_of_student_s_data) {
  static const double a[] = {0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0};
  static const double b[] = {1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4};
  ms_difference d = ms_welch(a, 10, b, 10, 0.95);
  ck_assert(d.exists);
  ck_assert_double_eq_tol(d.value, -1.58, 1e-12);
  ck_assert_double_eq_tol(d.lo, -3.3654832, 1e-6);
  ck_assert_double_eq_tol(d.hi, 0.2054832, 1e-6);
  ms_difference same = ms_welch(a, 2, a, 2, 0.9), low = ms_welch(a, 1, b, 10, 0.9), flat = ms_welch(a, 0, b, 0, 0.9);
  ck_assert(same.value == 0 && same.lo == -same.hi && !low.exists && !flat.exists);
  static const double ones[] = {1, 1, 1};
  ms_difference none = ms_welch(ones, 3, ones, 3, 0.9);
  ck_assert(none.exists && none.lo == 0 && none.hi == 0);
}
END_TEST

/* The same ten patients took both: t.test(extra ~ group, paired = TRUE) prints -2.4598858 -0.7001142 at 95 %. */
START_TEST(paired_interval_of_student_s_data) {
  static const double a[] = {0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0};
  static const double b[] = {1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4};
  static const double none[10] = {0};
  double differences[10];
  for (int i = 0; i < 10; i++)
    differences[i] = a[i] - b[i];
  ms_difference d = ms_paired(differences, 10, 0.95), one = ms_paired(differences, 1, 0.95);
  ms_difference same = ms_paired(none, 10, 0.95);
  ck_assert(d.exists && !one.exists);
  ck_assert_double_eq_tol(d.value, -1.58, 1e-12);
  ck_assert_double_eq_tol(d.lo, -2.4598858, 1e-6);
  ck_assert_double_eq_tol(d.hi, -0.7001142, 1e-6);
  ck_assert(same.exists && same.lo == 0 && same.hi == 0);
}
END_TEST

START_TEST(shift_ranks_match_the_mann_whitney_table) {
  static const int64_t N[] = {3, 4, 5, 6, 8, 10}, K95[] = {0, 1, 3, 6, 14, 24}, K99[] = {0, 0, 1, 3, 8, 17};
  mk_context ctx = {0};
  for (int i = 0; i < 6; i++) {
    int64_t k95 = -1, k99 = -1;
    ck_assert_int_eq(ms_shift_rank(&ctx, N[i], N[i], 0.05, &k95), MK_OK);
    ck_assert_int_eq(ms_shift_rank(&ctx, N[i], N[i], 0.01, &k99), MK_OK);
    ck_assert_msg(k95 == K95[i] && k99 == K99[i], "n = m = %lld: got k %lld, %lld, want %lld, %lld", (long long)N[i],
                  (long long)k95, (long long)k99, (long long)K95[i], (long long)K99[i]);
  }
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

/* Unequal sizes, by counting all C(7, 3) orderings by hand: P(U = 0) = 1/35 > 2.5 %, so no interval at 95 %. */
START_TEST(shift_rank_of_unequal_sets) {
  mk_context ctx = {0};
  int64_t k = -1, mirrored = -1;
  ck_assert_int_eq(ms_shift_rank(&ctx, 3, 4, 0.05, &k), MK_OK);
  ck_assert_int_eq(k, 0);
  ck_assert_int_eq(ms_shift_rank(&ctx, 3, 4, 0.06, &k), MK_OK);
  ck_assert_int_eq(k, 1);
  ck_assert_int_eq(ms_shift_rank(&ctx, 6, 10, 0.05, &k), MK_OK);
  ck_assert_int_eq(ms_shift_rank(&ctx, 10, 6, 0.05, &mirrored), MK_OK);
  ck_assert_int_eq(k, mirrored);
  ck_assert_int_eq(k, 12); /* Mann-Whitney table: critical U of (6, 10) at 5 % two-sided is 11 */
}
END_TEST

START_TEST(ratio_of_scaled_sets_is_the_scale) {
  mk_context ctx = {0};
  double a[] = {100, 101, 99, 102, 98, 100.5}, b[6];
  ms_ratio r, back;
  for (int i = 0; i < 6; i++)
    b[i] = 0.9 * a[5 - i];
  ck_assert_int_eq(ms_ratio_estimate(&ctx, b, 6, a, 6, 0.05, &r), MK_OK);
  ck_assert_int_eq(ms_ratio_estimate(&ctx, a, 6, b, 6, 0.05, &back), MK_OK);
  ck_assert(r.exists);
  ck_assert_double_eq_tol(r.value, 0.9, 1e-12);
  ck_assert_double_eq_tol(r.lo * back.hi, 1, 1e-12); /* A/B and B/A agree */
  ck_assert_double_eq_tol(r.value * back.value, 1, 1e-12);
  ck_assert(r.lo < 0.9 && r.hi > 0.9 && r.lo > 0.87 && r.hi < 0.93);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

START_TEST(ratio_of_few_launches_has_no_interval) {
  mk_context ctx = {0};
  double a[] = {2, 2, 2}, b[] = {3, 3, 3};
  ms_ratio r;
  ck_assert_int_eq(ms_ratio_estimate(&ctx, b, 3, a, 3, 0.05, &r), MK_OK);
  ck_assert(!r.exists && isnan(r.lo) && isnan(r.hi));
  ck_assert_double_eq_tol(r.value, 1.5, 1e-12);
}
END_TEST

START_TEST(ratio_refuses_what_has_no_logarithm) {
  double good[] = {1, 2}, bad[][2] = {{1, 0}, {1, -1}, {1, NAN}, {1, INFINITY}};
  ms_ratio r = {.value = 7};
  for (int i = 0; i < 4; i++) {
    mk_context ctx = {0};
    ck_assert_int_eq(ms_ratio_estimate(&ctx, bad[i], 2, good, 2, 0.05, &r), MK_ERR_ARG);
    ck_assert_double_eq(r.value, 7); /* outputs only on success */
  }
}
END_TEST

START_TEST(order_statistics) {
  double x[] = {5, 1, 4, 2, 3}, y[] = {4, 3, 2, 1}, scratch[5];
  ms_values_sort(x, 5);
  ms_values_sort(y, 4);
  ck_assert_double_eq(ms_median(x, 5), 3);
  ck_assert_double_eq(ms_median(y, 4), 2.5);
  ck_assert(isnan(ms_median(x, 0)));
  ck_assert_double_eq(ms_mad(x, 5, scratch), 1);
  ck_assert_double_eq(ms_percentile(x, 5, 50), 3); /* nearest rank: ceil(2.5) = 3rd */
  ck_assert_double_eq(ms_percentile(x, 5, 95), 5);
  ck_assert_double_eq(ms_percentile(x, 5, 20), 1);
  ck_assert_double_eq(ms_percentile(x, 5, 21), 2);
}
END_TEST

START_TEST(percentile_of_twenty_is_the_nineteenth) {
  double x[20];
  for (int i = 0; i < 20; i++)
    x[i] = i + 1;
  ck_assert_double_eq(ms_percentile(x, 20, 95), 19);
  ck_assert_double_eq(ms_percentile(x, 20, 99), 20);
}
END_TEST

START_TEST(outliers_are_ten_robust_sigmas_away) {
  ck_assert(!ms_outlier(114.8, 100, 1));
  ck_assert(ms_outlier(114.9, 100, 1));
  ck_assert(ms_outlier(85.1, 100, 1));
  ck_assert(!ms_outlier(101, 100, 0));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("stats");
  TCase *tc = tcase_create("exact");
  tcase_add_test(tc, median_ranks_match_the_table);
  tcase_add_test(tc, median_ranks_approach_the_normal_formula);
  tcase_add_test(tc, student_quantiles_match_the_table);
  tcase_add_test(tc, welch_interval_of_student_s_data);
  tcase_add_test(tc, paired_interval_of_student_s_data);
  tcase_add_test(tc, shift_ranks_match_the_mann_whitney_table);
  tcase_add_test(tc, shift_rank_of_unequal_sets);
  tcase_add_test(tc, ratio_of_scaled_sets_is_the_scale);
  tcase_add_test(tc, ratio_of_few_launches_has_no_interval);
  tcase_add_test(tc, ratio_refuses_what_has_no_logarithm);
  tcase_add_test(tc, order_statistics);
  tcase_add_test(tc, percentile_of_twenty_is_the_nineteenth);
  tcase_add_test(tc, outliers_are_ten_robust_sigmas_away);
  suite_add_tcase(suite, tc);
  return test_main(suite);
}
