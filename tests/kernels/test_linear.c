/* Linear layers: conformance of the three GEMMs in every mix of dtypes and both kernels, exact integers, gradients. */
#include "tests/kernels/gemm_parts.h"
#include "tests/support/check_main.h"

enum { PLAIN, PACKED, ADD, ADD_IN_PLACE, OVERWRITE = PACKED }; /* OVERWRITE: of wgrad, over a dw of NaN */

static mk_tensor activations(test_bench *b, const char *name, mk_dtype dtype, int64_t rows, int64_t cols) {
  return test_random(b, name, TEST_IN, mk_tensor_2d(dtype, rows, cols), 0.1, 1.0);
}

/* dim: T, N, K */
static mk_status forward(test_bench *b, const conf_point *p, mk_dtype x, mk_dtype w, mk_dtype y) {
  mk_linear_fwd_args a = {.x = activations(b, "x", x, p->dim[0], p->dim[2])};
  a.w = activations(b, "w", w, p->dim[1], p->dim[2]);
  if (p->variant == PACKED) a.packed = packed_weights(b, &a.w);
  a.y = test_output(b, "y", mk_tensor_2d(y, p->dim[0], p->dim[1]));
  return mk_linear_fwd(b->stream, &a);
}

static mk_status fwd(test_bench *b, const conf_point *p) { return forward(b, p, p->dtype, p->dtype, p->dtype); }

static mk_status fwd_f32_out(test_bench *b, const conf_point *p) { return forward(b, p, p->dtype, p->dtype, MK_F32); }

static mk_status fwd_f32_weights(test_bench *b, const conf_point *p) { return forward(b, p, p->dtype, MK_F32, MK_F32); }

static mk_status fwd_f32_inputs(test_bench *b, const conf_point *p) {
  return forward(b, p, MK_F32, p->dtype, p->dtype);
}

static mk_status dgrad(test_bench *b, const conf_point *p) {
  mk_linear_dgrad_args a = {.dy = activations(b, "dy", p->dtype, p->dim[0], p->dim[1])};
  a.w = activations(b, "w", p->dtype, p->dim[1], p->dim[2]);
  if (p->variant == PACKED) a.packed = packed_weights(b, &a.w);
  mk_tensor add = test_random(b, "add", TEST_IN, mk_tensor_2d(p->dtype, p->dim[0], p->dim[2]), 0, 3);
  if (p->variant >= ADD) a.add = add;
  a.dx = test_output_from(b, "dx", p->variant == ADD_IN_PLACE, &add);
  return mk_linear_dgrad(b->stream, &a);
}

static mk_status weight_gradient(test_bench *b, const conf_point *p, mk_dtype dy, mk_dtype x) {
  mk_linear_wgrad_args a = {.dy = activations(b, "dy", dy, p->dim[0], p->dim[1])};
  a.x = activations(b, "x", x, p->dim[0], p->dim[2]);
  a.overwrite = p->variant == OVERWRITE;
  mk_tensor shape = mk_tensor_2d(MK_F32, p->dim[1], p->dim[2]);
  a.dw = a.overwrite ? test_output(b, "dw", shape) : test_random(b, "dw", TEST_INOUT, shape, 0, 1);
  return mk_linear_wgrad(b->stream, &a);
}

static mk_status wgrad(test_bench *b, const conf_point *p) { return weight_gradient(b, p, p->dtype, p->dtype); }

static mk_status wgrad_mixed(test_bench *b, const conf_point *p) { return weight_gradient(b, p, MK_F32, p->dtype); }

/* Integers whose sums stay below 2^24 are exact in any order; in bf16 the operands are exact, the output is f32. */
static mk_status integers(test_bench *b, const conf_point *p) {
  mk_linear_fwd_args a = {.x = test_integers(b, "x", TEST_IN, mk_tensor_2d(p->dtype, p->dim[0], p->dim[2]), -8, 8)};
  a.w = test_integers(b, "w", TEST_IN, mk_tensor_2d(p->dtype, p->dim[1], p->dim[2]), -8, 8);
  a.y = test_output(b, "y", mk_tensor_2d(MK_F32, p->dim[0], p->dim[1]));
  return mk_linear_fwd(b->stream, &a);
}

static mk_status integers_wgrad(test_bench *b, const conf_point *p) {
  mk_linear_wgrad_args a = {.dy = test_integers(b, "dy", TEST_IN, mk_tensor_2d(p->dtype, p->dim[0], p->dim[1]), -8, 8)};
  a.x = test_integers(b, "x", TEST_IN, mk_tensor_2d(p->dtype, p->dim[0], p->dim[2]), -8, 8);
  a.dw = test_integers(b, "dw", TEST_INOUT, mk_tensor_2d(MK_F32, p->dim[1], p->dim[2]), -8, 8);
  return mk_linear_wgrad(b->stream, &a);
}

/* No row, one row, one of everything, sizes that divide nothing, several row and column tiles, a long reduction, and
 * none: products over nothing are zeros. */
#define SHAPES \
  {{0, 5, 3}, {1, 1, 1}, {1, 67, 33}, {33, 1, 67}, {257, 70, 100}, {300, 530, 9}, {7, 9, 1100}, {3, 5, 0}, {3, 0, 5}}, \
      .n_shapes = 9
