/* cast, scale, add, squared_norm: conformance and refused arguments. */
#include <math.h>

#include "tests/support/check_main.h"
#include "tests/support/conformance.h"

static mk_tensor flat(mk_dtype dtype, const conf_point *p) { return mk_tensor_1d(dtype, p->dim[0]); }

enum { CAST_TO_F32, CAST_TO_BF16, CAST_VARIANTS };

static mk_status launch_cast(test_bench *b, const conf_point *p) {
  mk_dtype to = p->variant == CAST_TO_F32 ? MK_F32 : MK_BF16;
  mk_cast_args a = {.x = test_random(b, "x", TEST_IN, flat(p->dtype, p), 0.0, 100.0),
                    .y = test_output(b, "y", flat(to, p))};
  return mk_cast(b->stream, &a);
}

static mk_status launch_scale(test_bench *b, const conf_point *p) {
  mk_scale_args a = {.x = test_random(b, "x", TEST_INOUT, flat(p->dtype, p), 0.0, 1.0), .factor = 1.0 / 3.0};
  return mk_scale(b->stream, &a);
}

enum { ADD_PLAIN, ADD_INTO_A, ADD_INTO_B, ADD_VARIANTS };

static mk_status launch_add(test_bench *b, const conf_point *p) {
  mk_add_args a = {.a = test_random(b, "a", TEST_IN, flat(p->dtype, p), 0.0, 1.0),
                   .b = test_random(b, "b", TEST_IN, flat(p->dtype, p), 1.0, 2.0)};
  a.y = p->variant == ADD_INTO_A ? a.a : p->variant == ADD_INTO_B ? a.b : test_output(b, "y", flat(p->dtype, p));
  test_set_role(b, &a.y, TEST_OUT);
  return mk_add(b->stream, &a);
}

static mk_status launch_squared_norm(test_bench *b, const conf_point *p) {
  mk_squared_norm_args a = {.x = test_random(b, "x", TEST_IN, flat(p->dtype, p), 0.01, 1.0),
                            .out = test_constant(b, "out", TEST_INOUT, mk_tensor_1d(MK_F64, 1), 0.25),
                            .scale = 0.5};
  return mk_squared_norm(b->stream, &a);
}

/* One more than a piece of work, and several pieces for each of three threads. */
#define SHAPES {{0}, {1}, {7}, {33}, {1003}, {32769}, {250007}}, .n_shapes = 7

static const conf_case cases[] = {
    {.name = "cast",
     .launch = launch_cast,
     .shapes = SHAPES,
     .variants = CAST_VARIANTS,
     .nmse_f32 = CONF_ROUND_BF16,
     .nmse_bf16 = 0},
    {.name = "scale", .launch = launch_scale, .shapes = SHAPES, .dtypes = 1u << MK_F32, .nmse_f32 = CONF_ROUND_F32},
    {.name = "add",
     .launch = launch_add,
     .shapes = SHAPES,
     .variants = ADD_VARIANTS,
     .nmse_f32 = CONF_ROUND_F32,
     .nmse_bf16 = CONF_ROUND_BF16},
    {.name = "squared_norm",
     .launch = launch_squared_norm,
     .shapes = SHAPES,
     .dtypes = 1u << MK_F32,
     .nmse_f32 = 1e-26},
};

CONF_TEST(cases)

/* The bound on BF16 outputs tells one rounding to nearest from a truncation and from two roundings. */
START_TEST(bf16_bound_tells_roundings_apart) {
  double error[3] = {0}, norm = 0;
  for (uint64_t i = 0; i <= CONF_FEW; i++) {
    float x = (float)test_normal(7, 1, i), once = mk_bf16_to_f32(mk_f32_to_bf16(x));
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= 0xFFFF0000u;
    float cut;
    memcpy(&cut, &bits, sizeof cut);
    float twice = mk_bf16_to_f32(mk_f32_to_bf16(mk_bf16_to_f32(mk_f32_to_bf16(x / 3)) * 3));
    error[0] += ((double)once - (double)x) * ((double)once - (double)x);
    error[1] += ((double)cut - (double)x) * ((double)cut - (double)x);
    error[2] += ((double)twice - (double)x) * ((double)twice - (double)x);
    norm += (double)x * (double)x;
  }
  ck_assert_msg(error[0] < CONF_ROUND_BF16 * norm, "nearest: NMSE %g", error[0] / norm);
  ck_assert_msg(error[1] > 2 * CONF_ROUND_BF16 * norm, "truncated: NMSE %g", error[1] / norm);
  ck_assert_msg(error[2] > CONF_ROUND_BF16 * norm, "rounded twice: NMSE %g", error[2] / norm);
}
END_TEST

