/* Permute: conformance with drops, sums and aliases, exact integers, gradients, offsets beyond 32 bits. */
#include <sys/mman.h>

#include "tests/kernels/route_rows.h"
#include "tests/kernels/step_tensors.h"
#include "tests/support/check_main.h"
#include "tests/support/conformance.h"
#include "tests/support/gradient.h"

/* dim: tokens, top-k, columns; variants of the forward: the drop rules */
static mk_status launch_fwd(test_bench *b, const conf_point *p) {
  int64_t rows = spread_rows(p->dim[0], p->dim[1]);
  mk_permute_fwd_args a = {.x = test_random(b, "x", TEST_IN, mk_tensor_2d(p->dtype, p->dim[0], p->dim[2]), 0, 1),
                           .map = spread_map(b, p->dim[0], p->dim[1], (drop_rule)p->variant),
                           .out = test_output(b, "out", mk_tensor_2d(p->dtype, rows, p->dim[2]))};
  return mk_permute_fwd(b->stream, &a);
}

static mk_permute_bwd_args make_bwd(test_bench *b, const conf_point *p, mk_tensor dout, mk_tensor add) {
  mk_permute_bwd_args a = {.dout = dout, .map = spread_map(b, p->dim[0], p->dim[1], (drop_rule)(p->variant / ADDS))};
  a.dx = sum_output(b, "dx", (add_rule)(p->variant % ADDS), add, &a.add);
  return a;
}

static mk_status launch_bwd(test_bench *b, const conf_point *p) {
  mk_tensor rows = mk_tensor_2d(p->dtype, spread_rows(p->dim[0], p->dim[1]), p->dim[2]);
  mk_tensor tokens = mk_tensor_2d(p->dtype, p->dim[0], p->dim[2]);
  mk_permute_bwd_args a =
      make_bwd(b, p, test_random(b, "dout", TEST_IN, rows, 1.0, 1.0), test_random(b, "add", TEST_IN, tokens, 0.5, 1.0));
  return mk_permute_bwd(b->stream, &a);
}

/* Small integers in floats: every sum is exact in every dtype, so any order or rounding fault shows. */
static mk_status launch_bwd_exact(test_bench *b, const conf_point *point) {
  conf_point some = *point, *p = &some;
  some.variant = DROP_SOME * ADDS + ADD;
  mk_tensor rows = mk_tensor_2d(p->dtype, spread_rows(p->dim[0], p->dim[1]), p->dim[2]);
  mk_tensor tokens = mk_tensor_2d(p->dtype, p->dim[0], p->dim[2]);
  mk_permute_bwd_args a =
      make_bwd(b, p, test_integers(b, "dout", TEST_IN, rows, -9, 9), test_integers(b, "add", TEST_IN, tokens, -9, 9));
  return mk_permute_bwd(b->stream, &a);
}

#define SHAPES {{0, 2, 8}, {1, 1, 1}, {1, 8, 67}, {33, 3, 513}, {40, 4, 1024}, {5, 6, 2500}}, .n_shapes = 6

static const conf_case cases[] = {
    {.name = "permute_fwd", .launch = launch_fwd, .shapes = SHAPES, .variants = 3},
    {.name = "permute_bwd",
     .launch = launch_bwd,
     .shapes = SHAPES,
     .variants = 3 * ADDS,
     .nmse_f32 = 1e-14,
     .nmse_bf16 = CONF_ROUND_BF16},
    {.name = "permute_bwd exact", .launch = launch_bwd_exact, .shapes = SHAPES},
};

CONF_TEST(cases)

GRAD_CALLS(permute)

static void build(grad_check *g) {
  permute_state *s = grad_state(g);
  test_bench *b = &g->bench;
  int64_t rows = spread_rows(g->dim[0], g->dim[1]);
  mk_tensor narrow = mk_tensor_2d(MK_F64, g->dim[0], g->dim[2]), wide = mk_tensor_2d(MK_F64, rows, g->dim[2]);
  s->fwd.x = test_random(b, "x", TEST_IN, narrow, 0, 1);
  s->fwd.map = spread_map(b, g->dim[0], g->dim[1], (drop_rule)g->variant);
  s->fwd.out = test_constant(b, "out", TEST_OUT, wide, 0);
  s->bwd.dout = test_random(b, "dout", TEST_IN, wide, 0, 1);
  s->bwd.map = s->fwd.map;
  s->bwd.dx = test_output(b, "dx", narrow);
  grad_input(g, "x", s->fwd.x, s->bwd.dx);
  grad_output(g, "out", s->fwd.out, s->bwd.dout);
}

static const grad_case grads[] = {
    {GRAD_OP(permute, build), .shapes = {{5, 3, 4}, {1, 1, 1}}, .n_shapes = 2, .variants = 3}};

GRAD_TEST(grads)

