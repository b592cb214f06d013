/* The whole tiny model against finite differences, in FP64 on the reference kernels: every parameter of every placement
 * and option. Central differences of the total loss at a few elements of each parameter. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/check_main.h"
#include "tests/trainer/support/tiny.h"

typedef struct variant {
  const char *name;
  mt_norm_placement norm;
  mk_qk_norm qk_norm;
  mk_gating gating;
  bool norm_topk;
  mk_lb_def lb_def;
  mt_lb_granularity granularity;
  int64_t shared_hidden;
  double clip_qkv;
  mt_ep_transport transport;
} variant;

static const variant VARIANTS[] = {
    {"peri, per-head qk norm, softmax, olmo", MT_NORM_PERI, MK_QK_NORM_HEAD, MK_GATING_SOFTMAX, true, MK_LB_OLMO,
     MT_LB_BATCH, 12, 0, MT_EP_BLOCK},
    {"reordered, no qk norm, sigmoid, instance", MT_NORM_REORDERED, MK_QK_NORM_NONE, MK_GATING_SIGMOID, true,
     MK_LB_OLMO, MT_LB_INSTANCE, 12, 0, MT_EP_BLOCK},
    {"hybrid, per-head qk norm, weights sum to one", MT_NORM_HYBRID, MK_QK_NORM_HEAD, MK_GATING_SOFTMAX, true,
     MK_LB_OLMO, MT_LB_BATCH, 12, 0, MT_EP_BLOCK},
    {"pre, full qk norm, clip, raw weights, hf", MT_NORM_PRE, MK_QK_NORM_FULL, MK_GATING_SOFTMAX, false, MK_LB_HF,
     MT_LB_BATCH, 0, 1.5, MT_EP_BLOCK},
    {"pre, per-head qk norm, sigmoid, hf", MT_NORM_PRE, MK_QK_NORM_HEAD, MK_GATING_SIGMOID, false, MK_LB_HF,
     MT_LB_BATCH, 12, 0, MT_EP_BLOCK},
    {"peri, weights inside the experts", MT_NORM_PERI, MK_QK_NORM_NONE, MK_GATING_SOFTMAX, true, MK_LB_OLMO,
     MT_LB_BATCH, 12, 0, MT_EP_DEEPEP_V2},
};

static double total_loss(const mt_config *c, const mk_step_log *log) {
  const double *s = log->sum;
  return s[MK_SUM_CE] + s[MK_SUM_Z] + c->lb_weight * s[MK_SUM_LB] + c->router_z_weight * s[MK_SUM_RZ];
}

/* Loss of the first step at the trainer's weights. A trainer is made anew: a step changes its state. */
static double loss_at(const mt_config *c, const char *name, int64_t count, int64_t index, double delta,
                      mt_comm *world) {
  mk_context *ctx = world->ctx;
  mt_trainer *t = NULL;
  double sums[MK_SUM_COUNT];
  double *values = malloc((size_t)count * sizeof *values);
  tiny_ok(ctx, mt_trainer_create(ctx, c, world, &t), "create");
  tiny_ok(ctx, mt_trainer_read(t, name, MT_VALUE_WEIGHT, values), "read");
  values[index] += delta;
  tiny_ok(ctx, mt_trainer_write(t, name, values), "write");
  tiny_ok(ctx, mt_trainer_weights_changed(t), "pack");
  tiny_train(ctx, t, 1, true);
  tiny_ok(ctx, mt_trainer_tensor_read(t, &t->model->sums, sums), "sums");
  mk_step_log log = {0};
  for (int i = 0; i < MK_SUM_COUNT; i++)
    log.sum[i] = sums[i];
  mt_trainer_destroy(t);
  free(values);
  return total_loss(c, &log);
}

/* Central difference of the loss by element i. */
static double difference(const mt_config *c, const mt_param *p, int64_t i, double h, mt_comm *world) {
  return (loss_at(c, p->name, p->count, i, h, world) - loss_at(c, p->name, p->count, i, -h, world)) / (2 * h);
}

static void check_param(const mt_config *c, mt_trainer *t, const mt_param *p, const char *variant_name,
                        mt_comm *world) {
  enum { PROBES = 3 };
  double *gradient = malloc((size_t)p->count * sizeof *gradient);
  tiny_ok(world->ctx, mt_trainer_read(t, p->name, MT_VALUE_GRADIENT, gradient), "gradient");
  double largest = 0;
  for (int64_t i = 0; i < p->count; i++)
    largest = fmax(largest, fabs(gradient[i]));
  for (int probe = 0; probe < PROBES; probe++) {
    int64_t i = (p->count * (2 * probe + 1) / (2 * PROBES) * 7919) % p->count;
    double h = 1e-5, numeric = difference(c, p, i, h, world), limit = 1e-6 * largest + 1e-9;
    if (fabs(numeric - gradient[i]) > limit) { /* a route may change inside +-h: once more with a tenth of it */
      numeric = difference(c, p, i, h / 10, world);
      limit *= 10; /* the rounding of the loss weighs ten times as much */
    }
    ck_assert_msg(fabs(numeric - gradient[i]) <= limit, "%s: %s f64 seed %lld index %lld: expected %.12g got %.12g",
                  variant_name, p->name, (long long)c->seed, (long long)i, numeric, gradient[i]);
  }
  free(gradient);
}

START_TEST(gradients_match_finite_differences) {
  const variant *v = &VARIANTS[_i];
  mk_context ctx = {0};
  mt_comm *world = NULL;
  mt_trainer *t = NULL;
  mt_config c = tiny_config();
  snprintf(c.device, sizeof c.device, "ref");
  c.precision = MT_FP64, c.norm = v->norm, c.qk_norm = v->qk_norm, c.gating = v->gating, c.norm_topk = v->norm_topk;
  c.lb_def = v->lb_def, c.lb_granularity = v->granularity, c.shared_hidden = v->shared_hidden, c.clip_qkv = v->clip_qkv;
  c.ep_transport = v->transport;
  c.layers = 2, c.rank_tokens = 24, c.global_tokens = 48; /* two microbatches: accumulation is part of the check */
  tiny_ok(&ctx, mt_comm_self_create(&ctx, &world), "self");
  tiny_ok(&ctx, mt_trainer_create(&ctx, &c, world, &t), "create");
  tiny_train(&ctx, t, 1, true);
  for (int i = 0; i < t->model->params.count; i++)
    check_param(&c, t, &t->model->params.item[i], v->name, world);
  mt_trainer_destroy(t);
  mt_comm_destroy(world);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("model gradient");
  TCase *tc = test_case(s, "finite differences", 200);
  tcase_add_loop_test(tc, gradients_match_finite_differences, 0, (int)(sizeof VARIANTS / sizeof VARIANTS[0]));
  return s;
}

int main(void) { return test_main(suite()); }
