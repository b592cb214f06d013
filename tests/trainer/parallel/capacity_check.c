/* The rowwise pool on two ranks, with a capacity that drops: Olmo-core's worked example is in test_route_map.c; here
 * the whole trainer.
 *   - a destination never takes more rows than its capacity, and the rows that the experts see are the kept ones
 *   - rows beyond the received ones are never read: filled with NaN before every microbatch, they change no bit
 *   - there is no buffer that rows are packed into: the window holds what experts read and write, and small tables
 * Prints what it found; a failure prints what, index, expected, got. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/trainer/support/tiny.h"

enum { STEPS = 3 };

typedef struct check {
  mk_context ctx;
  mt_comm *world;
  int failures;
  int64_t dropped, tails; /* routes dropped; MoE layers with unused rows */
} check;

static void expect(check *c, const char *what, int64_t index, double expected, double got, bool good) {
  if (good) return;
  fprintf(stderr, "FAIL rank %d: %s index %lld: expected %.9g got %.9g\n", c->ctx.rank, what, (long long)index,
          expected, got);
  c->failures += 1;
}

static mt_config drop_config(int ranks) {
  mt_config c = tiny_config();
  c.ranks = ranks, c.ep = ranks, c.shard = MT_SHARD_DIST_OPT, c.ep_transport = MT_EP_ROWWISE;
  /* as many rows as routes of a rank: any imbalance drops somewhere and leaves room elsewhere */
  c.capacity_factor = 1.0;
  c.global_tokens = c.rank_tokens * ranks * 2;
  return c;
}

/* NaN in every dtype. */
static void poison(check *c, mt_trainer *t) {
  mt_model *m = t->model;
  tiny_ok(&c->ctx, mt_comm_barrier(t->mesh->ep, t->compute), "poison"); /* a peer may still read the last gradients */
  mk_tensor *shared[] = {&m->ep->expert_out, &m->ep->expert_d_out, &m->scratch.d_act, &m->scratch.d_up_gate};
  for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++)
    tiny_ok(&c->ctx, mk_fill(t->compute, shared[i], 0xff), "poison");
  for (int l = 0; l < m->cfg->layers; l++) {
    mt_mlp *mlp = &m->set[0].layer[l].mlp;
    mk_tensor *own[] = {&mlp->ep.rows, &mlp->ep.returned, &mlp->up_gate, &mlp->act};
    for (size_t i = 0; m->set[0].layer[l].moe >= 0 && i < sizeof own / sizeof own[0]; i++)
      tiny_ok(&c->ctx, mk_fill(t->compute, own[i], 0xff), "poison");
  }
  tiny_ok(&c->ctx, mt_comm_barrier(t->mesh->ep, t->compute), "poison"); /* before a peer puts rows here */
}

/* After a microbatch: `keep` is the last MoE layer's, `offsets` every layer's. */
static void check_pool(check *c, mt_trainer *t) {
  const mt_ep *ep = t->ep;
  int64_t n = ep->ranks * ep->experts, local = ep->experts / ep->ranks;
  double *keep = malloc((size_t)n * sizeof *keep), *offsets = malloc((size_t)(local + 1) * sizeof *offsets);
  tiny_ok(&c->ctx, mt_trainer_tensor_read(t, &ep->keep, keep), "keep");
  for (int d = 0; d < ep->ranks; d++) {
    double kept = 0;
    for (int64_t i = 0; i < n; i++)
      kept += i % ep->experts / local == d ? keep[i] : 0;
    expect(c, "rows kept by a destination, at most its capacity", d, (double)ep->rows_max, kept,
           kept <= (double)ep->rows_max);
    const mt_layer *last = &t->model->set[0].layer[t->model->cfg->layers - 1];
    tiny_ok(&c->ctx, mt_trainer_tensor_read(t, &last->mlp.ep.offsets, offsets), "offsets");
    if (d == ep->rank) expect(c, "rows the experts see", d, kept, offsets[local], offsets[local] == kept);
    c->tails += d == ep->rank && kept < (double)ep->rows_max;
  }
  free(offsets);
  free(keep);
}

