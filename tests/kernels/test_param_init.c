/* Initial values: conformance, known values, independence of slices, moments of the truncated normal. */
#include <math.h>

#include "kernels/base/heap.h"
#include "tests/support/check_main.h"
#include "tests/support/conformance.h"

enum { NORMAL, NORMAL_BF16, CONSTANT, VARIANTS };

static mk_status launch(test_bench *b, const conf_point *p) {
  mk_param_init_args a = {.main = test_output(b, "main", mk_tensor_1d(p->dtype, p->dim[0])),
                          .seed = 2026,
                          .param = 3,
                          .first = p->dim[1],
                          .std = p->variant == CONSTANT ? 0.0f : 0.01f,
                          .value = 1.0f,
                          .round_bf16 = p->variant == NORMAL_BF16};
  return mk_param_init(b->stream, &a);
}

static const conf_case cases[] = {{.name = "param_init",
                                   .launch = launch,
                                   .shapes = {{0, 0}, {1, 0}, {33, 7}, {20000, 0}, {5000, INT64_C(1) << 40}},
                                   .n_shapes = 5,
                                   .variants = VARIANTS,
                                   .nmse_f32 = CONF_ROUND_F32,
                                   .nmse_bf16 = CONF_ROUND_BF16}};

CONF_TEST(cases)

static void draw(test_bench *b, int64_t first, int64_t count, double *out) {
  mk_param_init_args a = {.main = test_output(b, "main", mk_tensor_1d(MK_F32, count)),
                          .seed = 0x123456789abcdef,
                          .param = 7,
                          .first = first,
                          .std = 1.0f};
  test_ok(b, mk_param_init(b->stream, &a), "param_init");
  test_read(b, &a.main, out);
}

/* Philox and Python's statistics.NormalDist().inv_cdf in an independent program: seven digits. */
START_TEST(known_values) {
  double got[15], far = 0;
  test_bench b;
  test_bench_open_cpu(&b);
  draw(&b, 0, 15, got);
  draw(&b, (INT64_C(1) << 40) + 5, 1, &far);
  ck_assert_double_eq_tol(got[0], 0.6214725445969833, 5e-7);
  ck_assert_double_eq_tol(got[1], -0.5539117652620938, 5e-7);
  ck_assert_double_eq_tol(got[2], 0.43663369801393354, 5e-7);
  ck_assert_double_eq_tol(got[3], -0.5299299570127618, 5e-7);
  ck_assert_double_eq_tol(got[14], -0.4212335991219899, 5e-7);
  ck_assert_double_eq_tol(far, 0.08212006685587096, 5e-7);
  test_bench_close(&b);
}
END_TEST

START_TEST(a_shard_draws_what_the_whole_draws) {
  const mk_device_config config = {.name = "cpu", .threads = 2};
  double whole[9000], shard[3000];
  test_bench b;
  test_bench_open(&b, &config, 1, false);
  draw(&b, 0, 9000, whole);
  draw(&b, 4500, 3000, shard);
  for (int i = 0; i < 3000; i++)
    ck_assert(shard[i] == whole[4500 + i]);
  test_bench_close(&b);
}
END_TEST

/* Normal cut at +-3: variance 0.97334; bounds are five standard errors of 400,000 draws. */
START_TEST(moments) {
  const mk_device_config config = {.name = "cpu", .threads = 2};
  enum { N = 400000 };
  double *value = NULL, mean = 0, square = 0, largest = 0, below_one = 0;
  test_bench b;
  test_bench_open(&b, &config, 1, false);
  test_ok(&b, mk_heap_array(&b.ctx, N, sizeof *value, &value), "values");
  draw(&b, 0, N, value);
  for (int i = 0; i < N; i++) {
    mean += value[i] / N;
    square += value[i] * value[i] / N;
    largest = fmax(largest, fabs(value[i]));
    below_one += fabs(value[i]) < 1 ? 1.0 / N : 0;
  }
  ck_assert_double_eq_tol(mean, 0, 5 * 0.987 / sqrt(N));
  ck_assert_double_eq_tol(square, 0.9733369246625415, 5 * 1.3 / sqrt(N));
  ck_assert_double_eq_tol(below_one, 0.6826894921 / 0.9973002039, 5 * 0.47 / sqrt(N));
  ck_assert(largest <= 3.0 && largest > 2.95);
  mk_heap_free(&b.ctx, value);
  test_bench_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("param_init");
  TCase *tcase = test_case(suite, "param_init", 120);
  CONF_ADD(tcase, cases);
  tcase_add_test(tcase, known_values);
  tcase_add_test(tcase, a_shard_draws_what_the_whole_draws);
  tcase_add_test(tcase, moments);
  return test_main(suite);
}
