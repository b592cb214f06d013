/* RMSNorm: conformance over its optional tensors and aliases, gradients, refused arguments. */
#include "tests/support/check_main.h"
#include "tests/support/conformance.h"
#include "tests/support/gradient.h"

enum {
  PLAIN,
  GAIN_F32, /* gain in FP32 whatever the dtype */
  IN_PLACE, /* fwd: y is x; bwd: dx is dy */
  WITH_ADD,
  ADD_IN_PLACE,     /* fwd: y is add; bwd: dx is add */
  FWD_VARIANTS_BWD, /* number of variants of backward */
  WITH_BRANCH = FWD_VARIANTS_BWD,
  SUM_IN_X,
  SUM_IN_BRANCH,
  BRANCH_AND_ADD,
  FWD_VARIANTS
};

static bool has_branch(int variant) { return variant >= WITH_BRANCH; }
static bool has_add(int variant) { return variant == WITH_ADD || variant == ADD_IN_PLACE || variant == BRANCH_AND_ADD; }

static mk_tensor gain_of(test_bench *b, const conf_point *p) {
  mk_dtype dtype = p->variant == GAIN_F32 ? MK_F32 : p->dtype;
  return test_random(b, "gain", TEST_IN, mk_tensor_1d(dtype, p->dim[1]), 1.0, 0.3);
}

/* dim: tokens, width */
static mk_status launch_fwd(test_bench *b, const conf_point *p) {
  mk_tensor rows = mk_tensor_2d(p->dtype, p->dim[0], p->dim[1]);
  mk_rmsnorm_fwd_args a = {.x = test_random(b, "x", TEST_IN, rows, 0.2, 2.0),
                           .gain = gain_of(b, p),
                           .rstd = test_output(b, "rstd", mk_tensor_1d(MK_F32, p->dim[0])),
                           .eps = 0.5f};
  if (has_branch(p->variant)) {
    a.branch = test_random(b, "branch", TEST_IN, rows, 0.0, 1.0);
    a.sum = p->variant == SUM_IN_X ? a.x : p->variant == SUM_IN_BRANCH ? a.branch : test_output(b, "sum", rows);
    test_set_role(b, &a.sum, TEST_OUT);
  }
  if (has_add(p->variant)) a.add = test_random(b, "add", TEST_IN, rows, 0.0, 1.0);
  a.y = p->variant == IN_PLACE ? a.x : p->variant == ADD_IN_PLACE ? a.add : test_output(b, "y", rows);
  test_set_role(b, &a.y, TEST_OUT);
  return mk_rmsnorm_fwd(b->stream, &a);
}

static mk_status launch_bwd(test_bench *b, const conf_point *p) {
  mk_tensor rows = mk_tensor_2d(p->dtype, p->dim[0], p->dim[1]);
  mk_rmsnorm_bwd_args a = {.dy = test_random(b, "dy", TEST_IN, rows, 0.1, 1.0),
                           .x = test_random(b, "x", TEST_IN, rows, 0.2, 2.0),
                           .gain = gain_of(b, p),
                           .rstd = test_random(b, "rstd", TEST_IN, mk_tensor_1d(MK_F32, p->dim[0]), 0.5, 0.05),
                           .dgain = test_random(b, "dgain", TEST_INOUT, mk_tensor_1d(MK_F32, p->dim[1]), 0.0, 1.0)};
  if (has_add(p->variant)) a.add = test_random(b, "add", TEST_IN, rows, 0.0, 1.0);
  a.dx = p->variant == IN_PLACE ? a.dy : p->variant == ADD_IN_PLACE ? a.add : test_output(b, "dx", rows);
  test_set_role(b, &a.dx, TEST_OUT);
  return mk_rmsnorm_bwd(b->stream, &a);
}

/* The widest row does not fit a thread's partial sums (MK_PARTIAL_FLOATS); 12,288 floats are the shared memory that a
 * CUDA block may have without opt-in. */
#define SHAPES {{0, 8}, {1, 1}, {1, 67}, {5, 33}, {67, 512}, {65, 129}, {3, 12288}, {3, 16400}}, .n_shapes = 8

/* The bound on FP32 allows a sum of 16,400 squares in index order, as a build without vectorisation takes it. */
static const conf_case cases[] = {
    {.name = "rmsnorm_fwd",
     .launch = launch_fwd,
     .shapes = SHAPES,
     .variants = FWD_VARIANTS,
     .nmse_f32 = 1e-11,
     .nmse_bf16 = 2 * CONF_ROUND_BF16},
    {.name = "rmsnorm_bwd",
     .launch = launch_bwd,
     .shapes = SHAPES,
     .variants = FWD_VARIANTS_BWD,
     .nmse_f32 = 1e-11,
     .nmse_bf16 = CONF_ROUND_BF16},
};

CONF_TEST(cases)

GRAD_CALLS(rmsnorm)

