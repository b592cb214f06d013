/* Combine: conformance with drops, sums and aliases, exact integers, gradients, determinism. */
#include "tests/kernels/route_rows.h"
#include "tests/kernels/step_tensors.h"
#include "tests/support/check_main.h"
#include "tests/support/conformance.h"
#include "tests/support/gradient.h"

/* dim: tokens, top-k, columns; variant: drop rule * ADDS + what is added */
static mk_status finish_fwd(test_bench *b, const conf_point *p, mk_combine_fwd_args *a, mk_tensor add) {
  a->map = spread_map(b, p->dim[0], p->dim[1], (drop_rule)(p->variant / ADDS));
  a->y = sum_output(b, "y", (add_rule)(p->variant % ADDS), add, &a->add);
  return mk_combine_fwd(b->stream, a);
}

static mk_status launch_fwd(test_bench *b, const conf_point *p) {
  mk_tensor rows = mk_tensor_2d(p->dtype, spread_rows(p->dim[0], p->dim[1]), p->dim[2]);
  mk_tensor tokens = mk_tensor_2d(p->dtype, p->dim[0], p->dim[2]), routes = mk_tensor_2d(MK_F32, p->dim[0], p->dim[1]);
  mk_combine_fwd_args a = {.rows = test_random(b, "rows", TEST_IN, rows, 0.5, 1.0),
                           .weights = test_random(b, "weights", TEST_IN, routes, 0.5, 0.3)};
  return finish_fwd(b, p, &a, test_random(b, "add", TEST_IN, tokens, 0.5, 1.0));
}

/* Small integers in floats: exact in every dtype. */
static mk_status launch_fwd_exact(test_bench *b, const conf_point *point) {
  conf_point some = *point, *p = &some;
  some.variant = DROP_SOME * ADDS + ADD;
  mk_tensor rows = mk_tensor_2d(p->dtype, spread_rows(p->dim[0], p->dim[1]), p->dim[2]);
  mk_tensor tokens = mk_tensor_2d(p->dtype, p->dim[0], p->dim[2]), routes = mk_tensor_2d(MK_F32, p->dim[0], p->dim[1]);
  mk_combine_fwd_args a = {.rows = test_integers(b, "rows", TEST_IN, rows, -5, 5),
                           .weights = test_integers(b, "weights", TEST_IN, routes, 0, 4)};
  return finish_fwd(b, p, &a, test_integers(b, "add", TEST_IN, tokens, -9, 9));
}

/* f32 weights that BF16 holds exactly: the backward rounds them to the rows' dtype, which the FP64 run must share. */
static mk_tensor exact_weights(test_bench *b, mk_tensor shape) {
  return test_integers(b, "weights", TEST_IN, shape, 1, 255);
}

/* Variant: drop rule, then the same with drows in the memory of rows. */
static mk_status launch_bwd(test_bench *b, const conf_point *p) {
  mk_tensor rows = mk_tensor_2d(p->dtype, spread_rows(p->dim[0], p->dim[1]), p->dim[2]);
  mk_tensor tokens = mk_tensor_2d(p->dtype, p->dim[0], p->dim[2]), routes = mk_tensor_2d(MK_F32, p->dim[0], p->dim[1]);
  mk_combine_bwd_args a = {.dy = test_random(b, "dy", TEST_IN, tokens, 0.2, 1.0),
                           .rows = test_random(b, "rows", TEST_IN, rows, 0.5, 1.0),
                           .map = spread_map(b, p->dim[0], p->dim[1], (drop_rule)(p->variant % 3)),
                           .weights = exact_weights(b, routes),
                           .dweights = test_output(b, "dweights", routes)};
  a.drows = test_output_from(b, "drows", p->variant >= 3, &a.rows);
  return mk_combine_bwd(b->stream, &a);
}

#define SHAPES {{0, 2, 8}, {1, 1, 1}, {1, 8, 67}, {33, 3, 513}, {40, 4, 1024}, {5, 6, 2500}}, .n_shapes = 6

static const conf_case cases[] = {
    {.name = "combine_fwd",
     .launch = launch_fwd,
     .shapes = SHAPES,
     .variants = 3 * ADDS,
     .nmse_f32 = 1e-14,
     .nmse_bf16 = CONF_ROUND_BF16},
    {.name = "combine_fwd exact", .launch = launch_fwd_exact, .shapes = SHAPES},
    {.name = "combine_bwd",
     .launch = launch_bwd,
     .shapes = SHAPES,
     .variants = 6,
     .nmse_f32 = 1e-12,
     .nmse_bf16 = CONF_ROUND_BF16},
};

CONF_TEST(cases)

GRAD_CALLS(combine)

