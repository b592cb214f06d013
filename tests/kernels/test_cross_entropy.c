/* Cross-entropy: conformance over chunk edges, ignored labels and large logits, gradients, worked values. */
#include <math.h>

#include "kernels/base/heap.h"
#include "tests/kernels/step_tensors.h"
#include "tests/support/check_main.h"
#include "tests/support/conformance.h"
#include "tests/support/gradient.h"

/* Labels that cover both ends of the vocabulary, every third (or every one) ignored. */
static mk_tensor make_labels(test_bench *b, int64_t tokens, int64_t vocab, bool all_ignored) {
  int32_t *labels = NULL;
  test_ok(b, mk_heap_array(&b->ctx, (size_t)tokens, sizeof *labels, &labels), "staging");
  for (int64_t t = 0; t < tokens; t++) {
    labels[t] = (int32_t)(t % 4 == 0 ? vocab - 1 : t * 2654435761 % vocab);
    if (t % 3 == 2 || all_ignored) labels[t] = -100;
  }
  mk_tensor t = test_bytes(b, "labels", TEST_IN, mk_tensor_1d(MK_I32, tokens), labels);
  mk_heap_free(&b->ctx, labels);
  return t;
}

enum { PLAIN, NO_Z, EVALUATION, ALL_IGNORED, LARGE, LARGE_NEGATIVE, RISING, VARIANTS };

/* Logits that rise along the vocabulary, so that the running maximum moves in every chunk. */
static mk_tensor rising_logits(test_bench *b, mk_tensor shape) {
  double *values = NULL;
  int64_t vocab = shape.dim[1];
  test_ok(b, mk_heap_array(&b->ctx, (size_t)mk_tensor_count(&shape), sizeof *values, &values), "staging");
  for (int64_t i = 0; i < mk_tensor_count(&shape); i++) {
    values[i] = 20.0 * (double)(i % vocab) / (double)vocab + test_normal(b->seed, 1, (uint64_t)i);
  }
  mk_tensor t = test_values(b, "logits", TEST_INOUT, shape, values);
  mk_heap_free(&b->ctx, values);
  return t;
}

/* dim: tokens, vocabulary */
static mk_status launch(test_bench *b, const conf_point *p) {
  int64_t tokens = p->dim[0], vocab = p->dim[1];
  double mean = p->variant == LARGE ? 300 : p->variant == LARGE_NEGATIVE ? -1000 : 0.5;
  mk_tensor shape = mk_tensor_2d(p->dtype, tokens, vocab);
  mk_tensor logits =
      p->variant == RISING ? rising_logits(b, shape) : test_random(b, "logits", TEST_INOUT, shape, mean, 3.0);
  mk_cross_entropy_args a = {.logits = logits,
                             .labels = make_labels(b, tokens, vocab, p->variant == ALL_IGNORED),
                             .state = step_state(b, 1, 37.0),
                             .sums = step_sums(b),
                             .losses = test_output(b, "losses", mk_tensor_2d(MK_F32, 2, tokens)),
                             .z_weight = p->variant == NO_Z ? 0.0f : 1e-3f,
                             .with_grad = p->variant != EVALUATION};
  return mk_cross_entropy(b->stream, &a);
}

static const conf_case cases[] = {{.name = "cross_entropy",
                                   .launch = launch,
                                   .shapes = {{0, 5}, {1, 1}, {3, 67}, {5, 2048}, {7, 2049}, {4, 10001}, {130, 300}},
                                   .n_shapes = 7,
                                   .variants = VARIANTS,
                                   .nmse_f32 = 1e-12,
                                   .nmse_bf16 = CONF_ROUND_BF16}};

CONF_TEST(cases)

/* The forward evaluates; the backward works on a copy of the logits, which it turns into the gradient. */
typedef struct ce_state {
  mk_cross_entropy_args fwd, bwd;
} ce_state;

static void build(grad_check *g) {
  ce_state *s = grad_state(g);
  test_bench *b = &g->bench;
  int64_t tokens = g->dim[0], vocab = g->dim[1];
  double dsums[MK_SUM_COUNT] = {0};
  dsums[MK_SUM_CE] = dsums[MK_SUM_Z] = 1;
  s->fwd = (mk_cross_entropy_args){
      .logits = test_random(b, "logits", TEST_IN, mk_tensor_2d(MK_F64, tokens, vocab), 0.5, 2.0),
      .labels = make_labels(b, tokens, vocab, false),
      .state = step_state(b, 1, 5.0),
      .sums = step_sums(b),
      .losses = test_output(b, "losses", mk_tensor_2d(MK_F64, 2, tokens)),
      .z_weight = 0.125f};
  s->bwd = s->fwd;
  s->bwd.logits = test_output(b, "dlogits", mk_tensor_2d(MK_F64, tokens, vocab));
  s->bwd.sums = step_sums(b);
  s->bwd.with_grad = 1;
  grad_input(g, "logits", s->fwd.logits, s->bwd.logits);
  grad_output(g, "sums", s->fwd.sums, test_values(b, "dsums", TEST_IN, mk_tensor_1d(MK_F64, MK_SUM_COUNT), dsums));
}