/* Variant 1: y = norm(x) + x, whose backward adds dy to dx (bwd.add is dy). */
static void build(grad_check *g) {
  rmsnorm_state *s = grad_state(g);
  mk_tensor rows = mk_tensor_2d(MK_F64, g->dim[0], g->dim[1]), row = mk_tensor_1d(MK_F64, g->dim[1]);
  s->fwd.x = test_random(&g->bench, "x", TEST_IN, rows, 0.3, 1);
  s->fwd.gain = s->bwd.gain = test_random(&g->bench, "gain", TEST_IN, row, 1, 0.3);
  s->fwd.y = test_output(&g->bench, "y", rows);
  s->fwd.rstd = s->bwd.rstd = test_output(&g->bench, "rstd", mk_tensor_1d(MK_F64, g->dim[0]));
  s->fwd.eps = 1e-3f;
  s->bwd.x = s->fwd.x;
  s->bwd.dy = test_random(&g->bench, "dy", TEST_IN, rows, 0, 1);
  s->bwd.dx = test_output(&g->bench, "dx", rows);
  s->bwd.dgain = test_constant(&g->bench, "dgain", TEST_INOUT, row, 0);
  grad_input(g, "x", s->fwd.x, s->bwd.dx);
  grad_input(g, "gain", s->fwd.gain, s->bwd.dgain);
  grad_output(g, "y", s->fwd.y, s->bwd.dy);
  if (g->variant == 1) {
    s->fwd.add = s->fwd.x;
    s->bwd.add = s->bwd.dy;
  }
}

static const grad_case grads[] = {
    {GRAD_OP(rmsnorm, build), .shapes = {{3, 7}, {1, 1}, {2, 64}}, .n_shapes = 3, .variants = 2}};

GRAD_TEST(grads)

/* What the contract rounds on the way, in BF16 (half an ulp at 1 is 2^-8): 1 + 2^-9 is 1 once stored, so the sum's norm
 * is that of ones; a norm of 1 + 2^-9 is 1 before 2^-8 is added, which is then a tie and stays 1. */
static void check_rounding(const char *device) {
  const mk_device_config config = {.name = device, .threads = 1};
  const double ones[] = {1, 1}, tiny[] = {0x1p-9, 0x1p-9}, add[] = {0x1p-8, 0x1p-8}, gain[] = {1 + 0x1p-9, 1 + 0x1p-9};
  double rstd = 0, sum[2], y[2];
  test_bench b;
  test_bench_open(&b, &config, 1, false);
  mk_tensor row = mk_tensor_2d(MK_BF16, 1, 2);
  mk_rmsnorm_fwd_args a = {.x = test_values(&b, "x", TEST_IN, row, ones),
                           .branch = test_values(&b, "branch", TEST_IN, row, tiny),
                           .sum = test_output(&b, "sum", row),
                           .gain = test_values(&b, "gain", TEST_IN, mk_tensor_1d(MK_F32, 2), gain),
                           .add = test_values(&b, "add", TEST_IN, row, add),
                           .y = test_output(&b, "y", row),
                           .rstd = test_output(&b, "rstd", mk_tensor_1d(MK_F32, 1))};
  test_ok(&b, mk_rmsnorm_fwd(b.stream, &a), device);
  test_read(&b, &a.rstd, &rstd);
  test_read(&b, &a.sum, sum);
  test_read(&b, &a.y, y);
  ck_assert_msg(rstd == 1 && sum[0] == 1, "%s: rstd %.9g of sum %.9g", device, rstd, sum[0]);
  ck_assert_msg(y[0] == 1 && y[1] == 1, "%s: y %.9g", device, y[0]);
  test_bench_close(&b);
}

START_TEST(rounds_on_the_way) {
  check_rounding("cpu");
  check_rounding("ref");
}
END_TEST

START_TEST(refuses_sum_without_branch) {
  test_bench b;
  test_bench_open_cpu(&b);
  mk_tensor rows = mk_tensor_2d(MK_F32, 2, 4);
  mk_rmsnorm_fwd_args a = {.x = test_random(&b, "x", TEST_IN, rows, 0, 1),
                           .gain = test_random(&b, "gain", TEST_IN, mk_tensor_1d(MK_F32, 4), 1, 0),
                           .sum = test_output(&b, "sum", rows),
                           .y = test_output(&b, "y", rows),
                           .rstd = test_output(&b, "rstd", mk_tensor_1d(MK_F32, 2)),
                           .eps = 1e-6f};
  ck_assert_int_eq(mk_rmsnorm_fwd(b.stream, &a), MK_ERR_ARG);
  mk_error_clear(&b.ctx);
  a.sum = (mk_tensor){0};
  a.gain = mk_tensor_slice(&a.gain, 0, 3);
  ck_assert_int_eq(mk_rmsnorm_fwd(b.stream, &a), MK_ERR_ARG);
  test_bench_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("rmsnorm");
  TCase *tcase = test_case(suite, "rmsnorm", 240);
  CONF_ADD(tcase, cases);
  GRAD_ADD(tcase, grads);
  tcase_add_test(tcase, rounds_on_the_way);
  tcase_add_test(tcase, refuses_sum_without_branch);
  return test_main(suite);
}
