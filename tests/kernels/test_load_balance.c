/* Load balance: conformance of both ops, the two definitions on values worked out by hand, scale rules. */
#include <math.h>

#include "tests/kernels/step_tensors.h"
#include "tests/support/check_main.h"
#include "tests/support/conformance.h"

/* dim: tokens, experts, groups; variant: renormalise */
static mk_status launch_stats(test_bench *b, const conf_point *p) {
  mk_tensor table = mk_tensor_2d(p->dtype, p->dim[0], p->dim[1]), sums = mk_tensor_2d(p->dtype, p->dim[2], p->dim[1]);
  mk_load_balance_stats_args a = {.scores = test_random(b, "scores", TEST_IN, table, 1.0, 0.25),
                                  .score_sum = test_output(b, "score_sum", sums),
                                  .renormalize = p->variant};
  return mk_load_balance_stats(b->stream, &a);
}

/* dim: layers, groups, experts, tokens; variant: definition */
static mk_status launch_loss(test_bench *b, const conf_point *p) {
  mk_tensor counts = mk_tensor_3d(MK_I32, p->dim[0], p->dim[1], p->dim[2]), sums = counts;
  sums.dtype = p->dtype;
  mk_load_balance_loss_args a = {.counts = test_integers(b, "counts", TEST_IN, counts, 0, 40),
                                 .score_sum = test_random(b, "score_sum", TEST_IN, sums, 10.0, 3.0),
                                 .state = step_state(b, 2, 24.0),
                                 .coef = test_output(b, "coef", sums),
                                 .sums = step_sums(b),
                                 .def = (mk_lb_def)p->variant,
                                 .tokens = p->dim[3],
                                 .top_k = 2,
                                 .microbatches = 3,
                                 .weight = 0.25f};
  return mk_load_balance_loss(b->stream, &a);
}

static const conf_case cases[] = {
    {.name = "load_balance_stats",
     .launch = launch_stats,
     .shapes = {{0, 8, 1}, {1, 1, 1}, {6, 5, 3}, {3000, 67, 2}, {65537, 4, 1}, {700, 128, 7}},
     .n_shapes = 6,
     .variants = 2,
     .dtypes = 1u << MK_F32,
     .nmse_f32 = 1e-11},
    {.name = "load_balance_loss",
     .launch = launch_loss,
     .shapes = {{1, 1, 1, 5}, {2, 3, 8, 60}, {16, 1, 128, 4096}, {3, 2, 4, 0}, {1, 1, 8, 1}},
     .n_shapes = 5,
     .variants = 2,
     .dtypes = 1u << MK_F32,
     .nmse_f32 = 1e-13},
};

CONF_TEST(cases)

/* Loss and coefficients of given scores and ids of one layer, through all ops of the chain. */
typedef struct balance {
  double loss;
  double coef[64];
} balance;

typedef struct layer {
  int64_t tokens, experts, top_k, groups, layers;
  const double *scores;
  const int32_t *idx;
  double divisor;
  mk_lb_def def;
  float weight;
} layer;

