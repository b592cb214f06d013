/* SkipStep under every layout: each argument is a row "key=value ..." over the tiny model, run beside one rank that
 * sees the same tokens. The histories of losses and norms are set before each of four steps, so that in turn nothing,
 * the rule of the loss, the rule of the norm, and nothing fires, each bound a thousandth beside the value of one rank.
 * Then every rank must decide as the one does, a skipped step change no bit, and the parameters after all four be
 * those of one rank. A failure prints row, what, step. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/trainer/support/tiny.h"

enum { STEPS = 4, ENTRIES = 64 };
static const bool FIRES[STEPS][2] = {{false, false}, {true, false}, {false, true}, {false, false}}; /* loss, norm */
static const double BESIDE = 1e-3, TOLERANCE = 1e-5, NEVER = 1e30;

typedef struct bounds {
  double loss, norm;
} bounds;

typedef struct check {
  mk_context ctx;
  mt_comm *world;
  const char *row;
  int failures;
} check;

static void expect(check *c, bool good, const char *what, int step, double expected, double got) {
  if (good) return;
  fprintf(stderr, "FAIL '%s' rank %d: %s, step %d: expected %.9g got %.9g\n", c->row, c->world->rank, what, step + 1,
          expected, got);
  c->failures += 1;
}

/* One step whose rules fire above the bounds; gives the state behind it, whose newest entries are loss and norm. */
static mk_step_state bounded_step(mk_context *ctx, mt_trainer *t, bounds b) {
  mk_step_state state = tiny_state(t);
  for (int i = 0; i < ENTRIES; i++) { /* a mean of the bound, and next to no deviation */
    double near = i % 2 == 0 ? 1 - 1e-9 : 1 + 1e-9;
    state.loss_history[i] = b.loss * near;
    state.norm_history[i] = b.norm * near;
  }
  state.history = ENTRIES;
  tiny_ok(ctx, mk_copy_h2d(t->compute, &t->model->state, &state), "state");
  tiny_ok(ctx, mk_stream_sync(t->compute, false), "state");
  tiny_train(ctx, t, 1, false);
  return tiny_state(t);
}

static bounds bounds_of(const mk_step_state *state, int step) {
  double loss = state->loss_history[ENTRIES], norm = state->norm_history[ENTRIES];
  return (bounds){loss * (FIRES[step][0] ? 1 - BESIDE : 1 + BESIDE), norm * (FIRES[step][1] ? 1 - BESIDE : 1 + BESIDE)};
}

/* Bounds for every step from one rank: each step is looked at first, after those before it under their bounds. */
static void find_bounds(const mt_config *one, bounds found[STEPS]) {
  for (int step = 0; step < STEPS; step++) {
    tiny_rank r;
    tiny_open(&r, one);
    for (int i = 0; i < step; i++)
      bounded_step(&r.ctx, r.t, found[i]);
    mk_step_state state = bounded_step(&r.ctx, r.t, (bounds){NEVER, NEVER});
    found[step] = bounds_of(&state, step);
    tiny_close(&r);
  }
}

static void compare_params(check *c, mt_trainer *got, tiny_rank *one) {
  for (int i = 0; i < got->model->params.count; i++) {
    const mt_param *p = &got->model->params.item[i];
    double error = tiny_param_error(got, one->t, p, MT_VALUE_WEIGHT);
    expect(c, error <= TOLERANCE, p->name, STEPS - 1, 0, error);
  }
}

/* One step of the row and of one rank: the same decision, and where it is to skip, no other bits. */
static void compare_step(check *c, mt_trainer *t, tiny_rank *one, bounds b, int step) {
  int64_t count = 0;
  double *before = tiny_values(&c->ctx, t, MT_VALUE_WEIGHT, &count);
  mk_step_state expected = bounded_step(&one->ctx, one->t, b), got = bounded_step(&c->ctx, t, b);
  double *after = tiny_values(&c->ctx, t, MT_VALUE_WEIGHT, &count);
  int skips = FIRES[step][0] || FIRES[step][1];
  double loss = expected.loss_history[ENTRIES], norm = expected.norm_history[ENTRIES];
  expect(c, expected.skip == skips, "one rank skips", step, skips, expected.skip);
  expect(c, got.skip == skips, "skips", step, skips, got.skip);
  expect(c, got.taken == expected.taken, "steps taken", step, (double)expected.taken, (double)got.taken);
  expect(c, fabs(got.loss_history[ENTRIES] - loss) <= TOLERANCE * loss, "loss", step, loss, got.loss_history[ENTRIES]);
  expect(c, fabs(got.norm_history[ENTRIES] - norm) <= TOLERANCE * norm, "norm", step, norm, got.norm_history[ENTRIES]);
  bool same = memcmp(before, after, (size_t)count * sizeof *after) == 0;
  expect(c, same == (skips != 0), "parameters stay", step, skips, same);
  free(after);
  free(before);
}

static void check_row(check *c, const char *row) {
  bounds b[STEPS];
  tiny_rank one;
  mt_trainer *t = NULL;
  mt_config cfg = tiny_config();
  c->row = row;
  cfg.ranks = c->world->size, cfg.skip_step = true, cfg.lr = 1e-3, cfg.bucket_mib = 0.02;
  cfg.rank_tokens = 2 * cfg.seq_len, cfg.global_tokens = cfg.rank_tokens * 2 * cfg.ranks;
  tiny_set(&c->ctx, &cfg, row, " ");
  mt_config alone = cfg;
  alone.ranks = alone.ep = alone.pp = 1, alone.shard = MT_SHARD_NONE, alone.pp_schedule = MT_PP_1F1B;
  alone.fsdp_shard_ranks = 0, snprintf(alone.device, sizeof alone.device, "cpu");
  find_bounds(&alone, b);
  tiny_open(&one, &alone);
  tiny_ok(&c->ctx, mt_trainer_create(&c->ctx, &cfg, c->world, &t), row);
  for (int step = 0; step < STEPS; step++)
    compare_step(c, t, &one, b[step], step);
  compare_params(c, t, &one);
  mt_trainer_destroy(t);
  tiny_close(&one);
  if (c->failures == 0 && c->world->rank == 0) printf("ok %s on %d ranks\n", row, c->world->size);
}

int main(int argc, char **argv) {
  check c = {0};
  mt_comm_mpi_config mpi = {.threaded = true, .timeout_s = 60};
  tiny_ok(&c.ctx, mt_comm_mpi_create(&c.ctx, &mpi, &c.world), "mpi");
  for (int i = 1; i < argc; i++)
    check_row(&c, argv[i]);
  mt_comm_destroy(c.world);
  return c.failures > 0;
}
