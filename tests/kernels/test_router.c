/* Router: conformance of every mode both ways, gradients of weights, load-balancing loss and z-loss together, refusals.
 * The numbered cases of the router are in test_router_cases.c. */
#include "tests/kernels/step_tensors.h"
#include "tests/support/check_main.h"
#include "tests/support/conformance.h"
#include "tests/support/gradient.h"

typedef struct mode {
  mk_gating gating;
  mk_routing routing;
  bool normalize, biased;
  float scale;
} mode;

static const mode modes[] = {
    {MK_GATING_SOFTMAX, MK_ROUTING_LEARNED, true, false, 4.0f},
    {MK_GATING_SOFTMAX, MK_ROUTING_LEARNED, false, false, 1.0f},
    {MK_GATING_SIGMOID, MK_ROUTING_LEARNED, true, false, 2.5f},
    {MK_GATING_SOFTMAX, MK_ROUTING_LEARNED, true, true, 1.0f},
    {MK_GATING_SIGMOID, MK_ROUTING_LEARNED, false, true, 1.0f},
    {MK_GATING_SOFTMAX, MK_ROUTING_RANDOM, true, false, 2.0f},
    {MK_GATING_SIGMOID, MK_ROUTING_RANDOM, true, false, 1.0f},
    {MK_GATING_SOFTMAX, MK_ROUTING_UNIFORM, true, false, 2.0f},
    {MK_GATING_SIGMOID, MK_ROUTING_UNIFORM, true, false, 1.0f},
    {MK_GATING_SOFTMAX, MK_ROUTING_REPLAY, true, false, 1.0f},
};

enum { MODES = sizeof modes / sizeof modes[0] };

static mk_router_config config_of(const mode *m) {
  return (mk_router_config){.gating = m->gating,
                            .routing = m->routing,
                            .normalize = m->normalize,
                            .scale = m->scale,
                            .seed = 99,
                            .layer = 3,
                            .first_token = 4096};
}

/* dim: tokens, experts, top-k, groups */
static mk_router_fwd_args make_fwd(test_bench *b, mk_dtype dtype, const int64_t *dim, const mode *m) {
  mk_tensor routes = mk_tensor_2d(MK_I32, dim[0], dim[2]);
  mk_router_fwd_args a = {
      .logits = test_random(b, "logits", TEST_IN, mk_tensor_2d(dtype, dim[0], dim[1]), 0.3, 2.0),
      .state = step_state(b, 7, 19.0),
      .scores = test_output(b, "scores", mk_tensor_2d(dtype, dim[0], dim[1])),
      .weights = test_output(b, "weights", mk_tensor_2d(dtype, dim[0], dim[2])),
      .lse = test_output(b, "lse", mk_tensor_1d(dtype, dim[0])),
      .sums = step_sums(b),
      .config = config_of(m),
  };
  if (m->biased) a.bias = test_random(b, "bias", TEST_IN, mk_tensor_1d(dtype, dim[1]), 0.0, 0.3);
  a.idx = m->routing == MK_ROUTING_REPLAY ? test_integers(b, "idx", TEST_INOUT, routes, 0, dim[1] - 1)
                                          : test_output(b, "idx", routes);
  return a;
}

static mk_router_bwd_args make_bwd(test_bench *b, const mk_router_fwd_args *f, int64_t groups) {
  mk_dtype dtype = f->logits.dtype;
  int64_t tokens = f->logits.dim[0], experts = f->logits.dim[1], top_k = f->idx.dim[1];
  return (mk_router_bwd_args){
      .logits = f->logits,
      .scores = f->scores,
      .idx = f->idx,
      .weights = f->weights,
      .lse = f->lse,
      .dweights = test_random(b, "dweights", TEST_IN, mk_tensor_2d(dtype, tokens, top_k), 0.1, 1.0),
      .lb_coef = test_random(b, "lb_coef", TEST_IN, mk_tensor_2d(dtype, groups, experts), 0.2, 0.5),
      .state = f->state,
      .rz_weight = 0.0625f,
      .config = f->config,
  };
}

