/* The step's state: schedules, clipping, SkipStep, the log record. Expected values are worked out by hand. */
#include "kernels/ops/step_state/step_state.h"

#include <math.h>

#include "tests/support/bench.h"
#include "tests/support/check_main.h"

typedef struct fixture {
  test_bench b;
  mk_tensor state, sums, squared_norm, counts, log;
} fixture;

static void open_fixture(fixture *f, const char *device) {
  const mk_device_config config = {.name = device, .threads = 1};
  mk_step_state zero = {0};
  test_bench_open(&f->b, &config, 1, false);
  f->state = test_bytes(&f->b, "state", TEST_INOUT, mk_tensor_1d(MK_U8, (int64_t)sizeof zero), &zero);
  f->sums = test_constant(&f->b, "sums", TEST_INOUT, mk_tensor_1d(MK_F64, MK_SUM_COUNT), 5);
  f->squared_norm = test_constant(&f->b, "squared_norm", TEST_IN, mk_tensor_1d(MK_F64, 1), 0);
  f->counts = test_integers(&f->b, "counts", TEST_INOUT, mk_tensor_2d(MK_I64, 2, 4), 3, 3);
  f->log = test_output(&f->b, "log", mk_tensor_1d(MK_U8, (int64_t)sizeof(mk_step_log)));
}

static mk_step_state read_state(fixture *f) {
  mk_step_state state;
  test_read_bytes(&f->b, &f->state, &state);
  return state;
}

static mk_step_begin_args begin_args(const fixture *f, mk_lr_schedule schedule) {
  return (mk_step_begin_args){.state = f->state,
                              .sums = f->sums,
                              .counts = f->counts,
                              .schedule = schedule,
                              .peak_lr = 1.0,
                              .min_ratio = 0.1,
                              .warmup_steps = 4,
                              .total_steps = 12};
}

static void check_schedule(const char *device, mk_lr_schedule schedule, const double *want, int steps) {
  fixture f;
  open_fixture(&f, device);
  mk_step_begin_args a = begin_args(&f, schedule);
  for (int s = 1; s <= steps; s++) {
    test_ok(&f.b, mk_step_begin(f.b.stream, &a), "step_begin");
    mk_step_state state = read_state(&f);
    ck_assert_int_eq(state.step, s);
    ck_assert_msg(fabs(state.lr - want[s - 1]) < 1e-12, "schedule %d step %d: lr %.15g, expected %.15g", (int)schedule,
                  s, state.lr, want[s - 1]);
  }
  test_bench_close(&f.b);
}

/* Warm-up of 4 steps starts at a quarter; then 8 steps down to 0.1, and 0.1 for ever. Half way cosine and linear meet
 * at 0.55; a quarter of the way cosine is 0.1 + 0.9 (1 + cos(pi/4))/2. */
START_TEST(schedules) {
  const double quarter = 0.1 + 0.9 * (1 + 0.70710678118654752) / 2, last = 0.1 + 0.9 * (1 - 0.70710678118654752) / 2;
  const double e1 = 0.1 + 0.9 * (1 + 0.92387953251128674) / 2, e3 = 0.1 + 0.9 * (1 + 0.38268343236508977) / 2;
  const double e5 = 0.1 + 0.9 * (1 - 0.38268343236508977) / 2, e7 = 0.1 + 0.9 * (1 - 0.92387953251128674) / 2;
  const double cosine[] = {0.25, 0.5, 0.75, 1, e1, quarter, e3, 0.55, e5, last, e7, 0.1, 0.1, 0.1};
  const double linear[] = {0.25, 0.5, 0.75, 1, 0.8875, 0.775, 0.6625, 0.55, 0.4375, 0.325, 0.2125, 0.1, 0.1, 0.1};
  const double constant[] = {0.25, 0.5, 0.75, 1, 1, 1};
  check_schedule("cpu", MK_LR_COSINE, cosine, 14);
  check_schedule("ref", MK_LR_COSINE, cosine, 14);
  check_schedule("cpu", MK_LR_LINEAR, linear, 14);
  check_schedule("cpu", MK_LR_CONSTANT, constant, 6);
}
END_TEST

START_TEST(begin_clears_the_steps_sums) {
  fixture f;
  double sums[MK_SUM_COUNT], counts[8];
  open_fixture(&f, "cpu");
  mk_step_begin_args a = begin_args(&f, MK_LR_CONSTANT);
  test_ok(&f.b, mk_step_begin(f.b.stream, &a), "step_begin");
  test_read(&f.b, &f.sums, sums);
  test_read(&f.b, &f.counts, counts);
  for (int i = 0; i < MK_SUM_COUNT; i++)
    ck_assert(sums[i] == 0);
  for (int i = 0; i < 8; i++)
    ck_assert(counts[i] == 0);
  test_bench_close(&f.b);
}
END_TEST

