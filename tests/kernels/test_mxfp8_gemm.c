/* GEMMs of MXFP8 operands: conformance over shapes and group patterns, equality with the same product of the values in
 * FP32, groups of any size, refused arguments. */
#include "tests/support/check_main.h"
#include "tests/support/conformance.h"

enum { PLAIN, ADDED, ACCUMULATED, VARIANTS, MAX_GROUPS = 5, SPARE_ROWS = 5 };

/* A random matrix or stack of them, quantised on the bench's device; its bytes are the same on every device. */
static mk_mxfp8 operand(test_bench *b, const char *name, const char *q, const char *scale, int64_t groups, int64_t n,
                        int64_t k) {
  mk_mxfp8 m = mk_mxfp8_shape(groups, n, k);
  mk_tensor x = groups > 0 ? mk_tensor_3d(MK_F32, groups, n, k) : mk_tensor_2d(MK_F32, n, k);
  mk_mxfp8_quantize_args a = {.x = test_random(b, name, TEST_IN, x, 0.1, 1),
                              .out = {test_output(b, q, m.q), test_output(b, scale, m.scale)}};
  test_ok(b, mk_mxfp8_quantize(b->stream, &a), "quantize");
  test_set_role(b, &a.out.q, TEST_IN);
  test_set_role(b, &a.out.scale, TEST_IN);
  return a.out;
}

/* dim: M, N, K */
static mk_status launch_linear(test_bench *b, const conf_point *p) {
  mk_mxfp8_linear_args a = {.a = operand(b, "a", "a_q", "a_scale", 0, p->dim[0], p->dim[2]),
                            .b = operand(b, "b", "b_q", "b_scale", 0, p->dim[1], p->dim[2])};
  mk_tensor shape = mk_tensor_2d(p->dtype, p->dim[0], p->dim[1]);
  if (p->variant == ADDED) a.add = test_random(b, "add", TEST_IN, shape, 0, 1);
  if (p->variant == ACCUMULATED) {
    a.add = test_random(b, "y", TEST_INOUT, shape, 0, 1);
    a.y = a.add;
  } else {
    a.y = test_output(b, "y", shape);
  }
  return mk_mxfp8_linear(b->stream, &a);
}

/* Failure case Q-05 has the groups [44,1,0,31,33]; others: none filled, all in one, more than a row tile. */
static const struct {
  int groups;
  int rows[MAX_GROUPS];
} patterns[] = {{5, {44, 1, 0, 31, 33}}, {3, {0, 0, 0}}, {2, {0, 70}}, {4, {1, 300, 16, 257}}, {1, {5}}};

static mk_tensor offsets_of(test_bench *b, int64_t pattern) {
  double values[MAX_GROUPS + 1] = {0};
  for (int e = 0; e < patterns[pattern].groups; e++)
    values[e + 1] = values[e] + patterns[pattern].rows[e];
  return test_values(b, "offsets", TEST_IN, mk_tensor_1d(MK_I32, patterns[pattern].groups + 1), values);
}

static int64_t total_rows(int64_t pattern) {
  int64_t sum = 0;
  for (int e = 0; e < patterns[pattern].groups; e++)
    sum += patterns[pattern].rows[e];
  return sum;
}

/* dim: pattern, N, K. Rows beyond the groups hold NaN. */
static mk_status launch_grouped(test_bench *b, const conf_point *p) {
  int64_t rows = total_rows(p->dim[0]), n = p->dim[1], k = p->dim[2];
  mk_mxfp8_grouped_args a = {.a = operand(b, "a", "a_q", "a_scale", 0, rows + SPARE_ROWS, k),
                             .b = operand(b, "b", "b_q", "b_scale", patterns[p->dim[0]].groups, n, k)};
  for (int64_t i = rows * a.a.scale.dim[1]; i < mk_tensor_count(&a.a.scale); i++)
    test_write_one(b, &a.a.scale, i, 255);
  a.offsets = offsets_of(b, p->dim[0]);
  a.y = test_output(b, "y", mk_tensor_2d(p->dtype, rows + SPARE_ROWS, n));
  return mk_mxfp8_grouped(b->stream, &a);
}

