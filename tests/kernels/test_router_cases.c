/* Router behaviours that users of other trainers have met as faults, numbered as in the list of failure cases (R-..,
 * P-..), on the fast and the reference kernels. */
#include <math.h>

#include "tests/kernels/step_tensors.h"
#include "tests/support/check_main.h"

enum { MAX = 64 };

/* A router call on given logits and what it produced. */
typedef struct routed {
  mk_router_fwd_args args;
  double scores[MAX], idx[MAX], weights[MAX], lse[MAX], rz;
} routed;

static void route(test_bench *b, int64_t tokens, int64_t experts, int64_t top_k, const double *logits,
                  mk_router_config config, routed *r) {
  mk_tensor scores = mk_tensor_2d(MK_F32, tokens, experts), routes = mk_tensor_2d(MK_F32, tokens, top_k);
  r->args = (mk_router_fwd_args){
      .logits = test_values(b, "logits", TEST_IN, scores, logits),
      .state = step_state(b, 1, 1.0),
      .scores = test_output(b, "scores", scores),
      .idx = test_output(b, "idx", mk_tensor_2d(MK_I32, tokens, top_k)),
      .weights = test_output(b, "weights", routes),
      .lse = test_output(b, "lse", mk_tensor_1d(MK_F32, tokens)),
      .sums = step_sums(b),
      .config = config,
  };
  test_ok(b, mk_router_fwd(b->stream, &r->args), "router_fwd");
  test_read(b, &r->args.scores, r->scores);
  test_read(b, &r->args.idx, r->idx);
  test_read(b, &r->args.weights, r->weights);
  test_read(b, &r->args.lse, r->lse);
  r->rz = step_sum(b, &r->args.sums, MK_SUM_RZ);
}

static void open_case(test_bench *b, int device) {
  mk_device_config config = case_device(device);
  test_bench_open(b, &config, 1, false);
}

START_TEST(r10_top1_weights_are_normalised_over_experts) {
  const double first[] = {0.7, 0.6, 0.5, 0.4};
  double logits[4 * 4];
  test_bench b;
  routed r;
  for (int i = 0; i < 16; i++)
    logits[i] = log(i % 4 == 0 ? first[i / 4] : (1.0 - first[i / 4]) / 3.0);
  open_case(&b, _i);
  route(&b, 4, 4, 1, logits, (mk_router_config){.normalize = 1, .scale = 1.0f}, &r);
  for (int t = 0; t < 4; t++) {
    ck_assert_msg(r.weights[t] == 1.0, "token %d: expected weight 1, got %.9g", t, r.weights[t]);
    ck_assert_double_eq_tol(r.scores[t * 4 + (int)r.idx[t]], first[t], 1e-6);
  }
  test_bench_close(&b);
}
END_TEST

/* Identity experts: what combine returns is the sum of the weights times x. */
static double identity_output(test_bench *b, const routed *r) {
  double x = 3.0, y, rows[] = {3.0, 3.0};
  const int32_t map[] = {0, 1};
  mk_combine_fwd_args a = {.rows = test_values(b, "rows", TEST_IN, mk_tensor_2d(MK_F32, 2, 1), rows),
                           .map = test_bytes(b, "map", TEST_IN, mk_tensor_2d(MK_I32, 1, 2), map),
                           .weights = r->args.weights,
                           .y = test_output(b, "y", mk_tensor_2d(MK_F32, 1, 1))};
  test_ok(b, mk_combine_fwd(b->stream, &a), "combine_fwd");
  test_read(b, &a.y, &y);
  return y / x;
}

START_TEST(r11_weights_sum_to_one_only_when_normalised) {
  const double logits[] = {log(0.5), log(0.3), log(0.1), log(0.1)};
  test_bench b;
  routed r;
  open_case(&b, _i);
  route(&b, 1, 4, 2, logits, (mk_router_config){.normalize = 1, .scale = 1.0f}, &r);
  ck_assert_double_eq_tol(identity_output(&b, &r), 1.0, 1e-6);
  route(&b, 1, 4, 2, logits, (mk_router_config){.normalize = 0, .scale = 1.0f}, &r);
  ck_assert_double_eq_tol(identity_output(&b, &r), 0.8, 1e-6);
  route(&b, 1, 4, 2, logits, (mk_router_config){.normalize = 1, .scale = 2.0f}, &r);
  ck_assert_double_eq_tol(identity_output(&b, &r), 2.0, 1e-6);
  test_bench_close(&b);
}
END_TEST