static mk_status forward(grad_check *g) {
  ce_state *s = grad_state(g);
  MK_TRY(&g->bench.ctx, mk_fill(g->bench.stream, &s->fwd.sums, 0));
  return mk_cross_entropy(g->bench.stream, &s->fwd);
}

static mk_status backward(grad_check *g) {
  ce_state *s = grad_state(g);
  MK_TRY(&g->bench.ctx, mk_copy_d2d(g->bench.stream, &s->bwd.logits, &s->fwd.logits));
  return mk_cross_entropy(g->bench.stream, &s->bwd);
}

static const grad_case grads[] = {{.name = "cross_entropy",
                                   .build = build,
                                   .forward = forward,
                                   .backward = backward,
                                   .shapes = {{4, 7}, {1, 1}, {3, 50}},
                                   .n_shapes = 3}};

GRAD_TEST(grads)

typedef struct ce_result {
  double sums[MK_SUM_COUNT], logits[64];
} ce_result;

static ce_result evaluate(int device, int64_t tokens, int64_t vocab, const double *logits, const int32_t *labels,
                          double divisor, float z_weight) {
  mk_device_config config = case_device(device);
  test_bench b;
  ce_result r;
  test_bench_open(&b, &config, 1, false);
  mk_cross_entropy_args a = {
      .logits = test_values(&b, "logits", TEST_INOUT, mk_tensor_2d(MK_F32, tokens, vocab), logits),
      .labels = test_bytes(&b, "labels", TEST_IN, mk_tensor_1d(MK_I32, tokens), labels),
      .state = step_state(&b, 1, divisor),
      .sums = step_sums(&b),
      .losses = test_output(&b, "losses", mk_tensor_2d(MK_F32, 2, tokens)),
      .z_weight = z_weight,
      .with_grad = 1};
  test_ok(&b, mk_cross_entropy(b.stream, &a), "cross_entropy");
  test_read(&b, &a.sums, r.sums);
  test_read(&b, &a.logits, r.logits);
  test_bench_close(&b);
  return r;
}

/* two words, equal logits: the cross-entropy is log 2, whatever the z-loss weight; the z-loss has its own sum.
 * With balanced routing (loss 1) and weight 0.01 the total is 0.703147. */
START_TEST(r05_cross_entropy_alone) {
  const double logits[] = {0, 0, 0, 0};
  const int32_t labels[] = {0, 1};
  ce_result plain = evaluate(_i, 2, 2, logits, labels, 2, 0.0f), with_z = evaluate(_i, 2, 2, logits, labels, 2, 0.5f);
  ck_assert_double_eq_tol(plain.sums[MK_SUM_CE], 0.693147, 1e-6);
  ck_assert_double_eq(with_z.sums[MK_SUM_CE], plain.sums[MK_SUM_CE]);
  ck_assert_double_eq(plain.sums[MK_SUM_Z], 0);
  ck_assert_double_eq_tol(with_z.sums[MK_SUM_Z], 0.5 * 0.693147 * 0.693147, 1e-6);
  ck_assert_double_eq(plain.sums[MK_SUM_LB], 0);
  ck_assert_double_eq(plain.sums[MK_SUM_LABELS], 2);
  ck_assert_double_eq_tol(plain.sums[MK_SUM_CE] + 0.01 * 1.0, 0.703147, 1e-6);
}
END_TEST

/* R-01, the loss's share: tokens without a label change neither the sums nor the gradient of the others. */
START_TEST(r01_ignored_tokens_change_nothing) {
  const double logits[] = {1, 2, 3, -1, 0, 4, 9, 9, 9, 5, 1, 0};
  const int32_t labels[] = {2, 0, -100, -100};
  ce_result two = evaluate(_i, 2, 3, logits, labels, 2, 0.1f), four = evaluate(_i, 4, 3, logits, labels, 2, 0.1f);
  for (int i = 0; i < MK_SUM_COUNT; i++)
    ck_assert_double_eq(four.sums[i], two.sums[i]);
  for (int i = 0; i < 6; i++)
    ck_assert_double_eq(four.logits[i], two.logits[i]);
  for (int i = 6; i < 12; i++)
    ck_assert_double_eq(four.logits[i], 0);
}
END_TEST