/* A buffer of 300,000 x 7,168 BF16 whose pages appear when they are touched. */
static mk_tensor sparse_buffer(void) {
  mk_tensor t = mk_tensor_2d(MK_BF16, 300000, 7168);
  t.data = mmap(NULL, mk_tensor_bytes(&t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ck_assert_msg(t.data != MAP_FAILED, "no address space for %zu bytes", mk_tensor_bytes(&t));
  return t;
}

START_TEST(p01_row_offsets_are_64_bit) {
  const int64_t element = INT64_C(2147483648); /* row 299,593, column 1,024 */
  const int32_t map[] = {299593, 299594, 299999};
  const double ones[] = {1, 1, 1};
  mk_device_config config = case_device(_i);
  mk_tensor far = sparse_buffer(), row = mk_tensor_2d(MK_BF16, 1, 7168), routes = mk_tensor_2d(MK_F32, 1, 3);
  double x[7168], y[7168], dw[3];
  test_bench b;
  test_bench_open(&b, &config, 1, false);
  mk_permute_fwd_args p = {.x = test_integers(&b, "x", TEST_IN, row, 1, 99),
                           .map = test_bytes(&b, "map", TEST_IN, mk_tensor_2d(MK_I32, 1, 3), map),
                           .out = far};
  test_ok(&b, mk_permute_fwd(b.stream, &p), "permute_fwd");
  test_read(&b, &p.x, x);
  const mk_bf16 *values = far.data;
  ck_assert_double_eq(mk_bf16_to_f32(values[element]), x[1024]);
  ck_assert_double_eq(mk_bf16_to_f32(values[element + 7168]), x[1024]);
  ck_assert_double_eq(mk_bf16_to_f32(values[INT64_C(300000) * 7168 - 1]), x[7167]);
  mk_combine_fwd_args c = {.rows = far, .map = p.map, .y = test_output(&b, "y", row)};
  c.weights = test_values(&b, "weights", TEST_IN, routes, ones);
  test_ok(&b, mk_combine_fwd(b.stream, &c), "combine_fwd");
  test_read(&b, &c.y, y);
  mk_combine_bwd_args d = {.dy = p.x, .rows = far, .map = p.map, .weights = c.weights, .drows = far};
  d.dweights = test_output(&b, "dweights", routes);
  test_ok(&b, mk_combine_bwd(b.stream, &d), "combine_bwd");
  test_read(&b, &d.dweights, dw);
  double dot = 0;
  for (int i = 0; i < 7168; i++) {
    ck_assert_double_eq(y[i], mk_bf16_to_f32(mk_f32_to_bf16((float)(3 * x[i]))));
    dot += x[i] * x[i];
  }
  for (int k = 0; k < 3; k++)
    ck_assert_double_eq_tol(dw[k], dot, 1e-5 * dot);
  munmap(far.data, mk_tensor_bytes(&far));
  test_bench_close(&b);
}
END_TEST

START_TEST(p02_expert_weight_offsets_are_64_bit) {
  mk_tensor far = sparse_buffer(), experts = mk_tensor_3d(MK_U8, 256, 4200, 3500);
  experts.data = far.data;
  mk_tensor last = mk_tensor_rows(&experts, 255, 1), slice = mk_tensor_slice(&experts, 255 * INT64_C(14700000), 1);
  ck_assert_int_eq((char *)last.data - (char *)experts.data, INT64_C(3748500000));
  ck_assert_int_eq((char *)slice.data - (char *)experts.data, INT64_C(3748500000));
  munmap(far.data, mk_tensor_bytes(&far));
}
END_TEST

START_TEST(refuses_rows_beyond_the_buffer) {
  const int32_t map[] = {0, 4};
  mk_device_config config = case_device(_i);
  test_bench b;
  test_bench_open(&b, &config, 1, false);
  mk_permute_fwd_args p = {.x = test_integers(&b, "x", TEST_IN, mk_tensor_2d(MK_F32, 2, 3), 1, 9),
                           .map = test_bytes(&b, "map", TEST_IN, mk_tensor_2d(MK_I32, 2, 1), map),
                           .out = test_output(&b, "out", mk_tensor_2d(MK_F32, 4, 3))};
  ck_assert_int_eq(mk_permute_fwd(b.stream, &p), MK_ERR_ARG);
  ck_assert_str_eq(b.ctx.error.message, "permute_fwd: entry 1 of map is 4, expected in [-2147483648, 4)");
  mk_error_clear(&b.ctx);
  mk_permute_bwd_args d = {.dout = p.out, .map = p.map, .dx = p.x};
  ck_assert_int_eq(mk_permute_bwd(b.stream, &d), MK_ERR_ARG);
  ck_assert_str_eq(b.ctx.error.message, "permute_bwd: entry 1 of map is 4, expected in [-2147483648, 4)");
  mk_error_clear(&b.ctx);
  test_bench_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("permute");
  TCase *tcase = test_case(suite, "permute", 240);
  CONF_ADD(tcase, cases);
  GRAD_ADD(tcase, grads);
  tcase_add_loop_test(tcase, p01_row_offsets_are_64_bit, 0, CASE_DEVICES);
  tcase_add_test(tcase, p02_expert_weight_offsets_are_64_bit);
  tcase_add_loop_test(tcase, refuses_rows_beyond_the_buffer, 0, CASE_DEVICES);
  return test_main(suite);
}
