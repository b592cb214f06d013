/* What else a trainer does while nothing is whole on a rank, against one rank that holds everything: the gradient norm,
 * evaluation, weights out and in, a skipped step. Started under mpirun: fsdp_use <folder> <settings>...,
 * each a row of key=value,key=value over the tiny model; weights are written below the folder. A failure prints row,
 * what, expected, got. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/trainer/support/tiny.h"
#include "trainer/step/weights_io.h"

typedef struct place {
  mk_context ctx;
  mt_comm *world;
  mt_trainer *t;
} place;

typedef struct test {
  place many, one;
  const char *row;
  char folder[256];
  int failures;
} test;

static void expect(test *x, const char *what, double expected, double got, double tolerance) {
  if (fabs(got - expected) <= tolerance * fabs(expected)) return;
  fprintf(stderr, "FAIL %s rank %d: %s: expected %.12g got %.12g\n", x->row, x->many.ctx.rank, what, expected, got);
  x->failures += 1;
}

static double *values_of(place *p, const mt_param *param, mt_value which, int64_t count) {
  double *values = malloc((size_t)(count + 1) * sizeof *values);
  tiny_ok(&p->ctx, mt_trainer_read(p->t, param->name, which, values), param->name);
  return values;
}

/* Largest difference of any weight of this rank to the same weight of one rank. */
static double weight_difference(test *x) {
  double most = 0;
  const mt_params *params = &x->many.t->model->params;
  for (int i = 0; i < params->count; i++) {
    const mt_param *p = &params->item[i];
    double *got = values_of(&x->many, p, MT_VALUE_WEIGHT, p->count);
    double *all = values_of(&x->one, mt_params_by_name(&x->one.t->model->params, p->name), MT_VALUE_WEIGHT, p->total);
    for (int64_t n = 0; n < p->count; n++)
      most = fmax(most, fabs(got[n] - all[p->first + n]));
    free(all);
    free(got);
  }
  return most;
}

/* Cross-entropy of this rank's first block in both trainers; in a pipeline the last stage has it. */
static void compare_evaluation(test *x, double tolerance) {
  place *both[] = {&x->one, &x->many};
  double ce[2], labels[2];
  size_t bytes = (size_t)x->many.t->cfg.rank_tokens * sizeof(int32_t);
  int32_t *tokens = malloc(bytes), *targets = malloc(bytes);
  mt_data *data = NULL;
  tiny_ok(&x->many.ctx, mt_data_create(&x->many.ctx, &x->many.t->cfg, x->many.t->mesh->plan.dp_rank, &data), "data");
  tiny_ok(&x->many.ctx, mt_data_batch(data, 7, 0, tokens, targets), "batch");
  for (int i = 0; i < 2; i++)
    tiny_ok(&both[i]->ctx, mt_trainer_evaluate(both[i]->t, 0, tokens, targets, &ce[i], &labels[i], NULL), "evaluate");
  double scale = (double)mt_data_labels_per_step(&x->one.t->cfg) / (double)mt_data_labels_per_step(&x->many.t->cfg);
  bool predicts = x->many.t->model->predicts;
  expect(x, "cross-entropy of an evaluation", predicts ? ce[0] : 0, ce[1] * scale, tolerance);
  expect(x, "labels of an evaluation", predicts ? labels[0] : 0, labels[1], 0);
  mt_data_destroy(data);
  free(targets);
  free(tokens);
}

/* A step allocates nothing on the device and waits for nothing (the block transport apart). */
static void check_quiet(test *x, int64_t allocs, int64_t waits) {
  const mt_trainer *t = x->many.t;
  expect(x, "device allocations in a step", (double)allocs, (double)t->dev->alloc_calls, 0);
  if (t->mesh->plan.ep == 1) expect(x, "host waits in a step", (double)waits, (double)t->dev->host_waits, 0);
}

static double norm_after_step(place *p) {
  mk_step_log log;
  tiny_train(&p->ctx, p->t, 1, false);
  tiny_ok(&p->ctx, mt_trainer_log_read(p->t, &log), "log");
  return log.grad_norm;
}

static void open_one(test *x, const mt_config *many, int64_t seed) {
  mt_config one = *many;
  one.ranks = 1, one.ep = 1, one.pp = 1, one.shard = MT_SHARD_NONE, one.guard = false, one.seed = seed;
  one.pp_schedule = MT_PP_1F1B, one.pp_chunks = 0;
  tiny_ok(&x->one.ctx, mt_trainer_create(&x->one.ctx, &one, x->one.world, &x->one.t), x->row);
}