START_TEST(r12_choice_is_fp32_and_ties_go_to_the_lowest_index) {
  double logits[8] = {4, 4, 4, 4.001, 4, 4, 4, 4};
  test_bench b;
  routed r;
  ck_assert_int_eq(mk_f32_to_bf16(4.001f), mk_f32_to_bf16(4.0f));
  for (int gating = MK_GATING_SOFTMAX; gating <= MK_GATING_SIGMOID; gating++) {
    open_case(&b, _i);
    route(&b, 1, 8, 3, logits, (mk_router_config){.gating = (mk_gating)gating, .scale = 1.0f}, &r);
    ck_assert_msg(r.idx[0] == 3 && r.idx[1] == 0 && r.idx[2] == 1, "expected 3 0 1, got %g %g %g", r.idx[0], r.idx[1],
                  r.idx[2]);
    test_bench_close(&b);
  }
}
END_TEST

/* Scores that FP32 rounds to one value still follow the logits. */
START_TEST(r12_saturated_scores_do_not_tie) {
  const double logits[4] = {30, 31, 29, 32};
  test_bench b;
  routed r;
  open_case(&b, _i);
  route(&b, 1, 4, 2, logits, (mk_router_config){.gating = MK_GATING_SIGMOID, .scale = 1.0f}, &r);
  ck_assert_msg(r.idx[0] == 3 && r.idx[1] == 1, "expected 3 1, got %g %g", r.idx[0], r.idx[1]);
  test_bench_close(&b);
}
END_TEST

/* dlogits of the router z-loss alone, weight `weight`. */
static void z_gradient(test_bench *b, const routed *r, float weight, double *dlogits) {
  const mk_router_fwd_args *f = &r->args;
  mk_router_bwd_args a = {.logits = f->logits,
                          .scores = f->scores,
                          .idx = f->idx,
                          .weights = f->weights,
                          .lse = f->lse,
                          .state = f->state,
                          .rz_weight = weight,
                          .config = f->config};
  a.dweights = test_constant(b, "dweights", TEST_IN, mk_tensor_2d(MK_F32, f->idx.dim[0], f->idx.dim[1]), 0);
  a.lb_coef = test_constant(b, "lb_coef", TEST_IN, mk_tensor_2d(MK_F32, 1, f->logits.dim[1]), 0);
  a.dlogits = test_output(b, "dlogits", mk_tensor_2d(MK_F32, f->logits.dim[0], f->logits.dim[1]));
  test_ok(b, mk_router_bwd(b->stream, &a), "router_bwd");
  test_read(b, &a.dlogits, dlogits);
}

START_TEST(r13_z_loss_is_numerically_safe) {
  const double logits[4] = {100, 100, 100, 100};
  double dlogits[4];
  test_bench b;
  routed r;
  for (int routing = MK_ROUTING_LEARNED; routing <= MK_ROUTING_RANDOM; routing++) {
    open_case(&b, _i);
    route(&b, 1, 4, 2, logits, (mk_router_config){.routing = (mk_routing)routing, .normalize = 1, .scale = 1.0f}, &r);
    ck_assert_double_eq_tol(r.lse[0], 101.38629, 1e-4);
    ck_assert_double_eq_tol(r.rz, 10279.18, 0.01);
    z_gradient(&b, &r, 0.5f, dlogits);
    for (int e = 0; e < 4; e++)
      ck_assert_double_eq_tol(dlogits[e], 2 * 0.5 * 101.38629 / 4, 1e-4);
    z_gradient(&b, &r, 0.0f, dlogits);
    for (int e = 0; e < 4; e++)
      ck_assert_msg(dlogits[e] == 0, "expected no gradient, got %g", dlogits[e]);
    test_bench_close(&b);
  }
}
END_TEST