static void check_window(check *c, mt_trainer *t) {
  const mt_ep *ep = t->ep;
  int64_t row = ep->d_model * (int64_t)mk_dtype_bytes(ep->dtype);
  int64_t buffers = (mt_config_moe_layers(&t->cfg) + 2) * ep->rows_max * row;
  int64_t tables = 8 * ep->ranks + 4 * (ep->tokens * ep->top_k + ep->ranks * ep->experts);
  int64_t got = (int64_t)t->memory.arena[MK_MEM_COMM].peak_bytes, most = buffers + tables + 64 * 8;
  expect(c, "bytes of the window, at most input and output rows and tables", 0, (double)most, (double)got,
         got >= buffers && got <= most);
  expect(c, "a packing buffer", 0, 0, 1, !mk_tensor_present(&ep->send) && !mk_tensor_present(&ep->recv));
  if (c->ctx.rank == 0)
    printf(
        "window %lld bytes: %lld of rows that experts read and write, %lld of tables and gaps; a packing buffer would "
        "take %lld\n",
        (long long)got, (long long)buffers, (long long)(got - buffers), (long long)(ep->tokens * ep->top_k * row));
}

/* Parameters after three steps. */
static double *train(check *c, bool poisoned, int64_t *count) {
  mt_trainer *t = NULL;
  mt_data *data = NULL;
  mt_config cfg = drop_config(c->world->size);
  double sums[MK_SUM_COUNT];
  int32_t *tokens = malloc((size_t)cfg.rank_tokens * 4), *labels = malloc((size_t)cfg.rank_tokens * 4);
  tiny_ok(&c->ctx, mt_trainer_create(&c->ctx, &cfg, c->world, &t), "create");
  tiny_ok(&c->ctx, mt_data_create(&c->ctx, &cfg, t->mesh->plan.dp_rank, &data), "data");
  check_window(c, t);
  for (int n = 0; n < STEPS; n++) {
    tiny_ok(&c->ctx, mt_trainer_begin(t), "begin");
    for (int64_t m = 0; m < t->microbatches; m++) {
      if (poisoned) poison(c, t);
      tiny_ok(&c->ctx, mt_data_batch(data, n, m, tokens, labels), "batch");
      tiny_ok(&c->ctx, mt_trainer_microbatch(t, tokens, labels), "microbatch");
      check_pool(c, t);
    }
    tiny_ok(&c->ctx, mt_trainer_reduce(t), "reduce");
    tiny_ok(&c->ctx, mt_trainer_tensor_read(t, &t->model->sums, sums), "sums");
    c->dropped += (int64_t)sums[MK_SUM_DROPPED];
    tiny_ok(&c->ctx, mt_trainer_update(t), "update");
  }
  const mt_params *params = &t->model->params;
  *count = params->flat_count[0] + params->flat_count[1];
  double *values = calloc((size_t)*count, sizeof *values), *at = values;
  for (int i = 0; i < params->count; at += params->item[i++].count)
    tiny_ok(&c->ctx, mt_trainer_read(t, params->item[i].name, MT_VALUE_WEIGHT, at), "weights");
  mt_data_destroy(data);
  mt_trainer_destroy(t);
  free(labels);
  free(tokens);
  return values;
}

int main(void) {
  check c = {0};
  int64_t count = 0;
  mt_comm_mpi_config mpi = {.timeout_s = 60};
  tiny_ok(&c.ctx, mt_comm_mpi_create(&c.ctx, &mpi, &c.world), "mpi");
  double *clean = train(&c, false, &count), *poisoned = train(&c, true, &count);
  for (int64_t i = 0; i < count; i++) {
    if (memcmp(&clean[i], &poisoned[i], sizeof clean[i]) == 0) continue;
    expect(&c, "parameter with poisoned tails", i, clean[i], poisoned[i], false);
    break;
  }
  expect(&c, "dropped routes, at least", 0, 1, (double)c.dropped, c.dropped > 0); /* or nothing was tested */
  double tails = (double)c.tails; /* of this rank: the other one may be full */
  if (c.ctx.rank == 0)
    printf("%lld routes dropped, %g of %d microbatches of rank 0 left unused rows\n", (long long)c.dropped, tails,
           2 * 2 * STEPS);
  free(poisoned);
  free(clean);
  mt_comm_destroy(c.world);
  return c.failures > 0;
}
