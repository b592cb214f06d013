/* SwiGLU: conformance (with and without a row bound, in place), gradients, refused arguments. */
#include "tests/support/check_main.h"
#include "tests/support/conformance.h"
#include "tests/support/gradient.h"

enum { WITHOUT_ROWS, WITH_ROWS, IN_PLACE, VARIANTS };

/* dim: rows, width, valid rows */
static mk_tensor rows_tensor(test_bench *b, const conf_point *p) {
  double valid = (double)p->dim[2];
  return test_values(b, "rows", TEST_IN, mk_tensor_1d(MK_I32, 1), &valid);
}

static mk_tensor packed(test_bench *b, const conf_point *p) {
  mk_tensor x = test_random(b, "x", TEST_IN, mk_tensor_2d(p->dtype, p->dim[0], 2 * p->dim[1]), 0.1, 2.0);
  if (p->variant == WITH_ROWS) test_poison_rows(b, &x, p->dim[2]);
  return x;
}

static mk_status launch_fwd(test_bench *b, const conf_point *p) {
  mk_swiglu_fwd_args a = {.x = packed(b, p), .y = test_output(b, "y", mk_tensor_2d(p->dtype, p->dim[0], p->dim[1]))};
  if (p->variant == WITH_ROWS) a.rows = rows_tensor(b, p);
  return mk_swiglu_fwd(b->stream, &a);
}

static mk_status launch_bwd(test_bench *b, const conf_point *p) {
  mk_swiglu_bwd_args a = {.x = packed(b, p)};
  a.dy = test_random(b, "dy", TEST_IN, mk_tensor_2d(p->dtype, p->dim[0], p->dim[1]), 0.0, 1.0);
  if (p->variant == WITH_ROWS) {
    test_poison_rows(b, &a.dy, p->dim[2]);
    a.rows = rows_tensor(b, p);
  }
  a.dx = test_output_from(b, "dx", p->variant == IN_PLACE, &a.x);
  return mk_swiglu_bwd(b->stream, &a);
}

#define SHAPES {{0, 8, 0}, {1, 1, 1}, {1, 67, 0}, {5, 33, 3}, {40, 512, 17}, {3, 9001, 2}}, .n_shapes = 6

static const conf_case cases[] = {
    {.name = "swiglu_fwd",
     .launch = launch_fwd,
     .shapes = SHAPES,
     .variants = 2,
     .nmse_f32 = 1e-13,
     .nmse_bf16 = CONF_ROUND_BF16},
    {.name = "swiglu_bwd",
     .launch = launch_bwd,
     .shapes = SHAPES,
     .variants = VARIANTS,
     .nmse_f32 = 1e-13,
     .nmse_bf16 = CONF_ROUND_BF16},
};

CONF_TEST(cases)

GRAD_CALLS(swiglu)

static void build(grad_check *g) {
  swiglu_state *s = grad_state(g);
  mk_tensor wide = mk_tensor_2d(MK_F64, g->dim[0], 2 * g->dim[1]), narrow = mk_tensor_2d(MK_F64, g->dim[0], g->dim[1]);
  s->fwd.x = test_random(&g->bench, "x", TEST_IN, wide, 0.0, 1.5);
  s->fwd.y = test_output(&g->bench, "y", narrow);
  s->bwd.x = s->fwd.x;
  s->bwd.dy = test_random(&g->bench, "dy", TEST_IN, narrow, 0.0, 1.0);
  s->bwd.dx = test_output(&g->bench, "dx", wide);
  grad_input(g, "x", s->fwd.x, s->bwd.dx);
  grad_output(g, "y", s->fwd.y, s->bwd.dy);
}

static const grad_case grads[] = {{GRAD_OP(swiglu, build), .shapes = {{3, 5}, {1, 1}}, .n_shapes = 2}};

GRAD_TEST(grads)

START_TEST(refuses_wrong_width) {
  test_bench b;
  test_bench_open_cpu(&b);
  mk_swiglu_fwd_args a = {.x = test_random(&b, "x", TEST_IN, mk_tensor_2d(MK_F32, 4, 9), 0, 1),
                          .y = test_output(&b, "y", mk_tensor_2d(MK_F32, 4, 5))};
  ck_assert_int_eq(mk_swiglu_fwd(b.stream, &a), MK_ERR_ARG);
  ck_assert_str_eq(b.ctx.error.message, "swiglu_fwd: x is f32[4,9], expected f32[4,10] (-1: any)");
  ck_assert_int_eq(b.dev->launches, 0);
  test_bench_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("swiglu");
  TCase *tcase = test_case(suite, "swiglu", 120);
  CONF_ADD(tcase, cases);
  GRAD_ADD(tcase, grads);
  tcase_add_test(tcase, refuses_wrong_width);
  return test_main(suite);
}
