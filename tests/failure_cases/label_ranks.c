/* Cases of labels that are left out (-100), each row against one rank that sees the same tokens: S-01, gradients of a
 * pipeline do not scale with the number of valid tokens; O-10, a rank without any is harmless. A step has 0, 1, 7 or
 * 100 labels, in its first tokens, so that with few of them all but one rank or microbatch have none. Every loss is
 * divided by the labels that a step of the configuration has, whatever their number here (Olmo-core 3.0.0
 * ddp_train_module.py: masked instances are added back). Started under mpirun: label_ranks "key=value ..."... */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/trainer/support/tiny.h"

enum { MOST_TOKENS = 64 };
static const double TOLERANCE = 1e-5;

typedef struct check {
  mk_context ctx;
  mt_comm *world;
  const char *row;
  int64_t valid;
  int failures;
} check;

static void fail(check *c, const char *what, double expected, double got) {
  fprintf(stderr, "FAIL '%s' %lld labels rank %d: %s: expected %.9g got %.9g\n", c->row, (long long)c->valid,
          c->world->rank, what, expected, got);
  c->failures += 1;
}

static void expect_near(check *c, const char *what, double expected, double got, double tolerance) {
  if (!(fabs(got - expected) <= tolerance * (fabs(expected) + 1e-12))) fail(c, what, expected, got);
}

/* A step up to the complete gradients, its first `valid` tokens with a label. */
static void masked_step(mk_context *ctx, mt_trainer *t, int64_t valid) {
  int32_t tokens[MOST_TOKENS], labels[MOST_TOKENS];
  tiny_ok(ctx, mt_trainer_begin(t), "begin");
  for (int64_t m = 0; m < t->microbatches; m++) {
    int64_t first = mt_data_first_token(&t->cfg, t->mesh->plan.dp_rank, m);
    for (int64_t i = 0; i < t->cfg.rank_tokens; i++) {
      tokens[i] = (int32_t)((first + i) * 7 % t->cfg.vocab);
      labels[i] = first + i < valid ? (int32_t)((first + i) * 5 % t->cfg.vocab) : MT_LABEL_IGNORED;
    }
    tiny_ok(ctx, mt_trainer_microbatch(t, tokens, labels), "microbatch");
  }
  tiny_ok(ctx, mt_trainer_reduce(t), "reduce");
}

static void compare_gradients(check *c, mt_trainer *got, tiny_rank *one) {
  for (int i = 0; i < got->model->params.count; i++) {
    const mt_param *p = &got->model->params.item[i];
    double error = tiny_param_error(got, one->t, p, MT_VALUE_GRADIENT);
    if (!(error <= TOLERANCE)) fail(c, p->name, 0, error);
  }
}

static void check_step(check *c, const mt_config *cfg) {
  double got_sums[MK_SUM_COUNT], one_sums[MK_SUM_COUNT];
  tiny_rank one;
  mt_trainer *got = NULL;
  mt_config alone = *cfg;
  alone.ranks = alone.ep = alone.pp = 1, alone.shard = MT_SHARD_NONE, alone.pp_schedule = MT_PP_1F1B;
  tiny_open(&one, &alone);
  tiny_ok(&c->ctx, mt_trainer_create(&c->ctx, cfg, c->world, &got), c->row);
  masked_step(&one.ctx, one.t, c->valid);
  masked_step(&c->ctx, got, c->valid);
  tiny_ok(&one.ctx, mt_trainer_tensor_read(one.t, &one.t->model->sums, one_sums), "sums");
  tiny_ok(&c->ctx, mt_trainer_tensor_read(got, &got->model->sums, got_sums), "sums");
  for (int i = 0; i < MK_SUM_COUNT; i++)
    expect_near(c, "sum", one_sums[i], got_sums[i], TOLERANCE / 10);
  expect_near(c, "labels that count", (double)c->valid, got_sums[MK_SUM_LABELS], 0);
  /* random weights know nothing: about ln V for each label, over all that a step could have */
  double each = log((double)cfg->vocab) / (double)mt_data_labels_per_step(cfg);
  expect_near(c, "cross-entropy", (double)c->valid * each, got_sums[MK_SUM_CE], 0.5);
  compare_gradients(c, got, &one);
  mt_trainer_destroy(got);
  tiny_close(&one);
}

int main(int argc, char **argv) {
  static const int64_t counts[] = {0, 1, 7, 100};
  check c = {0};
  mt_comm_mpi_config mpi = {.threaded = true, .timeout_s = 60};
  tiny_ok(&c.ctx, mt_comm_mpi_create(&c.ctx, &mpi, &c.world), "mpi");
  for (int i = 1; i < argc; i++) {
    mt_config cfg = tiny_config();
    cfg.ranks = c.world->size, cfg.global_tokens = 4 * cfg.rank_tokens, cfg.bucket_mib = 0.02;
    tiny_set(&c.ctx, &cfg, argv[i], " ");
    c.row = argv[i];
    for (size_t n = 0; n < sizeof counts / sizeof counts[0]; n++) {
      c.valid = counts[n];
      check_step(&c, &cfg);
    }
    if (c.failures == 0 && c.world->rank == 0) printf("ok %s on %d ranks\n", argv[i], c.world->size);
  }
  mt_comm_destroy(c.world);
  return c.failures > 0;
}