START_TEST(r13_large_logits_are_safe) {
  const double logits[] = {100, 100, 100, 100, -1e4, 1e4, 3e4, 0};
  const int32_t labels[] = {1, 2};
  ce_result r = evaluate(_i, 2, 4, logits, labels, 1, 1e-4f);
  ck_assert_double_eq_tol(r.sums[MK_SUM_CE], log(4.0), 1e-6);
  ck_assert_double_eq_tol(r.sums[MK_SUM_Z], 1e-4 * (10279.18 + 9e8), 1.0);
  for (int i = 0; i < 8; i++)
    ck_assert_msg(isfinite(r.logits[i]), "gradient %d is %g", i, r.logits[i]);
}
END_TEST

/* -inf masks a word; NaN anywhere is not hidden, even behind a chunk of -inf. */
START_TEST(nonfinite_logits) {
  double logits[] = {-INFINITY, 0, 0, 1};
  const int32_t label[] = {1};
  ce_result r = evaluate(_i, 1, 4, logits, label, 1, 0.0f);
  ck_assert_double_eq(r.logits[0], 0);
  ck_assert_double_eq_tol(r.sums[MK_SUM_CE], log(2.0 + exp(1.0)), 1e-6);
  logits[0] = NAN;
  r = evaluate(_i, 1, 4, logits, label, 1, 0.0f);
  ck_assert_msg(isnan(r.sums[MK_SUM_CE]), "a NaN logit gives a cross-entropy of %g", r.sums[MK_SUM_CE]);
}
END_TEST

/* A first chunk of -inf, then finite words; bit 0 of `how`: a NaN in the chunk of -inf; bit 1: the finite words lie so
 * low that exp(-logit) overflows. */
START_TEST(chunks_of_minus_infinity) {
  enum { V = 5000 };
  static double logits[V];
  const int32_t label[] = {2500};
  mk_device_config config = case_device(_i);
  for (int how = 0; how < 4; how++) {
    bool with_nan = how % 2 == 1;
    for (int v = 0; v < V; v++)
      logits[v] = v < 2100 || v >= 4000 ? -INFINITY : how < 2 ? 0.0 : -1000.0;
    if (with_nan) logits[7] = NAN;
    test_bench b;
    test_bench_open(&b, &config, 1, false);
    mk_cross_entropy_args a = {.logits = test_values(&b, "logits", TEST_INOUT, mk_tensor_2d(MK_F32, 1, V), logits),
                               .labels = test_bytes(&b, "labels", TEST_IN, mk_tensor_1d(MK_I32, 1), label),
                               .state = step_state(&b, 1, 1.0),
                               .sums = step_sums(&b),
                               .losses = test_output(&b, "losses", mk_tensor_2d(MK_F32, 2, 1))};
    test_ok(&b, mk_cross_entropy(b.stream, &a), "cross_entropy");
    double ce = step_sum(&b, &a.sums, MK_SUM_CE);
    ck_assert_msg(with_nan ? isnan(ce) : fabs(ce - log(1900.0)) < 1e-5, "cross-entropy %g, case %d", ce, how);
    test_bench_close(&b);
  }
}
END_TEST

START_TEST(refuses_a_label_beyond_the_vocabulary) {
  const int32_t labels[] = {1, 3};
  mk_device_config config = case_device(_i);
  test_bench b;
  test_bench_open(&b, &config, 1, false);
  mk_cross_entropy_args a = {.logits = test_constant(&b, "logits", TEST_INOUT, mk_tensor_2d(MK_F32, 2, 3), 0),
                             .labels = test_bytes(&b, "labels", TEST_IN, mk_tensor_1d(MK_I32, 2), labels),
                             .state = step_state(&b, 1, 1.0),
                             .sums = step_sums(&b),
                             .losses = test_output(&b, "losses", mk_tensor_2d(MK_F32, 2, 2))};
  ck_assert_int_eq(mk_cross_entropy(b.stream, &a), MK_ERR_ARG);
  ck_assert_str_eq(b.ctx.error.message, "cross_entropy: entry 1 of labels is 3, expected in [-2147483648, 3)");
  mk_error_clear(&b.ctx);
  test_bench_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("cross_entropy");
  TCase *tcase = test_case(suite, "cross_entropy", 240);
  CONF_ADD(tcase, cases);
  GRAD_ADD(tcase, grads);
  tcase_add_loop_test(tcase, r05_cross_entropy_alone, 0, CASE_DEVICES);
  tcase_add_loop_test(tcase, r01_ignored_tokens_change_nothing, 0, CASE_DEVICES);
  tcase_add_loop_test(tcase, r13_large_logits_are_safe, 0, CASE_DEVICES);
  tcase_add_loop_test(tcase, nonfinite_logits, 0, CASE_DEVICES);
  tcase_add_loop_test(tcase, chunks_of_minus_infinity, 0, CASE_DEVICES);
  tcase_add_loop_test(tcase, refuses_a_label_beyond_the_vocabulary, 0, CASE_DEVICES);
  return test_main(suite);
}