static const conf_case cases[] = {
    {.name = "mxfp8_linear",
     .launch = launch_linear,
     .shapes =
         {{1, 1, 1}, {33, 40, 64}, {5, 3, 33}, {70, 130, 96}, {300, 70, 320}, {31, 600, 1100}, {0, 8, 32}, {3, 5, 0}},
     .n_shapes = 8,
     .variants = VARIANTS,
     .nmse_f32 = 1e-12,
     .nmse_bf16 = CONF_ROUND_BF16},
    {.name = "mxfp8_grouped",
     .launch = launch_grouped,
     .shapes = {{0, 40, 64}, {1, 8, 32}, {2, 33, 33}, {3, 130, 320}, {4, 520, 1056}},
     .n_shapes = 5,
     .nmse_f32 = 1e-12,
     .nmse_bf16 = CONF_ROUND_BF16},
};

CONF_TEST(cases)

/* The same product over the values in FP32 differs by the order of its sums only. */
START_TEST(equals_values_in_fp32) {
  enum { M = 30, N = 70, K = 320 };
  const mk_device_config config = {.name = "cpu", .threads = 2};
  static double got[M * N], want[M * N];
  test_bench b;
  test_bench_open(&b, &config, 5, false);
  mk_mxfp8_linear_args a = {.a = operand(&b, "a", "a_q", "a_scale", 0, M, K),
                            .b = operand(&b, "b", "b_q", "b_scale", 0, N, K),
                            .y = test_output(&b, "y", mk_tensor_2d(MK_F32, M, N))};
  mk_linear_fwd_args plain = {.x = test_output(&b, "x", mk_tensor_2d(MK_F32, M, K)),
                              .w = test_output(&b, "w", mk_tensor_2d(MK_F32, N, K)),
                              .y = test_output(&b, "plain", mk_tensor_2d(MK_F32, M, N))};
  test_ok(&b, mk_mxfp8_dequantize(b.stream, &(mk_mxfp8_dequantize_args){.x = a.a, .y = plain.x}), "dequantize a");
  test_ok(&b, mk_mxfp8_dequantize(b.stream, &(mk_mxfp8_dequantize_args){.x = a.b, .y = plain.w}), "dequantize b");
  test_ok(&b, mk_mxfp8_linear(b.stream, &a), "mxfp8_linear");
  test_ok(&b, mk_linear_fwd(b.stream, &plain), "linear_fwd");
  test_read(&b, &a.y, got);
  test_read(&b, &plain.y, want);
  for (int i = 0; i < M * N; i++) {
    double diff = got[i] - want[i];
    ck_assert_msg(diff < 1e-3 && diff > -1e-3, "[%d]: expected %.9g, got %.9g", i, want[i], got[i]);
  }
  test_bench_close(&b);
}
END_TEST

START_TEST(refused) {
  const mk_device_config config = {.name = "cpu"};
  test_bench b;
  test_bench_open(&b, &config, 5, false);
  mk_mxfp8_linear_args bad = {.a = operand(&b, "a", "a_q", "a_scale", 0, 4, 64),
                              .b = operand(&b, "b", "b_q", "b_scale", 0, 3, 32),
                              .y = test_output(&b, "y", mk_tensor_2d(MK_F32, 4, 3))};
  ck_assert_int_eq(mk_mxfp8_linear(b.stream, &bad), MK_ERR_ARG);
  ck_assert_ptr_nonnull(strstr(b.ctx.error.message, "mxfp8_linear"));
  mk_error_clear(&b.ctx);
  test_bench_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("mxfp8_gemm");
  TCase *tcase = test_case(suite, "mxfp8_gemm", 300);
  CONF_ADD(tcase, cases);
  tcase_add_test(tcase, equals_values_in_fp32);
  tcase_add_test(tcase, refused);
  return test_main(suite);
}