#define EXACT_SHAPES {{1, 67, 33}, {31, 33, 1100}, {300, 70, 67}}, .n_shapes = 3

static const conf_case cases[] = {
    {.name = "linear_fwd", .launch = fwd, .shapes = SHAPES, .variants = 2, GEMM_TO_STORAGE},
    {.name = "linear_fwd to f32", .launch = fwd_f32_out, .shapes = SHAPES, .variants = 2, GEMM_TO_F32},
    {.name = "linear_fwd, f32 weights", .launch = fwd_f32_weights, .shapes = SHAPES, GEMM_TO_F32},
    {.name = "linear_fwd, f32 inputs", .launch = fwd_f32_inputs, .shapes = SHAPES, .variants = 2, GEMM_TO_STORAGE},
    {.name = "linear_dgrad", .launch = dgrad, .shapes = SHAPES, .variants = 4, GEMM_TO_STORAGE},
    {.name = "linear_wgrad", .launch = wgrad, .shapes = SHAPES, .variants = 2, GEMM_TO_F32},
    {.name = "linear_wgrad, mixed", .launch = wgrad_mixed, .shapes = SHAPES, .variants = 2, GEMM_TO_F32},
    {.name = "linear_fwd, integers", .launch = integers, .shapes = EXACT_SHAPES, .both_kernels = true},
    {.name = "linear_wgrad, integers", .launch = integers_wgrad, .shapes = EXACT_SHAPES, .both_kernels = true},
};

CONF_TEST(cases)

/* ---- gradients ---- */

GRAD_GEMM_CALLS(linear)

static void build(grad_check *g) {
  linear_state *s = grad_state(g);
  int64_t t = g->dim[0], n = g->dim[1], k = g->dim[2];
  s->fwd.x = test_random(&g->bench, "x", TEST_IN, mk_tensor_2d(MK_F64, t, k), 0, 1);
  s->fwd.w = test_random(&g->bench, "w", TEST_IN, mk_tensor_2d(MK_F64, n, k), 0, 1);
  s->fwd.y = test_output(&g->bench, "y", mk_tensor_2d(MK_F64, t, n));
  s->dgrad.dy = test_random(&g->bench, "dy", TEST_IN, mk_tensor_2d(MK_F64, t, n), 0, 1);
  s->dgrad.dx = test_output(&g->bench, "dx", mk_tensor_2d(MK_F64, t, k));
  grad_gemms(g);
}

static const grad_case grads[] = {{GRAD_OP(linear, build), .shapes = {{3, 5, 7}, {1, 1, 1}}, .n_shapes = 2}};

GRAD_TEST(grads)

/* ---- refusals ---- */

START_TEST(refuses_wrong_shapes_and_aliases) {
  test_bench b;
  test_bench_open_cpu(&b);
  mk_linear_fwd_args a = {.x = activations(&b, "x", MK_F32, 4, 9), .w = activations(&b, "w", MK_F32, 3, 8)};
  a.y = test_output(&b, "y", mk_tensor_2d(MK_F32, 4, 3));
  ck_assert_int_eq(mk_linear_fwd(b.stream, &a), MK_ERR_ARG);
  ck_assert_str_eq(b.ctx.error.message, "linear_fwd: x is f32[4,9], expected f32[-1,8] (-1: any)");
  mk_error_clear(&b.ctx);
  mk_linear_wgrad_args g = {.dy = activations(&b, "dy", MK_F32, 4, 3), .x = a.x};
  g.dw = test_output(&b, "dw", mk_tensor_2d(MK_BF16, 3, 9));
  ck_assert_int_eq(mk_linear_wgrad(b.stream, &g), MK_ERR_ARG);
  ck_assert_str_eq(b.ctx.error.message, "linear_wgrad: dw has dtype bf16, which this op does not take");
  mk_error_clear(&b.ctx);
  mk_tensor square = activations(&b, "square", MK_F32, 4, 4);
  a = (mk_linear_fwd_args){.x = square, .w = activations(&b, "w4", MK_F32, 4, 4), .y = square};
  ck_assert_int_eq(mk_linear_fwd(b.stream, &a), MK_ERR_ARG);
  ck_assert_str_eq(b.ctx.error.message, "linear_fwd: y lies over x; give it memory of its own");
  ck_assert_int_eq(b.dev->launches, 0);
  test_bench_close(&b);
}
END_TEST

START_TEST(refuses_f64_on_cpu) {
  test_bench b;
  test_bench_open_cpu(&b);
  mk_linear_fwd_args a = {.x = activations(&b, "x", MK_F64, 4, 8), .w = activations(&b, "w", MK_F64, 3, 8)};
  a.y = test_output(&b, "y", mk_tensor_2d(MK_F64, 4, 3));
  ck_assert_int_eq(mk_linear_fwd(b.stream, &a), MK_ERR_UNSUPPORTED);
  test_bench_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("linear");
  TCase *tcase = test_case(suite, "linear", 120);
  CONF_ADD(tcase, cases);
  GRAD_ADD(tcase, grads);
  tcase_add_test(tcase, refuses_wrong_shapes_and_aliases);
  tcase_add_test(tcase, refuses_f64_on_cpu);
  return test_main(suite);
}