START_TEST(refuses_unequal_counts) {
  test_bench b;
  test_bench_open_cpu(&b);
  mk_tensor four = test_random(&b, "four", TEST_IN, mk_tensor_1d(MK_F32, 4), 0, 1);
  mk_tensor five = test_output(&b, "five", mk_tensor_1d(MK_F32, 5));
  mk_tensor half = test_output(&b, "half", mk_tensor_1d(MK_BF16, 4));
  mk_add_args add = {.a = four, .b = four, .y = five};
  ck_assert_int_eq(mk_add(b.stream, &add), MK_ERR_ARG);
  mk_error_clear(&b.ctx);
  add = (mk_add_args){.a = four, .b = four, .y = half};
  ck_assert_int_eq(mk_add(b.stream, &add), MK_ERR_ARG);
  mk_error_clear(&b.ctx);
  mk_cast_args cast = {.x = four, .y = five};
  ck_assert_int_eq(mk_cast(b.stream, &cast), MK_ERR_ARG);
  mk_error_clear(&b.ctx);
  mk_scale_args scale = {.x = half, .factor = 2};
  ck_assert_int_eq(mk_scale(b.stream, &scale), MK_ERR_ARG);
  mk_error_clear(&b.ctx);
  mk_squared_norm_args norm = {.x = four, .out = four, .scale = 1};
  ck_assert_int_eq(mk_squared_norm(b.stream, &norm), MK_ERR_ARG);
  test_bench_close(&b);
}
END_TEST

/* Only a cast to the same dtype may work in place. */
START_TEST(cast_refuses_to_overwrite_its_input) {
  test_bench b;
  test_bench_open_cpu(&b);
  mk_cast_args a = {.x = test_random(&b, "x", TEST_INOUT, mk_tensor_1d(MK_F32, 8), 0, 1)};
  a.y = a.x;
  test_ok(&b, mk_cast(b.stream, &a), "cast in place");
  a.y.dtype = MK_BF16;
  ck_assert_int_eq(mk_cast(b.stream, &a), MK_ERR_ARG);
  ck_assert_str_eq(b.ctx.error.message, "cast: y lies over x; give it memory of its own");
  mk_error_clear(&b.ctx);
  test_bench_close(&b);
}
END_TEST

/* More than 2^24 ones: a plain FP32 sum stops counting there. */
START_TEST(squared_norm_is_exact_for_many_ones) {
  const mk_device_config config = {.name = "cpu", .threads = 2};
  test_bench b;
  double sum = 0;
  int64_t n = ((int64_t)1 << 24) + 100000;
  test_bench_open(&b, &config, 1, false);
  mk_squared_norm_args a = {.x = test_constant(&b, "x", TEST_IN, mk_tensor_1d(MK_F32, n), 1.0),
                            .out = test_constant(&b, "out", TEST_INOUT, mk_tensor_1d(MK_F64, 1), 0.0),
                            .scale = 1.0};
  test_ok(&b, mk_squared_norm(b.stream, &a), "squared_norm");
  test_read(&b, &a.out, &sum);
  ck_assert_msg(sum == (double)n, "sum of %lld ones: %.17g", (long long)n, sum);
  test_bench_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("elementwise");
  TCase *tcase = test_case(suite, "elementwise", 120);
  CONF_ADD(tcase, cases);
  tcase_add_test(tcase, bf16_bound_tells_roundings_apart);
  tcase_add_test(tcase, refuses_unequal_counts);
  tcase_add_test(tcase, cast_refuses_to_overwrite_its_input);
  tcase_add_test(tcase, squared_norm_is_exact_for_many_ones);
  return test_main(suite);
}