static void build(grad_check *g) {
  combine_state *s = grad_state(g);
  test_bench *b = &g->bench;
  mk_tensor wide = mk_tensor_2d(MK_F64, spread_rows(g->dim[0], g->dim[1]), g->dim[2]);
  mk_tensor narrow = mk_tensor_2d(MK_F64, g->dim[0], g->dim[2]), routes = mk_tensor_2d(MK_F64, g->dim[0], g->dim[1]);
  s->fwd.rows = test_random(b, "rows", TEST_IN, wide, 0, 1);
  s->fwd.map = spread_map(b, g->dim[0], g->dim[1], (drop_rule)g->variant);
  s->fwd.weights = test_random(b, "weights", TEST_IN, routes, 0.5, 0.3);
  s->fwd.add = test_random(b, "add", TEST_IN, narrow, 0, 1);
  s->fwd.y = test_output(b, "y", narrow);
  s->bwd.dy = test_random(b, "dy", TEST_IN, narrow, 0, 1);
  s->bwd.rows = s->fwd.rows;
  s->bwd.map = s->fwd.map;
  s->bwd.weights = s->fwd.weights;
  s->bwd.drows = test_constant(b, "drows", TEST_OUT, wide, 0);
  s->bwd.dweights = test_output(b, "dweights", routes);
  grad_input(g, "rows", s->fwd.rows, s->bwd.drows);
  grad_input(g, "weights", s->fwd.weights, s->bwd.dweights);
  grad_output(g, "y", s->fwd.y, s->bwd.dy);
}

static const grad_case grads[] = {
    {GRAD_OP(combine, build), .shapes = {{5, 3, 4}, {1, 1, 1}}, .n_shapes = 2, .variants = 3}};

GRAD_TEST(grads)

/* BF16: the weight is rounded to BF16 before the product with dy, as Olmo-core 3.0.0 does. */
START_TEST(backward_rounds_the_weight_first) {
  const double dy = 3.0, weight = 1.0 + 0x1p-9 + 0x1p-8, row = 1.0;
  const int32_t map = 0;
  mk_device_config config = case_device(_i);
  test_bench b;
  double got;
  test_bench_open(&b, &config, 1, false);
  mk_tensor one = mk_tensor_2d(MK_BF16, 1, 1), route = mk_tensor_2d(MK_F32, 1, 1);
  mk_combine_bwd_args a = {.dy = test_values(&b, "dy", TEST_IN, one, &dy),
                           .rows = test_values(&b, "rows", TEST_IN, one, &row),
                           .map = test_bytes(&b, "map", TEST_IN, mk_tensor_2d(MK_I32, 1, 1), &map),
                           .weights = test_values(&b, "weights", TEST_IN, route, &weight),
                           .drows = test_output(&b, "drows", one),
                           .dweights = test_output(&b, "dweights", route)};
  test_ok(&b, mk_combine_bwd(b.stream, &a), "combine_bwd");
  test_read(&b, &a.drows, &got);
  /* 1.005859375 rounds to 1.0078125, times 3 is 3.0234375, which rounds to 3.03125; unrounded 3.017578 gives 3.015625
   */
  ck_assert_double_eq(got, 3.03125);
  test_bench_close(&b);
}
END_TEST

START_TEST(p12_same_bits_in_100_runs) {
  enum { T = 70, K = 4, D = 1024, RUNS = 100 };
  const mk_device_config config = {.name = "cpu", .threads = 2};
  static mk_bf16 first[T * D], again[T * D];
  float dw_first[T * K], dw_again[T * K];
  test_bench b;
  test_bench_open(&b, &config, 3, false);
  mk_tensor rows = mk_tensor_2d(MK_BF16, spread_rows(T, K), D), routes = mk_tensor_2d(MK_F32, T, K);
  mk_combine_fwd_args f = {.rows = test_random(&b, "rows", TEST_IN, rows, 0, 1),
                           .map = spread_map(&b, T, K, DROP_SOME),
                           .weights = test_random(&b, "weights", TEST_IN, routes, 0.5, 0.3),
                           .y = test_output(&b, "y", mk_tensor_2d(MK_BF16, T, D))};
  mk_combine_bwd_args a = {.dy = f.y, .rows = f.rows, .map = f.map, .weights = f.weights};
  a.drows = test_output(&b, "drows", rows);
  a.dweights = test_output(&b, "dweights", routes);
  for (int run = 0; run < RUNS; run++) {
    test_ok(&b, mk_combine_fwd(b.stream, &f), "combine_fwd");
    test_ok(&b, mk_combine_bwd(b.stream, &a), "combine_bwd");
    test_read_bytes(&b, &f.y, again);
    test_read_bytes(&b, &a.dweights, dw_again);
    if (run == 0) memcpy(first, again, sizeof first);
    if (run == 0) memcpy(dw_first, dw_again, sizeof dw_first);
    ck_assert_msg(memcmp(first, again, sizeof first) == 0, "run %d: y differs from the first run", run);
    ck_assert_msg(memcmp(dw_first, dw_again, sizeof dw_first) == 0, "run %d: dweights differ from the first run", run);
  }
  test_bench_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("combine");
  TCase *tcase = test_case(suite, "combine", 240);
  CONF_ADD(tcase, cases);
  GRAD_ADD(tcase, grads);
  tcase_add_loop_test(tcase, backward_rounds_the_weight_first, 0, CASE_DEVICES);
  tcase_add_test(tcase, p12_same_bits_in_100_runs);
  return test_main(suite);
}