/* One step with the given cross-entropy, load-balancing loss and norm. */
static mk_step_state clip_with_lb(fixture *f, const mk_step_clip_args *base, double ce, double lb, double norm) {
  mk_step_clip_args a = *base;
  a.state = f->state;
  a.sums = f->sums;
  a.squared_norm = f->squared_norm;
  for (int i = 0; i < MK_SUM_COUNT; i++)
    test_write_one(&f->b, &f->sums, i, i == MK_SUM_CE ? ce : i == MK_SUM_LB ? lb : 0);
  test_write_one(&f->b, &f->squared_norm, 0, norm * norm);
  test_ok(&f->b, mk_step_clip(f->b.stream, &a), "step_clip");
  return read_state(f);
}

/* One step with the given loss (all of it cross-entropy) and norm. */
static mk_step_state clip(fixture *f, const mk_step_clip_args *base, double loss, double norm) {
  return clip_with_lb(f, base, loss, 0, norm);
}

START_TEST(clip_coefficient) {
  fixture f;
  open_fixture(&f, "cpu");
  const mk_step_clip_args five = {.max_norm = 5}, none = {.max_norm = 0};
  mk_step_state s = clip(&f, &five, 1, 10);
  ck_assert_double_eq_tol(s.grad_norm, 10, 1e-12);
  ck_assert_double_eq_tol(s.clip_coef, 5 / (10 + 1e-6), 1e-15);
  s = clip(&f, &five, 1, 3);
  ck_assert(s.clip_coef == 1);
  s = clip(&f, &five, 1, 0);
  ck_assert(s.clip_coef == 1);
  s = clip(&f, &none, 1, 1e9);
  ck_assert(s.clip_coef == 1);
  ck_assert_int_eq(s.taken, 4);
  ck_assert_int_eq(s.history, 0);
  test_bench_close(&f.b);
}
END_TEST

START_TEST(non_finite_values_skip) {
  fixture f;
  open_fixture(&f, "cpu");
  const mk_step_clip_args plain = {.max_norm = 1}, skipping = {.max_norm = 1, .skip_step = 1, .sigma_factor = 6};
  const double bad[][2] = {{NAN, 1}, {INFINITY, 1}, {1, NAN}, {1, INFINITY}};
  for (int i = 0; i < 4; i++) {
    mk_step_state s = clip(&f, i % 2 == 0 ? &plain : &skipping, bad[i][0], bad[i][1]);
    ck_assert_int_eq(s.nonfinite, 1);
    ck_assert_int_eq(s.skip, 1);
    ck_assert_int_eq(s.taken, 0);
    ck_assert_int_eq(s.history, 0);
  }
  mk_step_state s = clip(&f, &plain, 1, 1);
  ck_assert_int_eq(s.nonfinite, 0);
  ck_assert_int_eq(s.skip, 0);
  ck_assert_int_eq(s.taken, 1);
  test_bench_close(&f.b);
}
END_TEST

/* Losses alternate 1 and 3 (mean 2), norms 10 and 12; a spike is let pass as entry 63 and rejected as entry 64. */
static int64_t feed(fixture *f, const mk_step_clip_args *a, int count) {
  int64_t taken = 0;
  for (int i = 0; i < count; i++)
    taken = clip(f, a, i % 2 == 0 ? 1 : 3, i % 2 == 0 ? 10 : 12).taken;
  return taken;
}

START_TEST(skip_step_needs_64_entries) {
  const mk_step_clip_args a = {.skip_step = 1, .sigma_factor = 6};
  fixture f;
  open_fixture(&f, "cpu");
  feed(&f, &a, 62);
  ck_assert_int_eq(clip(&f, &a, 1000, 10).skip, 0); /* entry 63 */
  test_bench_close(&f.b);
  open_fixture(&f, "cpu");
  ck_assert_int_eq(feed(&f, &a, 63), 63);
  mk_step_state s = clip(&f, &a, 1000, 10); /* entry 64 */
  ck_assert_int_eq(s.skip, 1);
  ck_assert_int_eq(s.nonfinite, 0);
  ck_assert_int_eq(s.taken, 63);
  ck_assert_int_eq(s.history, 64);                 /* the spike stays in the history */
  ck_assert_int_eq(clip(&f, &a, 1, 1000).skip, 1); /* the norm alone rejects too */
  ck_assert_int_eq(clip(&f, &a, 3, 12).skip, 0);
  test_bench_close(&f.b);
}
END_TEST

/* A spike of the load-balancing loss alone is no outlier, one of the cross-entropy is. */
START_TEST(skip_step_reads_the_cross_entropy) {
  const mk_step_clip_args a = {.skip_step = 1, .sigma_factor = 6, .lb_weight = 1};
  fixture f;
  open_fixture(&f, "cpu");
  feed(&f, &a, 63);
  ck_assert_int_eq(clip_with_lb(&f, &a, 3, 1000, 12).skip, 0);
  ck_assert_int_eq(clip_with_lb(&f, &a, 1000, 0, 12).skip, 1);
  test_bench_close(&f.b);
}
END_TEST