static void reopen_many(test *x, const mt_config *c, int64_t seed) {
  mt_config other = *c;
  other.seed = seed;
  mt_trainer_destroy(x->many.t);
  tiny_ok(&x->many.ctx, mt_trainer_create(&x->many.ctx, &other, x->many.world, &x->many.t), x->row);
}

/* Out of the cut trainer into a whole one, and into a cut one that began elsewhere. */
static void check_weights(test *x, const mt_config *c) {
  int64_t calls = x->many.world->calls;
  tiny_ok(&x->many.ctx, mt_weights_save(x->many.t, x->folder), "save");
  expect(x, "calls of all ranks, with which a save ends", 1, (double)(x->many.world->calls - calls), 0);
  mt_trainer_destroy(x->one.t);
  open_one(x, c, 99);
  if (weight_difference(x) == 0) expect(x, "other seeds, other weights", 1, 0, 0);
  tiny_ok(&x->one.ctx, mt_weights_load(x->one.t, x->folder), "load whole");
  expect(x, "weights out, largest difference", 0, weight_difference(x), 0);
  reopen_many(x, c, 98);
  tiny_ok(&x->many.ctx, mt_weights_load(x->many.t, x->folder), "load cut");
  expect(x, "weights in, largest difference", 0, weight_difference(x), 0);
  compare_evaluation(x, 1e-5);
}

/* Writes to the first element of a weight, on the ranks of the stage that has it; gives what was there. */
static double exchange_first(test *x, double value) {
  const char *name = "layers.1.attn_o";
  place *p = &x->many;
  const mt_param *param = mt_params_by_name(&p->t->model->params, name);
  if (param == NULL) return 0;
  double *values = values_of(p, param, MT_VALUE_WEIGHT, param->count), old = values[0];
  values[0] = value;
  tiny_ok(&p->ctx, mt_trainer_write(p->t, name, values), "write");
  free(values);
  return old;
}

/* A weight that is no number: the step is skipped, the others stay as they are, and training goes on once it is one. */
static void check_skip(test *x) {
  double keep = exchange_first(x, NAN), norm = norm_after_step(&x->many);
  if (isfinite(norm)) expect(x, "norm with a weight that is no number", NAN, norm, 0);
  exchange_first(x, keep);
  expect(x, "weights after a skipped step, largest difference", 0, weight_difference(x), 0);
  norm = norm_after_step(&x->many);
  if (!isfinite(norm)) expect(x, "norm after a skipped step", 1, norm, 0);
}

static mt_config config_of(test *x) {
  mt_config c = tiny_config();
  c.ranks = x->many.world->size, c.global_tokens = c.rank_tokens * c.ranks * 2, c.lr = 1e-3;
  c.shard = MT_SHARD_FSDP, c.skip_step = true;
  tiny_set(&x->many.ctx, &c, x->row, ",");
  return c;
}

static void run_row(test *x) {
  mt_config c = config_of(x);
  tiny_ok(&x->many.ctx, mt_trainer_create(&x->many.ctx, &c, x->many.world, &x->many.t), x->row);
  open_one(x, &c, c.seed);
  compare_evaluation(x, 1e-5);
  int64_t allocs = x->many.t->dev->alloc_calls, waits = x->many.t->dev->host_waits;
  for (int step = 0; step < 2; step++)
    expect(x, "gradient norm", norm_after_step(&x->one), norm_after_step(&x->many), 1e-5);
  check_quiet(x, allocs, waits);
  check_weights(x, &c);
  check_skip(x);
  mt_trainer_destroy(x->one.t);
  mt_trainer_destroy(x->many.t);
  if (x->many.ctx.rank == 0 && x->failures == 0) printf("ok %s on %d ranks\n", x->row, x->many.world->size);
}

int main(int argc, char **argv) {
  test x = {0};
  mt_comm_mpi_config mpi = {.threaded = true, .timeout_s = 60};
  tiny_ok(&x.many.ctx, mt_comm_mpi_create(&x.many.ctx, &mpi, &x.many.world), "mpi");
  x.one.ctx.rank = x.many.ctx.rank;
  tiny_ok(&x.one.ctx, mt_comm_self_create(&x.one.ctx, &x.one.world), "self");
  for (int i = 2; i < argc; i++) {
    x.row = argv[i];
    snprintf(x.folder, sizeof x.folder, "%s-%d", argv[1], i);
    run_row(&x);
  }
  mt_comm_destroy(x.one.world);
  mt_comm_destroy(x.many.world);
  return x.failures > 0;
}
