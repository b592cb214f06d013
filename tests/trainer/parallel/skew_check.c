/* Every token to the experts of one rank: the other ranks receive no row, most experts are empty, and a capacity drops.
 * A router of zeros does it: all scores are equal, and the lowest expert wins a tie. Started under mpirun.
 *   - without capacity rowwise and deepep_v2 give the gradients of block
 *   - with one, of the rank or of each expert, deepep_v2 drops what rowwise drops and gives its gradients
 *   - evaluation drops nothing, whatever the capacity: its loss is block's; training after it goes on, bit for bit
 * FP32, so that differences are sums in another order. A failure prints what, index, expected, got. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/trainer/support/tiny.h"

typedef struct check {
  mk_context ctx;
  mt_comm *world;
  int failures;
} check;

static const double TOLERANCE = 1e-5;

static void expect(check *c, bool good, const char *what, int64_t index, double expected, double got) {
  if (good) return;
  fprintf(stderr, "FAIL rank %d: %s index %lld: expected %.17g got %.17g\n", c->ctx.rank, what, (long long)index,
          expected, got);
  c->failures += 1;
}

static mt_config config_of(const check *c, mt_ep_transport transport, double capacity, mt_capacity_scope scope) {
  mt_config out = tiny_config();
  out.capacity_scope = scope;
  out.ranks = c->world->size, out.ep = out.ranks, out.shard = MT_SHARD_DIST_OPT, out.precision = MT_FP32;
  out.ep_transport = transport, out.capacity_factor = capacity;
  out.global_tokens = out.rank_tokens * out.ranks * 2;
  out.lr = 1e-3;
  return out;
}

static mt_trainer *open_trainer(check *c, const mt_config *cfg, bool skewed) {
  mt_trainer *t = NULL;
  tiny_ok(&c->ctx, mt_trainer_create(&c->ctx, cfg, c->world, &t), "create");
  for (int i = 0; skewed && i < t->model->params.count; i++) {
    const mt_param *p = &t->model->params.item[i];
    if (p->role != MT_PARAM_ROUTER) continue;
    double *zeros = calloc((size_t)p->count, sizeof *zeros);
    tiny_ok(&c->ctx, mt_trainer_write(t, p->name, zeros), p->name);
    free(zeros);
  }
  tiny_ok(&c->ctx, mt_trainer_weights_changed(t), "weights");
  return t;
}

/* tolerance 0: the same bits. */
static void compare_params(check *c, mt_trainer *got, mt_trainer *want, mt_value which, double tolerance) {
  const mt_params *params = &got->model->params;
  for (int i = 0; i < params->count; i++) {
    double error = tiny_param_error(got, want, &params->item[i], which);
    expect(c, error <= tolerance, params->item[i].name, 0, 0, error);
  }
}

/* Of this rank's routes in the step so far. */
static double dropped(check *c, mt_trainer *t, const mk_tensor *sums) {
  double values[MK_SUM_COUNT];
  tiny_ok(&c->ctx, mt_trainer_tensor_read(t, sums, values), "sums");
  return values[MK_SUM_DROPPED];
}

/* Rows that the experts of this rank had in the last MoE layer of the last microbatch. */
static double rows_here(check *c, mt_trainer *t) {
  double offsets[64];
  const mk_tensor *o = &t->model->layers[t->cfg.layers - 1].mlp.ep.offsets;
  tiny_ok(&c->ctx, mt_trainer_tensor_read(t, o, offsets), "offsets");
  return offsets[o->dim[0] - 1];
}

/* Rows that rank 0 accepts: all routes of all ranks go to its first K experts. */
static double accepted(const mt_config *cfg) {
  double routes = (double)(cfg->rank_tokens * cfg->top_k), k = (double)cfg->top_k;
  if (cfg->capacity_factor == 0) return routes * (double)cfg->ranks;
  if (cfg->capacity_scope == MT_CAPACITY_RANK) return ceil(cfg->capacity_factor * routes);
  return k * ceil(cfg->capacity_factor * routes / (double)(cfg->experts / cfg->ranks));
}

