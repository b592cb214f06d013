/* AdamW: conformance, the values of torch.optim.AdamW, skipped steps. */
#include "kernels/ops/step_state/step_state.h"
#include "tests/support/check_main.h"
#include "tests/support/conformance.h"

static mk_tensor state_of(test_bench *b, int64_t taken, double lr, double clip_coef, int32_t skip) {
  mk_step_state state = {.step = taken, .taken = taken, .lr = lr, .clip_coef = clip_coef, .skip = skip};
  return test_bytes(b, "state", TEST_IN, mk_tensor_1d(MK_U8, (int64_t)sizeof state), &state);
}

enum { NO_COPY, COPY_BF16, COPY_F32, COPY_IS_MAIN, KEEP_GRAD, SKIP, SKIP_KEEP_GRAD, VARIANTS };

static mk_status launch(test_bench *b, const conf_point *p) {
  mk_tensor flat = mk_tensor_1d(MK_F32, p->dim[0]);
  int v = p->variant;
  bool skip = v == SKIP || v == SKIP_KEEP_GRAD;
  mk_adamw_args a = {.state = state_of(b, 3, 3e-4, 0.7, skip),
                     .grad = test_random(b, "grad", TEST_INOUT, flat, 0.0, 1e-2),
                     .main = test_random(b, "main", TEST_INOUT, flat, 0.0, 0.02),
                     .m = test_random(b, "m", TEST_INOUT, flat, 0.0, 1e-3),
                     .v = test_random(b, "v", TEST_INOUT, flat, 1e-3, 1e-4),
                     .beta1 = 0.9f,
                     .beta2 = 0.95f,
                     .eps = 1e-8f,
                     .weight_decay = 0.1f,
                     .clear_grad = v != KEEP_GRAD && v != SKIP_KEEP_GRAD};
  if (v == COPY_F32) a.compute = test_output(b, "compute", flat);
  if (v == COPY_IS_MAIN) a.compute = a.main;
  /* in FP64 on ref like every float; the case's bound is then one BF16 rounding */
  if (v == COPY_BF16) a.compute = test_output(b, "compute", mk_tensor_1d(MK_BF16, p->dim[0]));
  return mk_adamw(b->stream, &a);
}

static mk_status launch_plain(test_bench *b, const conf_point *p) {
  conf_point shifted = *p;
  shifted.variant = p->variant < COPY_BF16 ? p->variant : p->variant + 1;
  return launch(b, &shifted);
}

static mk_status launch_bf16(test_bench *b, const conf_point *p) {
  conf_point copy = *p;
  copy.variant = COPY_BF16;
  return launch(b, &copy);
}

#define SHAPES {{0}, {1}, {33}, {16385}, {100003}}, .n_shapes = 5

static const conf_case cases[] = {
    {.name = "adamw",
     .launch = launch_plain,
     .shapes = SHAPES,
     .variants = VARIANTS - 1,
     .dtypes = 1u << MK_F32,
     .nmse_f32 = 1e-13},
    {.name = "adamw with a bf16 copy",
     .launch = launch_bf16,
     .shapes = SHAPES,
     .dtypes = 1u << MK_F32,
     .nmse_f32 = CONF_ROUND_BF16},
};

CONF_TEST(cases)

/* Three steps of torch.optim.AdamW 2.15.0 in float64: lr 0.01, betas (0.9, 0.95), eps 1e-8, weight_decay 0.1. */
static const double torch_grads[3][3] = {{0.1, -0.2, 0.0}, {0.3, 0.25, -4.0}, {-0.5, 1e-3, 2.0}};
static const double torch_params[4][3] = {{0.5, -1.25, 3.0},
                                          {0.48950000099999991, -1.2387500005000001, 2.9969999999999999},
                                          {0.47992358000396951, -1.2391341016761477, 3.0013525999973782},
                                          {0.48102570356737201, -1.2391858193546503, 3.000626936355645}};

static void check_torch(const char *device, bool wide, double tolerance) {
  const mk_device_config config = {.name = device, .threads = 1};
  test_bench b;
  test_bench_open(&b, &config, 1, wide);
  mk_tensor flat = mk_tensor_1d(MK_F32, 3);
  mk_adamw_args a = {.main = test_values(&b, "main", TEST_INOUT, flat, torch_params[0]),
                     .m = test_constant(&b, "m", TEST_INOUT, flat, 0),
                     .v = test_constant(&b, "v", TEST_INOUT, flat, 0),
                     .beta1 = 0.9f,
                     .beta2 = 0.95f,
                     .eps = 1e-8f,
                     .weight_decay = 0.1f,
                     .clear_grad = 1};
  for (int step = 0; step < 3; step++) {
    double got[3], grad[3];
    a.state = state_of(&b, step + 1, 0.01, 1.0, 0);
    a.grad = test_values(&b, "grad", TEST_INOUT, flat, torch_grads[step]);
    test_ok(&b, mk_adamw(b.stream, &a), "adamw");
    test_read(&b, &a.main, got);
    test_read(&b, &a.grad, grad);
    for (int i = 0; i < 3; i++) {
      ck_assert_double_eq_tol(got[i], torch_params[step + 1][i], tolerance);
      ck_assert(grad[i] == 0);
    }
  }
  test_bench_close(&b);
}

START_TEST(torch_values) {
  check_torch("ref", true, 1e-8); /* the betas are floats: 0.9f is 2e-8 away from 0.9 */
  check_torch("cpu", false, 1e-6);
}
END_TEST

/* The clip coefficient scales the gradient before the moments see it. */
START_TEST(clips_before_the_moments) {
  const mk_device_config config = {.name = "cpu", .threads = 1};
  const double grad = 8.0, zero = 0.0;
  test_bench b;
  double m = 0;
  test_bench_open(&b, &config, 1, false);
  mk_tensor one = mk_tensor_1d(MK_F32, 1);
  mk_adamw_args a = {.state = state_of(&b, 1, 0.0, 0.25, 0),
                     .grad = test_values(&b, "grad", TEST_INOUT, one, &grad),
                     .main = test_values(&b, "main", TEST_INOUT, one, &zero),
                     .m = test_values(&b, "m", TEST_INOUT, one, &zero),
                     .v = test_values(&b, "v", TEST_INOUT, one, &zero),
                     .beta1 = 0.5f,
                     .beta2 = 0.5f,
                     .eps = 1e-8f};
  test_ok(&b, mk_adamw(b.stream, &a), "adamw");
  test_read(&b, &a.m, &m);
  ck_assert_double_eq_tol(m, 1.0, 1e-7); /* 0.5 * 8 * 0.25 */
  test_bench_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("adamw");
  TCase *tcase = test_case(suite, "adamw", 120);
  CONF_ADD(tcase, cases);
  tcase_add_test(tcase, torch_values);
  tcase_add_test(tcase, clips_before_the_moments);
  return test_main(suite);
}