static mk_status launch_fwd(test_bench *b, const conf_point *p) {
  mk_router_fwd_args a = make_fwd(b, p->dtype, p->dim, &modes[p->variant]);
  return mk_router_fwd(b->stream, &a);
}

/* Forward, then backward; the second half of the variants writes dlogits over the logits. */
static mk_status launch_bwd(test_bench *b, const conf_point *p) {
  mk_router_fwd_args f = make_fwd(b, p->dtype, p->dim, &modes[p->variant % MODES]);
  mk_router_bwd_args a = make_bwd(b, &f, p->dim[3]);
  if (p->variant >= MODES) {
    test_set_role(b, &a.logits, TEST_INOUT);
    a.dlogits = a.logits;
  } else {
    a.dlogits = test_output(b, "dlogits", mk_tensor_2d(p->dtype, p->dim[0], p->dim[1]));
  }
  MK_TRY(&b->ctx, mk_router_fwd(b->stream, &f));
  return mk_router_bwd(b->stream, &a);
}

#define SHAPES \
  { \
    {0, 8, 2, 1}, {1, 1, 1, 1}, {1, 8, 8, 1}, {33, 67, 3, 3}, {18, 5, 5, 2}, {300, 128, 8, 4}, { 5, 1024, 64, 5 } \
  }

static const conf_case cases[] = {
    {.name = "router_fwd",
     .launch = launch_fwd,
     .shapes = SHAPES,
     .n_shapes = 7,
     .variants = MODES,
     .dtypes = 1u << MK_F32,
     .nmse_f32 = 2e-13},
    {.name = "router_bwd",
     .launch = launch_bwd,
     .shapes = SHAPES,
     .n_shapes = 7,
     .variants = 2 * MODES,
     .dtypes = 1u << MK_F32,
     .nmse_f32 = 2e-12},
    {.name = "router_fwd P-05 any token count",
     .launch = launch_fwd,
     .shapes =
         {{1, 4, 2, 1}, {15, 4, 2, 1}, {16, 4, 2, 1}, {17, 4, 2, 1}, {33, 4, 2, 1}, {1000, 4, 2, 1}, {65537, 4, 2, 1}},
     .n_shapes = 7,
     .dtypes = 1u << MK_F32,
     .nmse_f32 = 2e-13},
};

CONF_TEST(cases)

/* weights . dweights + lb_weight * LB + rz_weight * RZ, with the load-balancing loss taken from its own ops. */
typedef struct chain {
  mk_router_fwd_args fwd;
  mk_router_bwd_args bwd;
  mk_route_count_args count;
  mk_load_balance_stats_args stats;
  mk_load_balance_loss_args loss;
} chain;

static void build(grad_check *g) {
  test_bench *b = &g->bench;
  chain *c = grad_state(g);
  int64_t tokens = g->dim[0], experts = g->dim[1], top_k = g->dim[2], groups = g->dim[3];
  c->fwd = make_fwd(b, MK_F64, g->dim, &modes[g->variant % MODES]);
  c->bwd = make_bwd(b, &c->fwd, groups);
  c->bwd.dlogits = test_output(b, "dlogits", mk_tensor_2d(MK_F64, tokens, experts));
  c->count = (mk_route_count_args){.idx = c->fwd.idx,
                                   .counts = test_output(b, "counts", mk_tensor_2d(MK_I32, groups, experts)),
                                   .position = test_output(b, "position", mk_tensor_2d(MK_I32, tokens, top_k)),
                                   .total = test_output(b, "total", mk_tensor_1d(MK_I32, experts))};
  c->stats.scores = c->fwd.scores;
  c->stats.score_sum = test_output(b, "score_sum", mk_tensor_2d(MK_F64, groups, experts));
  c->stats.renormalize = c->fwd.config.gating == MK_GATING_SIGMOID;
  c->loss = (mk_load_balance_loss_args){.state = c->fwd.state,
                                        .sums = c->fwd.sums,
                                        .def = g->variant < MODES ? MK_LB_OLMO : MK_LB_HF,
                                        .tokens = tokens,
                                        .top_k = top_k,
                                        .microbatches = 3,
                                        .weight = 0.5f};
  c->loss.counts = mk_tensor_3d(MK_I32, 1, groups, experts);
  c->loss.counts.data = c->count.counts.data;
  c->loss.score_sum = c->loss.coef = mk_tensor_3d(MK_F64, 1, groups, experts);
  c->loss.score_sum.data = c->stats.score_sum.data;
  c->loss.coef.data = c->bwd.lb_coef.data;
  double dsums[MK_SUM_COUNT] = {0};
  dsums[MK_SUM_LB] = (double)c->loss.weight;
  dsums[MK_SUM_RZ] = (double)c->bwd.rz_weight;
  grad_input(g, "logits", c->fwd.logits, c->bwd.dlogits);
  grad_output(g, "weights", c->fwd.weights, c->bwd.dweights);
  grad_output(g, "sums", c->fwd.sums, test_values(b, "dsums", TEST_IN, mk_tensor_1d(MK_F64, MK_SUM_COUNT), dsums));
}