/* 63 losses alternating 1, 3, ..., 1: mean m = 125/63, unbiased variance v = (32 (1-m)^2 + 31 (3-m)^2) / 62; the bound
 * is m + 2 sqrt(v). Just below passes, just above is rejected. */
START_TEST(skip_step_bound_is_unbiased) {
  const mk_step_clip_args a = {.skip_step = 1, .sigma_factor = 2};
  double m = 125.0 / 63.0, v = (32 * (1 - m) * (1 - m) + 31 * (3 - m) * (3 - m)) / 62;
  double bound = m + 2 * sqrt(v);
  for (int above = 0; above < 2; above++) {
    fixture f;
    open_fixture(&f, "cpu");
    feed(&f, &a, 63);
    ck_assert_int_eq(clip(&f, &a, bound + (above ? 1e-9 : -1e-9), 10).skip, above);
    test_bench_close(&f.b);
  }
}
END_TEST

/* The window holds 129 entries: after 128 more quiet steps an old spike has left it. */
START_TEST(skip_step_forgets) {
  const mk_step_clip_args a = {.skip_step = 1, .sigma_factor = 6};
  fixture f;
  open_fixture(&f, "cpu");
  clip(&f, &a, 1e6, 10); /* widens the bound while it is there */
  feed(&f, &a, 127);
  ck_assert_int_eq(clip(&f, &a, 1000, 10).skip, 0); /* entry 129: the spike is still in the window */
  feed(&f, &a, 128);
  ck_assert_int_eq(read_state(&f).history, 129);
  ck_assert_int_eq(clip(&f, &a, 1e7, 10).skip, 1);
  feed(&f, &a, 129);
  ck_assert_int_eq(clip(&f, &a, 1000, 10).skip, 1);
  test_bench_close(&f.b);
}
END_TEST

/* Layer 0 counts 1,1,1,5 (max/mean 2.5), layer 1 counts 2,2,2,2. */
START_TEST(record) {
  const double counts[] = {1, 1, 1, 5, 2, 2, 2, 2};
  fixture f;
  mk_step_log log;
  open_fixture(&f, "cpu");
  mk_step_begin_args begin = begin_args(&f, MK_LR_CONSTANT);
  test_ok(&f.b, mk_step_begin(f.b.stream, &begin), "step_begin");
  const mk_step_clip_args a = {.max_norm = 1};
  clip(&f, &a, 2.5, 4);
  for (int i = 0; i < 8; i++)
    test_write_one(&f.b, &f.counts, i, counts[i]);
  mk_step_record_args r = {.state = f.state, .sums = f.sums, .counts = f.counts, .log = f.log};
  test_ok(&f.b, mk_step_record(f.b.stream, &r), "step_record");
  test_read_bytes(&f.b, &f.log, &log);
  ck_assert_int_eq(log.step, 1);
  ck_assert(log.sum[MK_SUM_CE] == 2.5);
  ck_assert_double_eq_tol(log.grad_norm, 4, 1e-12);
  ck_assert_double_eq_tol(log.lr, 0.25, 1e-15);
  ck_assert_double_eq_tol(log.imbalance, 2.5, 1e-15);
  ck_assert_int_eq(log.skipped, 0);
  for (int i = 0; i < 8; i++)
    test_write_one(&f.b, &f.counts, i, 0);
  test_ok(&f.b, mk_step_record(f.b.stream, &r), "step_record");
  test_read_bytes(&f.b, &f.log, &log);
  ck_assert(log.imbalance == 0);
  test_bench_close(&f.b);
}
END_TEST

/* Load-balancing and router z sums are unweighted; their weights enter the loss that the check reads. */
START_TEST(weighted_terms_reach_the_check) {
  fixture f;
  open_fixture(&f, "cpu");
  mk_step_clip_args a = {.state = f.state, .sums = f.sums, .squared_norm = f.squared_norm, .lb_weight = 0.01};
  for (int i = 0; i < MK_SUM_COUNT; i++)
    test_write_one(&f.b, &f.sums, i, i == MK_SUM_LB ? INFINITY : 0);
  test_write_one(&f.b, &f.squared_norm, 0, 1);
  test_ok(&f.b, mk_step_clip(f.b.stream, &a), "step_clip");
  ck_assert_int_eq(read_state(&f).nonfinite, 1);
  test_bench_close(&f.b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("step_state");
  TCase *tcase = tcase_create("step_state");
  tcase_add_test(tcase, schedules);
  tcase_add_test(tcase, begin_clears_the_steps_sums);
  tcase_add_test(tcase, clip_coefficient);
  tcase_add_test(tcase, non_finite_values_skip);
  tcase_add_test(tcase, skip_step_needs_64_entries);
  tcase_add_test(tcase, skip_step_reads_the_cross_entropy);
  tcase_add_test(tcase, skip_step_bound_is_unbiased);
  tcase_add_test(tcase, skip_step_forgets);
  tcase_add_test(tcase, record);
  tcase_add_test(tcase, weighted_terms_reach_the_check);
  suite_add_tcase(suite, tcase);
  return test_main(suite);
}