START_TEST(p04_nonfinite_logits_give_legal_ids_and_a_nonfinite_sum) {
  enum { ROWS = 5, E = 4, K = 3 };
  const double logits[ROWS * E] = {NAN,      NAN, NAN, NAN, 1, NAN,       2,         3,         1,         INFINITY,
                                   INFINITY, 0,   0,   0,   1, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
  for (int gating = MK_GATING_SOFTMAX; gating <= MK_GATING_SIGMOID; gating++) {
    test_bench b;
    routed r;
    double counts[E], total = 0;
    open_case(&b, _i);
    route(&b, ROWS, E, K, logits, (mk_router_config){.gating = (mk_gating)gating, .normalize = 1, .scale = 1.0f}, &r);
    for (int t = 0; t < ROWS; t++) {
      const double *id = r.idx + t * K;
      for (int k = 0; k < K; k++)
        ck_assert_msg(id[k] >= 0 && id[k] < E, "row %d: id %g", t, id[k]);
      ck_assert_msg(id[0] != id[1] && id[0] != id[2] && id[1] != id[2], "row %d: ids %g %g %g", t, id[0], id[1], id[2]);
    }
    ck_assert_msg(r.idx[3] == 3 && r.idx[4] == 2 && r.idx[5] == 0, "NaN is not ranked lowest");
    mk_route_count_args c = {.idx = r.args.idx,
                             .counts = test_output(&b, "counts", mk_tensor_2d(MK_I32, 1, E)),
                             .position = test_output(&b, "position", mk_tensor_2d(MK_I32, ROWS, K)),
                             .total = test_output(&b, "total", mk_tensor_1d(MK_I32, E))};
    test_ok(&b, mk_route_count(b.stream, &c), "route_count");
    test_read(&b, &c.total, counts);
    for (int e = 0; e < E; e++)
      total += counts[e];
    ck_assert_double_eq(total, ROWS * K);
    ck_assert_msg(!isfinite(r.rz), "the sum of the z-loss is %g although a row of logits is not finite", r.rz);
    test_bench_close(&b);
  }
}
END_TEST

/* Random draws depend on seed, layer, step and global token, not on how tokens are cut into microbatches. */
START_TEST(random_routing_follows_the_global_token) {
  double logits[8 * 5] = {0};
  test_bench b;
  routed whole, half, other;
  mk_router_config config = {.routing = MK_ROUTING_RANDOM, .scale = 1.0f, .seed = 5, .layer = 2, .first_token = 16};
  open_case(&b, _i);
  route(&b, 8, 5, 2, logits, config, &whole);
  config.first_token = 20;
  route(&b, 4, 5, 2, logits, config, &half);
  config.layer = 3;
  route(&b, 4, 5, 2, logits, config, &other);
  int equal = 0;
  for (int i = 0; i < 20; i++) {
    ck_assert_double_eq(half.scores[i], whole.scores[20 + i]);
    equal += other.scores[i] == half.scores[i];
  }
  ck_assert_msg(equal == 0, "%d of 20 draws of another layer are equal", equal);
  test_bench_close(&b);
}
END_TEST

START_TEST(p12_same_bits_in_100_runs) {
  enum { T = 300, E = 64, K = 8, RUNS = 100 };
  const mk_device_config config = {.name = "cpu", .threads = 2};
  static float first[T * E];
  float again[T * E];
  double rz = 0;
  for (int run = 0; run < RUNS; run++) {
    test_bench b;
    test_bench_open(&b, &config, 3, false);
    mk_tensor table = mk_tensor_2d(MK_F32, T, E), routes = mk_tensor_2d(MK_F32, T, K);
    mk_router_fwd_args f = {.logits = test_random(&b, "logits", TEST_IN, table, 0, 2),
                            .state = step_state(&b, 1, 7.0),
                            .scores = test_output(&b, "scores", table),
                            .idx = test_output(&b, "idx", mk_tensor_2d(MK_I32, T, K)),
                            .weights = test_output(&b, "weights", routes),
                            .lse = test_output(&b, "lse", mk_tensor_1d(MK_F32, T)),
                            .sums = step_sums(&b),
                            .config = {.normalize = 1, .scale = 8.0f}};
    mk_router_bwd_args a = {.logits = f.logits,
                            .scores = f.scores,
                            .idx = f.idx,
                            .weights = f.weights,
                            .lse = f.lse,
                            .state = f.state,
                            .rz_weight = 0.1f,
                            .config = f.config};
    a.dweights = test_random(&b, "dweights", TEST_IN, routes, 0, 1);
    a.lb_coef = test_random(&b, "lb_coef", TEST_IN, mk_tensor_2d(MK_F32, 3, E), 0, 1);
    a.dlogits = test_output(&b, "dlogits", table);
    test_ok(&b, mk_router_fwd(b.stream, &f), "router_fwd");
    test_ok(&b, mk_router_bwd(b.stream, &a), "router_bwd");
    test_read_bytes(&b, &a.dlogits, again);
    if (run == 0) memcpy(first, again, sizeof first);
    if (run == 0) rz = step_sum(&b, &f.sums, MK_SUM_RZ);
    ck_assert_msg(memcmp(first, again, sizeof first) == 0, "run %d: dlogits differ from the first run", run);
    ck_assert_double_eq(step_sum(&b, &f.sums, MK_SUM_RZ), rz);
    test_bench_close(&b);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("router cases");
  TCase *tcase = test_case(suite, "router cases", 120);
  tcase_add_loop_test(tcase, r10_top1_weights_are_normalised_over_experts, 0, CASE_DEVICES);
  tcase_add_loop_test(tcase, r11_weights_sum_to_one_only_when_normalised, 0, CASE_DEVICES);
  tcase_add_loop_test(tcase, r12_choice_is_fp32_and_ties_go_to_the_lowest_index, 0, CASE_DEVICES);
  tcase_add_loop_test(tcase, r12_saturated_scores_do_not_tie, 0, CASE_DEVICES);
  tcase_add_loop_test(tcase, r13_z_loss_is_numerically_safe, 0, CASE_DEVICES);
  tcase_add_loop_test(tcase, p04_nonfinite_logits_give_legal_ids_and_a_nonfinite_sum, 0, CASE_DEVICES);
  tcase_add_loop_test(tcase, random_routing_follows_the_global_token, 0, CASE_DEVICES);
  tcase_add_test(tcase, p12_same_bits_in_100_runs);
  return test_main(suite);
}