/* `layers` equal layers. */
static balance evaluate(const layer *l, int device) {
  mk_device_config config = case_device(device);
  test_bench b;
  balance out = {0};
  test_bench_open(&b, &config, 1, false);
  mk_tensor counts = mk_tensor_3d(MK_I32, l->layers, l->groups, l->experts), sums = counts;
  sums.dtype = MK_F32;
  mk_load_balance_loss_args a = {.counts = test_output(&b, "counts", counts),
                                 .score_sum = test_output(&b, "score_sum", sums),
                                 .state = step_state(&b, 1, l->divisor),
                                 .coef = test_output(&b, "coef", sums),
                                 .sums = step_sums(&b),
                                 .def = l->def,
                                 .tokens = l->tokens,
                                 .top_k = l->top_k,
                                 .microbatches = 1,
                                 .weight = l->weight};
  mk_tensor routes = mk_tensor_2d(MK_I32, l->tokens, l->top_k), one_layer = mk_tensor_2d(MK_I32, l->groups, l->experts);
  mk_route_count_args count = {.idx = test_bytes(&b, "idx", TEST_IN, routes, l->idx),
                               .position = test_output(&b, "position", routes),
                               .total = test_output(&b, "total", mk_tensor_1d(MK_I32, l->experts))};
  mk_load_balance_stats_args stats = {
      .scores = test_values(&b, "scores", TEST_IN, mk_tensor_2d(MK_F32, l->tokens, l->experts), l->scores)};
  for (int64_t i = 0; i < l->layers; i++) {
    mk_tensor part = mk_tensor_rows(&a.counts, i, 1);
    count.counts = mk_tensor_as_2d(&part, one_layer.dim[0], one_layer.dim[1]);
    part = mk_tensor_rows(&a.score_sum, i, 1);
    stats.score_sum = mk_tensor_as_2d(&part, one_layer.dim[0], one_layer.dim[1]);
    test_ok(&b, mk_route_count(b.stream, &count), "route_count");
    test_ok(&b, mk_load_balance_stats(b.stream, &stats), "load_balance_stats");
  }
  test_ok(&b, mk_load_balance_loss(b.stream, &a), "load_balance_loss");
  test_read(&b, &a.coef, out.coef);
  out.loss = step_sum(&b, &a.sums, MK_SUM_LB);
  test_bench_close(&b);
  return out;
}

/* Perfect balance: 1 per layer for every k with the olmo definition, k with that of transformers. */
START_TEST(balanced_routing_gives_one) {
  double scores[16];
  const int32_t idx[] = {0, 1, 2, 3, 0, 1, 2, 3};
  for (int i = 0; i < 16; i++)
    scores[i] = 0.25;
  layer l = {.tokens = 4, .experts = 4, .top_k = 2, .groups = 1, .layers = 3, .scores = scores, .idx = idx};
  l.divisor = 4;
  ck_assert_double_eq_tol(evaluate(&l, _i).loss, 3.0, 1e-6);
  l.groups = 2;
  ck_assert_double_eq_tol(evaluate(&l, _i).loss, 3.0, 1e-6);
  l.def = MK_LB_HF;
  ck_assert_double_eq_tol(evaluate(&l, _i).loss, 2.0, 1e-6);
}
END_TEST

/* four tokens, two to each expert, probabilities one half: 1.0. With four pads all to expert 0, probability 1,
 * the same formula gives 1.25, which is why a padded batch must not come here: sequences are packed. R-09 likewise:
 * all tokens to expert 0 with probability 1 gives 2 for E = 2. */
START_TEST(r01_r09_worked_values) {
  const double scores[] = {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1, 0, 1, 0, 1, 0, 1, 0};
  const int32_t idx[] = {0, 1, 0, 1, 0, 0, 0, 0};
  layer l = {.tokens = 4, .experts = 2, .top_k = 1, .groups = 1, .layers = 1, .scores = scores, .idx = idx};
  l.divisor = 4;
  ck_assert_double_eq_tol(evaluate(&l, _i).loss, 1.0, 1e-6);
  l.tokens = 8;
  l.divisor = 8;
  ck_assert_double_eq_tol(evaluate(&l, _i).loss, 1.25, 1e-6);
  l = (layer){.tokens = 4, .experts = 2, .top_k = 1, .groups = 1, .layers = 1, .scores = scores + 8, .idx = idx + 4};
  l.divisor = 4;
  ck_assert_double_eq_tol(evaluate(&l, _i).loss, 2.0, 1e-6);
}
END_TEST

/* the gradient's scale. Doubling the weight doubles every coefficient exactly; the batch twice over (and so twice
 * the divisor) leaves the loss unchanged and halves the coefficient of a token, of which there are twice as many. */