static mk_status forward(grad_check *g) {
  chain *c = grad_state(g);
  mk_stream *stream = g->bench.stream;
  mk_context *ctx = &g->bench.ctx;
  MK_TRY(ctx, mk_fill(stream, &c->fwd.sums, 0));
  MK_TRY(ctx, mk_router_fwd(stream, &c->fwd));
  MK_TRY(ctx, mk_route_count(stream, &c->count));
  MK_TRY(ctx, mk_load_balance_stats(stream, &c->stats));
  return mk_load_balance_loss(stream, &c->loss);
}

static mk_status backward(grad_check *g) {
  chain *c = grad_state(g);
  return mk_router_bwd(g->bench.stream, &c->bwd);
}

static const grad_case grads[] = {{.name = "router R-03",
                                   .build = build,
                                   .forward = forward,
                                   .backward = backward,
                                   .shapes = {{6, 8, 3, 2}, {4, 5, 1, 1}, {3, 4, 4, 3}, {2, 1, 1, 1}},
                                   .n_shapes = 4,
                                   .variants = 2 * MODES}};

GRAD_TEST(grads)

START_TEST(refusals) {
  test_bench b;
  test_bench_open_cpu(&b);
  mk_router_fwd_args a = make_fwd(&b, MK_F32, (int64_t[]){3, 4, 2, 1}, &modes[0]);
  a.idx = test_output(&b, "idx", mk_tensor_2d(MK_I32, 3, 5));
  a.weights = test_output(&b, "weights", mk_tensor_2d(MK_F32, 3, 5));
  ck_assert_int_eq(mk_router_fwd(b.stream, &a), MK_ERR_ARG);
  ck_assert_str_eq(b.ctx.error.message, "router_fwd: top-k is 5 of 4 experts, expected 1 to min(experts, 64)");
  mk_error_clear(&b.ctx);
  a = make_fwd(&b, MK_F32, (int64_t[]){3, 4, 2, 1}, &modes[MODES - 1]);
  test_write_one(&b, &a.idx, 5, 4);
  ck_assert_int_eq(mk_router_fwd(b.stream, &a), MK_ERR_ARG);
  ck_assert_str_eq(b.ctx.error.message, "router_fwd: entry 5 of idx is 4, expected in [0, 4)");
  mk_error_clear(&b.ctx);
  a = make_fwd(&b, MK_F64, (int64_t[]){3, 4, 2, 1}, &modes[0]);
  ck_assert_int_eq(mk_router_fwd(b.stream, &a), MK_ERR_UNSUPPORTED);
  mk_error_clear(&b.ctx);
  test_bench_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("router");
  TCase *tcase = test_case(suite, "router", 240);
  CONF_ADD(tcase, cases);
  GRAD_ADD(tcase, grads);
  tcase_add_test(tcase, refusals);
  return test_main(suite);
}
