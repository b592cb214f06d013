/* Norm, clipping and accumulation (O) of one rank, through the trainer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/bench.h"
#include "tests/support/check_main.h"
#include "tests/trainer/support/tiny.h"

/* The first `n` values of a gradient. */
static void put_gradient(tiny_rank *r, const char *name, float value, int64_t n) {
  float values[4];
  const mt_param *p = mt_params_by_name(&r->t->model->params, name);
  for (int64_t i = 0; i < n; i++)
    values[i] = value;
  mk_tensor first = mk_tensor_slice(&p->grad, 0, n);
  tiny_ok(&r->ctx, mk_copy_h2d(r->t->compute, &first, values), name);
  tiny_ok(&r->ctx, mk_stream_sync(r->t->compute, false), name);
}

/* Four dense gradients of 3 and four expert gradients of 4, all others zero: norm 10, and of clip 5 half of each
 * reaches the first moment. Without the experts it would be 6 and 0.8333. */
START_TEST(o01_clipping_norm_includes_expert_gradients) {
  mt_config c = tiny_config();
  tiny_rank r;
  mk_step_log log;
  c.clip = 5;
  tiny_open(&r, &c);
  tiny_ok(&r.ctx, mt_trainer_begin(r.t), "begin");
  for (int kind = 0; kind < 2; kind++)
    tiny_ok(&r.ctx, mk_fill(r.t->compute, &r.t->model->params.flat_grad[kind], 0), "clear");
  put_gradient(&r, "layers.0.qkv", 3, 4);
  put_gradient(&r, "layers.1.expert_down", 4, 4);
  tiny_ok(&r.ctx, mt_trainer_gradients_given(r.t), "given");
  tiny_ok(&r.ctx, mt_trainer_finish(r.t), "finish");
  tiny_ok(&r.ctx, mt_trainer_log_read(r.t, &log), "log");
  ck_assert_double_eq_tol(log.grad_norm, 10, 1e-9);
  static const struct {
    const char *name;
    double gradient;
  } of[] = {{"layers.0.qkv", 3}, {"layers.1.expert_down", 4}};
  for (int i = 0; i < 2; i++) {
    const mt_param *p = mt_params_by_name(&r.t->model->params, of[i].name);
    double *m = malloc((size_t)p->count * sizeof *m);
    tiny_ok(&r.ctx, mt_trainer_read(r.t, p->name, MT_VALUE_M, m), p->name);
    ck_assert_double_eq_tol(m[0], (1 - c.beta1) * 0.5 * of[i].gradient, 1e-6);
    ck_assert_double_eq(m[4], 0);
    free(m);
  }
  tiny_close(&r);
}
END_TEST

/* First moments after one step from zero: (1 - beta1) * coefficient * gradient. */
static double *moments(double clip, mk_step_log *log, int64_t *count) {
  mt_config c = tiny_config();
  tiny_rank r;
  c.clip = clip;
  tiny_open(&r, &c);
  tiny_train(&r.ctx, r.t, 1, false);
  double *m = tiny_values(&r.ctx, r.t, MT_VALUE_M, count);
  tiny_ok(&r.ctx, mt_trainer_log_read(r.t, log), "log");
  tiny_close(&r);
  return m;
}

/* The norm of what the optimizer took equals the limit where it was exceeded; below it nothing is touched, bit for bit.
 */
START_TEST(o12_clipping_really_clips) {
  int64_t count = 0;
  mk_step_log log;
  double *plain = moments(0, &log, &count), norm = log.grad_norm, sum = 0;
  double limit = norm / 8, beta1 = (float)tiny_config().beta1;
  double *clipped = moments(limit, &log, &count);
  ck_assert_double_eq(log.grad_norm, norm); /* logged before clipping */
  for (int64_t i = 0; i < count; i++)
    sum += clipped[i] * clipped[i];
  ck_assert_double_eq_tol(sqrt(sum) / (1 - beta1), limit, 1e-5 * limit);
  double *wide = moments(2 * norm, &log, &count);
  ck_assert(memcmp(plain, wide, (size_t)count * sizeof *wide) == 0);
  free(wide);
  free(clipped);
  free(plain);
}
END_TEST

/* 1 followed by 256 additions of 2^-9: exact in FP32, lost one by one in BF16. Gradients are FP32 in every precision.
 */
START_TEST(o11_gradients_are_accumulated_in_fp32) {
  const mk_device_config config = {.name = "cpu", .threads = 1};
  const double one = 1, small = 0x1p-9, zero = 0;
  double sum = 0;
  test_bench b;
  test_bench_open(&b, &config, 1, false);
  mk_tensor shape = mk_tensor_2d(MK_BF16, 1, 1), grad = mk_tensor_2d(MK_F32, 1, 1);
  mk_linear_wgrad_args a = {.dy = test_values(&b, "dy", TEST_IN, shape, &one),
                            .x = test_values(&b, "x", TEST_IN, shape, &one),
                            .dw = test_values(&b, "dw", TEST_INOUT, grad, &zero)};
  test_ok(&b, mk_linear_wgrad(b.stream, &a), "first");
  a.dy = test_values(&b, "small", TEST_IN, shape, &small);
  for (int i = 0; i < 256; i++)
    test_ok(&b, mk_linear_wgrad(b.stream, &a), "more");
  test_read(&b, &a.dw, &sum);
  ck_assert_double_eq(sum, 1.5);
  test_bench_close(&b);
  for (int precision = MT_FP32; precision <= MT_BF16; precision++) {
    mt_config c = tiny_config();
    tiny_rank r;
    c.precision = (mt_precision)precision;
    tiny_open(&r, &c);
    for (int kind = 0; kind < 2; kind++)
      ck_assert_int_eq(r.t->model->params.flat_grad[kind].dtype, MK_F32);
    tiny_close(&r);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("failure cases: optimizer");
  TCase *tc = test_case(suite, "one rank", 120);
  tcase_add_test(tc, o01_clipping_norm_includes_expert_gradients);
  tcase_add_test(tc, o11_gradients_are_accumulated_in_fp32);
  tcase_add_test(tc, o12_clipping_really_clips);
  return test_main(suite);
}
