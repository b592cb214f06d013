/* Grouped GEMM: conformance over patterns of group sizes, tails of garbage, refused offsets, gradients. */
#include "tests/kernels/gemm_parts.h"
#include "tests/support/check_main.h"

enum { PLAIN, PACKED, OVERWRITE = PACKED, MAX_GROUPS = 9 }; /* OVERWRITE: of wgrad, over a dw of NaN */

/* Rows of each group; the buffer has more. Edges: no group filled, empty ones first, last and in a row, all rows in one
 * group, one row, more than a row tile, and more than MANY_GROUPS groups, with FP32's tall tiles filled in the last. */
static const struct {
  int groups;
  int rows[MAX_GROUPS];
} patterns[] = {
    {3, {0, 0, 0}},
    {1, {5}},
    {3, {0, 4, 3}},
    {3, {4, 3, 0}},
    {5, {2, 0, 0, 0, 6}},
    {4, {0, 0, 300, 0}},
    {4, {1, 33, 257, 16}},
    {9, {0, 1, 70, 0, 0, 290, 31, 2, 0}},
    {9, {0, 513, 1030, 0, 1, 0, 0, 2, 0}},
};

enum { PATTERNS = sizeof patterns / sizeof patterns[0], SPARE_ROWS = 5 };

static int64_t total_rows(int64_t pattern) {
  int64_t sum = 0;
  for (int e = 0; e < patterns[pattern].groups; e++)
    sum += patterns[pattern].rows[e];
  return sum;
}

static mk_tensor offsets_of(test_bench *b, int64_t pattern) {
  double values[MAX_GROUPS + 1] = {0};
  for (int e = 0; e < patterns[pattern].groups; e++)
    values[e + 1] = values[e] + patterns[pattern].rows[e];
  return test_values(b, "offsets", TEST_IN, mk_tensor_1d(MK_I32, patterns[pattern].groups + 1), values);
}

/* A row buffer whose rows beyond the groups are NaN. */
static mk_tensor row_buffer(test_bench *b, const char *name, mk_dtype dtype, int64_t pattern, int64_t cols) {
  int64_t rows = total_rows(pattern);
  mk_tensor t = test_random(b, name, TEST_IN, mk_tensor_2d(dtype, rows + SPARE_ROWS, cols), 0.1, 1.0);
  test_poison_rows(b, &t, rows);
  return t;
}

static mk_tensor row_output(test_bench *b, const char *name, mk_dtype dtype, int64_t pattern, int64_t cols) {
  return test_output(b, name, mk_tensor_2d(dtype, total_rows(pattern) + SPARE_ROWS, cols));
}

static mk_tensor weights(test_bench *b, const conf_point *p) {
  return test_random(b, "w", TEST_IN, mk_tensor_3d(p->dtype, patterns[p->dim[0]].groups, p->dim[1], p->dim[2]), 0, 1);
}

/* dim: pattern, N, K */
static mk_status fwd(test_bench *b, const conf_point *p) {
  mk_grouped_gemm_fwd_args a = {.x = row_buffer(b, "x", p->dtype, p->dim[0], p->dim[2]), .w = weights(b, p)};
  if (p->variant == PACKED) a.packed = packed_weights(b, &a.w);
  a.offsets = offsets_of(b, p->dim[0]);
  a.y = row_output(b, "y", p->dtype, p->dim[0], p->dim[1]);
  return mk_grouped_gemm_fwd(b->stream, &a);
}

static mk_status dgrad(test_bench *b, const conf_point *p) {
  mk_grouped_gemm_dgrad_args a = {.dy = row_buffer(b, "dy", p->dtype, p->dim[0], p->dim[1]), .w = weights(b, p)};
  if (p->variant == PACKED) a.packed = packed_weights(b, &a.w);
  a.offsets = offsets_of(b, p->dim[0]);
  a.dx = row_output(b, "dx", p->dtype, p->dim[0], p->dim[2]);
  return mk_grouped_gemm_dgrad(b->stream, &a);
}

static mk_status wgrad(test_bench *b, const conf_point *p) {
  mk_grouped_gemm_wgrad_args a = {.dy = row_buffer(b, "dy", p->dtype, p->dim[0], p->dim[1])};
  a.x = row_buffer(b, "x", p->dtype, p->dim[0], p->dim[2]);
  a.offsets = offsets_of(b, p->dim[0]);
  mk_tensor shape = mk_tensor_3d(MK_F32, patterns[p->dim[0]].groups, p->dim[1], p->dim[2]);
  a.overwrite = p->variant == OVERWRITE;
  a.dw = a.overwrite ? test_output(b, "dw", shape) : test_random(b, "dw", TEST_INOUT, shape, 0, 1);
  return mk_grouped_gemm_wgrad(b->stream, &a);
}