START_TEST(r03_gradient_scale) {
  const double scores[] = {0.7, 0.2, 0.1, 0.1, 0.6, 0.3, 0.7, 0.2, 0.1, 0.1, 0.6, 0.3};
  const int32_t idx[] = {0, 1, 0, 1};
  for (int def = MK_LB_OLMO; def <= MK_LB_HF; def++) {
    layer l = {.tokens = 2, .experts = 3, .top_k = 1, .groups = 1, .layers = 1, .scores = scores, .idx = idx};
    l.divisor = 2;
    l.def = (mk_lb_def)def;
    l.weight = 0.1f;
    balance once = evaluate(&l, _i);
    l.weight = 0.2f;
    balance doubled = evaluate(&l, _i);
    l.weight = 0.1f;
    l.tokens = 4;
    l.divisor = 4;
    balance twice = evaluate(&l, _i);
    ck_assert_double_eq_tol(twice.loss, once.loss, 1e-7);
    for (int e = 0; e < 3; e++) {
      ck_assert_double_eq(doubled.coef[e], 2 * once.coef[e]);
      ck_assert_double_eq_tol(twice.coef[e], once.coef[e] / 2, 1e-8);
    }
  }
}
END_TEST

/* Pooling over layers is not the mean of the layers' losses. */
START_TEST(hf_pools_layers) {
  const double sums[] = {3, 1, 1, 3};
  const int32_t counts[] = {4, 0, 1, 3};
  mk_device_config config = case_device(_i);
  test_bench b;
  double coef[4];
  test_bench_open(&b, &config, 1, false);
  mk_tensor shape = mk_tensor_3d(MK_F32, 2, 1, 2);
  mk_load_balance_loss_args a = {.counts = test_bytes(&b, "counts", TEST_IN, mk_tensor_3d(MK_I32, 2, 1, 2), counts),
                                 .score_sum = test_values(&b, "score_sum", TEST_IN, shape, sums),
                                 .state = step_state(&b, 1, 1e9),
                                 .coef = test_output(&b, "coef", shape),
                                 .sums = step_sums(&b),
                                 .def = MK_LB_HF,
                                 .tokens = 4,
                                 .top_k = 1,
                                 .microbatches = 2,
                                 .weight = 8.0f};
  test_ok(&b, mk_load_balance_loss(b.stream, &a), "load_balance_loss");
  test_read(&b, &a.coef, coef);
  /* pooled: n = 5 3 of 8, P = 4 4 of 8: 2 (5/8 1/2 + 3/8 1/2) = 1, over two microbatches 1/2 */
  ck_assert_double_eq(step_sum(&b, &a.sums, MK_SUM_LB), 0.5);
  /* 8 * 2 * (5/8) / 8 / 2 and 8 * 2 * (3/8) / 8 / 2 */
  for (int i = 0; i < 4; i++)
    ck_assert_double_eq(coef[i], i % 2 == 0 ? 0.625 : 0.375);
  test_bench_close(&b);
}
END_TEST

START_TEST(refuses_groups_that_do_not_divide) {
  mk_device_config config = case_device(_i);
  test_bench b;
  test_bench_open(&b, &config, 1, false);
  mk_load_balance_stats_args a = {.scores = test_constant(&b, "scores", TEST_IN, mk_tensor_2d(MK_F32, 7, 2), 1),
                                  .score_sum = test_output(&b, "score_sum", mk_tensor_2d(MK_F32, 2, 2))};
  ck_assert_int_eq(mk_load_balance_stats(b.stream, &a), MK_ERR_ARG);
  ck_assert_str_eq(b.ctx.error.message, "load_balance_stats: 2 groups do not divide 7 tokens");
  mk_error_clear(&b.ctx);
  test_bench_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("load_balance");
  TCase *tcase = test_case(suite, "load_balance", 240);
  CONF_ADD(tcase, cases);
  tcase_add_loop_test(tcase, balanced_routing_gives_one, 0, CASE_DEVICES);
  tcase_add_loop_test(tcase, r01_r09_worked_values, 0, CASE_DEVICES);
  tcase_add_loop_test(tcase, r03_gradient_scale, 0, CASE_DEVICES);
  tcase_add_loop_test(tcase, hf_pools_layers, 0, CASE_DEVICES);
  tcase_add_loop_test(tcase, refuses_groups_that_do_not_divide, 0, CASE_DEVICES);
  return test_main(suite);
}
