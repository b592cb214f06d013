/* Rows times their weights: conformance (with and without a row bound, in place), gradients, refused arguments. */
#include "tests/support/check_main.h"
#include "tests/support/conformance.h"
#include "tests/support/gradient.h"

enum { WITHOUT_ROWS, WITH_ROWS, IN_PLACE, VARIANTS };

static mk_dtype weight_dtype(const conf_point *p) { return p->dtype == MK_F64 ? MK_F64 : MK_F32; }

/* dim: rows, width, valid rows */
static mk_tensor rows_tensor(test_bench *b, const conf_point *p) {
  double valid = (double)p->dim[2];
  return p->variant == WITH_ROWS ? test_values(b, "rows", TEST_IN, mk_tensor_1d(MK_I32, 1), &valid) : (mk_tensor){0};
}

static mk_tensor matrix(test_bench *b, const conf_point *p, const char *name) {
  mk_tensor x = test_random(b, name, TEST_IN, mk_tensor_2d(p->dtype, p->dim[0], p->dim[1]), 0.1, 2.0);
  if (p->variant == WITH_ROWS) test_poison_rows(b, &x, p->dim[2]);
  return x;
}

static mk_tensor weights(test_bench *b, const conf_point *p) {
  mk_tensor w = test_random(b, "w", TEST_IN, mk_tensor_2d(weight_dtype(p), p->dim[0], 1), 0.3, 0.5);
  if (p->variant == WITH_ROWS) test_poison_rows(b, &w, p->dim[2]);
  return w;
}

static mk_status launch_fwd(test_bench *b, const conf_point *p) {
  mk_row_scale_fwd_args a = {.x = matrix(b, p, "x"), .w = weights(b, p), .rows = rows_tensor(b, p)};
  a.y = test_output_from(b, "y", p->variant == IN_PLACE, &a.x);
  return mk_row_scale_fwd(b->stream, &a);
}

static mk_status launch_bwd(test_bench *b, const conf_point *p) {
  mk_row_scale_bwd_args a = {.dy = matrix(b, p, "dy"), .x = matrix(b, p, "x"), .w = weights(b, p)};
  a.rows = rows_tensor(b, p);
  a.dx = test_output_from(b, "dx", p->variant == IN_PLACE, &a.dy);
  a.dw = test_output(b, "dw", mk_tensor_2d(weight_dtype(p), p->dim[0], 1));
  return mk_row_scale_bwd(b->stream, &a);
}

#define SHAPES {{0, 8, 0}, {1, 1, 1}, {1, 67, 0}, {5, 33, 3}, {40, 512, 17}, {3, 9001, 2}}, .n_shapes = 6

static const conf_case cases[] = {
    {.name = "row_scale_fwd",
     .launch = launch_fwd,
     .shapes = SHAPES,
     .variants = VARIANTS,
     .nmse_f32 = CONF_ROUND_F32,
     .nmse_bf16 = CONF_ROUND_BF16},
    {.name = "row_scale_bwd",
     .launch = launch_bwd,
     .shapes = SHAPES,
     .variants = VARIANTS,
     .nmse_f32 = 1e-12,
     .nmse_bf16 = CONF_ROUND_BF16},
};

CONF_TEST(cases)

GRAD_CALLS(row_scale)

static void build(grad_check *g) {
  row_scale_state *s = grad_state(g);
  mk_tensor shape = mk_tensor_2d(MK_F64, g->dim[0], g->dim[1]), column = mk_tensor_1d(MK_F64, g->dim[0]);
  s->fwd.x = test_random(&g->bench, "x", TEST_IN, shape, 0.0, 1.5);
  s->fwd.w = test_random(&g->bench, "w", TEST_IN, column, 0.0, 1.0);
  s->fwd.y = test_output(&g->bench, "y", shape);
  s->bwd.x = s->fwd.x;
  s->bwd.w = s->fwd.w;
  s->bwd.dy = test_random(&g->bench, "dy", TEST_IN, shape, 0.0, 1.0);
  s->bwd.dx = test_output(&g->bench, "dx", shape);
  s->bwd.dw = test_output(&g->bench, "dw", column);
  grad_input(g, "x", s->fwd.x, s->bwd.dx);
  grad_input(g, "w", s->fwd.w, s->bwd.dw);
  grad_output(g, "y", s->fwd.y, s->bwd.dy);
}

static const grad_case grads[] = {{GRAD_OP(row_scale, build), .shapes = {{3, 5}, {1, 1}}, .n_shapes = 2}};

GRAD_TEST(grads)

START_TEST(refuses_a_missing_weight) {
  test_bench b;
  test_bench_open_cpu(&b);
  mk_row_scale_fwd_args a = {.x = test_random(&b, "x", TEST_IN, mk_tensor_2d(MK_F32, 4, 9), 0, 1),
                             .w = test_random(&b, "w", TEST_IN, mk_tensor_1d(MK_F32, 3), 0, 1),
                             .y = test_output(&b, "y", mk_tensor_2d(MK_F32, 4, 9))};
  ck_assert_int_eq(mk_row_scale_fwd(b.stream, &a), MK_ERR_ARG);
  ck_assert_ptr_nonnull(strstr(b.ctx.error.message, "row_scale_fwd: w"));
  ck_assert_int_eq(b.dev->launches, 0);
  test_bench_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("row_scale");
  TCase *tcase = test_case(suite, "row_scale", 120);
  CONF_ADD(tcase, cases);
  GRAD_ADD(tcase, grads);
  tcase_add_test(tcase, refuses_a_missing_weight);
  return test_main(suite);
}