#define SHAPES \
  {{0, 5, 3},   {1, 1, 1},   {2, 33, 67},   {3, 67, 33}, {4, 9, 20}, {5, 70, 33}, \
   {6, 31, 66}, {7, 70, 20}, {2, 530, 300}, {8, 9, 20},  {2, 5, 0},  {2, 0, 5}}, \
      .n_shapes = 12

static const conf_case cases[] = {
    {.name = "grouped_gemm_fwd", .launch = fwd, .shapes = SHAPES, .variants = 2, GEMM_TO_STORAGE},
    {.name = "grouped_gemm_dgrad", .launch = dgrad, .shapes = SHAPES, .variants = 2, GEMM_TO_STORAGE},
    {.name = "grouped_gemm_wgrad", .launch = wgrad, .shapes = SHAPES, .variants = 2, GEMM_TO_F32},
};

CONF_TEST(cases)

/* ---- gradients ---- */

GRAD_GEMM_CALLS(grouped_gemm)

/* A buffer without spare rows: their outputs would be NaN in the loss. */
static mk_tensor plain_rows(grad_check *g, const char *name, int64_t cols) {
  return test_random(&g->bench, name, TEST_IN, mk_tensor_2d(MK_F64, total_rows(g->dim[0]), cols), 0, 1);
}

static void build(grad_check *g) {
  grouped_gemm_state *s = grad_state(g);
  int64_t n = g->dim[1], k = g->dim[2];
  mk_tensor shape = mk_tensor_3d(MK_F64, patterns[g->dim[0]].groups, n, k);
  s->fwd.x = plain_rows(g, "x", k);
  s->fwd.w = test_random(&g->bench, "w", TEST_IN, shape, 0, 1);
  s->fwd.offsets = offsets_of(&g->bench, g->dim[0]);
  s->fwd.y = plain_rows(g, "y", n);
  s->dgrad.dy = plain_rows(g, "dy", n);
  s->dgrad.offsets = s->fwd.offsets;
  s->dgrad.dx = plain_rows(g, "dx", k);
  s->wgrad.offsets = s->fwd.offsets;
  grad_gemms(g);
}

static const grad_case grads[] = {{GRAD_OP(grouped_gemm, build), .shapes = {{2, 3, 4}, {4, 5, 2}}, .n_shapes = 2}};

GRAD_TEST(grads)

/* ---- refusals ---- */

static void expect_refused(const double *values, const char *message) {
  test_bench b;
  test_bench_open_cpu(&b);
  mk_grouped_gemm_fwd_args a = {.x = test_random(&b, "x", TEST_IN, mk_tensor_2d(MK_F32, 6, 4), 0, 1)};
  a.w = test_random(&b, "w", TEST_IN, mk_tensor_3d(MK_F32, 3, 5, 4), 0, 1);
  a.offsets = test_values(&b, "offsets", TEST_IN, mk_tensor_1d(MK_I32, 4), values);
  a.y = test_output(&b, "y", mk_tensor_2d(MK_F32, 6, 5));
  ck_assert_int_eq(mk_grouped_gemm_fwd(b.stream, &a), MK_ERR_ARG);
  ck_assert_str_eq(b.ctx.error.message, message);
  test_bench_close(&b);
}

START_TEST(refuses_bad_offsets) {
  expect_refused((const double[]){0, 2, 4, 7}, "grouped_gemm_fwd: offsets run from 0 to 7 in a buffer of 6 rows");
  expect_refused((const double[]){1, 2, 4, 6}, "grouped_gemm_fwd: offsets run from 1 to 6 in a buffer of 6 rows");
  expect_refused((const double[]){0, 5, 4, 6}, "grouped_gemm_fwd: offsets fall at group 1: 5, then 4");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("grouped_gemm");
  TCase *tcase = test_case(suite, "grouped_gemm", 120);
  CONF_ADD(tcase, cases);
  GRAD_ADD(tcase, grads);
  tcase_add_test(tcase, refuses_bad_offsets);
  return test_main(suite);
}