static void check_gradients(check *c, mt_ep_transport transport, mt_ep_transport twin, double capacity,
                            mt_capacity_scope scope) {
  mt_config got_cfg = config_of(c, transport, capacity, scope), want_cfg = config_of(c, twin, capacity, scope);
  mt_trainer *got = open_trainer(c, &got_cfg, true), *want = open_trainer(c, &want_cfg, true);
  double here = c->world->rank > 0 ? 0 : accepted(&got_cfg);
  tiny_train(&c->ctx, got, 1, true);
  tiny_train(&c->ctx, want, 1, true);
  compare_params(c, got, want, MT_VALUE_GRADIENT, TOLERANCE);
  expect(c, rows_here(c, got) == here, "rows received", transport, here, rows_here(c, got));
  double drops = dropped(c, got, &got->model->sums), as_many = dropped(c, want, &want->model->sums);
  expect(c, drops == as_many && (drops > 0) == (capacity > 0), "dropped", transport, as_many, drops);
  mt_trainer_destroy(want);
  mt_trainer_destroy(got);
}

static double evaluate(check *c, mt_trainer *t) {
  enum { MOST_TOKENS = 64 };
  int32_t tokens[MOST_TOKENS], labels[MOST_TOKENS];
  double ce = 0, count = 0;
  for (int i = 0; i < t->cfg.rank_tokens; i++) {
    tokens[i] = (int32_t)((7 * i + 3 * c->world->rank) % t->cfg.vocab);
    labels[i] = (int32_t)((5 * i + 1) % t->cfg.vocab);
  }
  tiny_ok(&c->ctx, mt_trainer_evaluate(t, 0, tokens, labels, &ce, &count, NULL), "evaluate");
  expect(c, count == (double)t->cfg.rank_tokens, "labels", 0, (double)t->cfg.rank_tokens, count);
  expect(c, dropped(c, t, &t->model->eval_sums) == 0, "dropped in evaluation", 0, 0,
         dropped(c, t, &t->model->eval_sums));
  return ce;
}

static void check_evaluation(check *c, mt_ep_transport transport, mt_capacity_scope scope) {
  mt_config cfg = config_of(c, transport, 1.0, scope), block_cfg = config_of(c, MT_EP_BLOCK, 0, scope), plain_cfg = cfg;
  cfg.eval_tokens = block_cfg.eval_tokens = cfg.seq_len;
  mt_trainer *t = open_trainer(c, &cfg, true), *block = open_trainer(c, &block_cfg, true);
  double got = evaluate(c, t), want = evaluate(c, block);
  expect(c, fabs(got - want) <= TOLERANCE * want, "evaluation loss", transport, want, got);
  mt_trainer *plain = open_trainer(c, &plain_cfg, true);
  tiny_train(&c->ctx, t, 2, false);
  evaluate(c, t);
  tiny_train(&c->ctx, t, 2, false);
  tiny_train(&c->ctx, plain, 4, false);
  expect(c, dropped(c, t, &t->model->sums) > 0, "dropped in training", transport, 1, 0);
  compare_params(c, t, plain, MT_VALUE_WEIGHT, 0);
  mt_trainer_destroy(plain);
  mt_trainer_destroy(block);
  mt_trainer_destroy(t);
}

int main(void) {
  check c = {0};
  mt_comm_mpi_config mpi = {.threaded = true, .timeout_s = 60};
  tiny_ok(&c.ctx, mt_comm_mpi_create(&c.ctx, &mpi, &c.world), "mpi");
  c.ctx.rank = c.world->rank;
  check_gradients(&c, MT_EP_ROWWISE, MT_EP_BLOCK, 0, MT_CAPACITY_RANK);
  check_gradients(&c, MT_EP_DEEPEP_V2, MT_EP_BLOCK, 0, MT_CAPACITY_RANK);
  for (int scope = MT_CAPACITY_RANK; scope <= MT_CAPACITY_EXPERT; scope++) {
    check_gradients(&c, MT_EP_DEEPEP_V2, MT_EP_ROWWISE, 1.0, (mt_capacity_scope)scope);
    check_evaluation(&c, MT_EP_ROWWISE, (mt_capacity_scope)scope);
  }
  check_evaluation(&c, MT_EP_DEEPEP_V2, MT_CAPACITY_RANK);
  mt_comm_destroy(c.world);
  return c.failures > 0;
}
