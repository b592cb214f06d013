/* Windowed transports with a capacity that drops: worked examples are in test_route_map.c; here the whole trainer.
 * Each argument is a row "key=value ..." over the configuration below.
 *   - a destination never takes more rows than its capacity, an expert no more than its own under capacity_scope
 *     expert, and all that is asked for where that is less
 *   - given the counts, rows kept, routes dropped and bytes through the windows are the predicted ones, and device
 *     memory stays within the prediction
 *   - rows beyond the received ones are never read: filled with NaN before every microbatch, they change no bit
 *   - a capacity that never drops is dropless, bit for bit
 *   - there is no buffer that rows are packed into: the window holds what experts read and write, and small tables
 * Prints what it found; a failure prints what, index, expected, got. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/min_max.h"
#include "tests/trainer/support/tiny.h"
#include "trainer/step/predict.h"

enum { STEPS = 3 };

typedef struct check {
  mk_context ctx;
  mt_comm *world;
  int failures;
  int64_t dropped;   /* routes of all ranks */
  int64_t predicted; /* routes of this rank in this step that drop, by the counts */
  int64_t tails;     /* MoE layers with unused rows */
} check;

static void expect(check *c, const char *what, int64_t index, double expected, double got, bool good) {
  if (good) return;
  fprintf(stderr, "FAIL rank %d: %s index %lld: expected %.9g got %.9g\n", c->ctx.rank, what, (long long)index,
          expected, got);
  c->failures += 1;
}

static mt_config drop_config(check *c, const char *row) {
  mt_config out = tiny_config();
  int ranks = c->world->size;
  out.ranks = ranks, out.ep = ranks, out.shard = MT_SHARD_DIST_OPT, out.ep_transport = MT_EP_ROWWISE;
  /* as many rows as routes of a rank: any imbalance drops somewhere and leaves room elsewhere */
  out.capacity_factor = 1.0;
  out.global_tokens = out.rank_tokens * ranks * 2;
  tiny_set(&c->ctx, &out, row, " ");
  tiny_ok(&c->ctx, mt_config_check(&c->ctx, &out), row);
  return out;
}

static void fill_nan(check *c, mt_trainer *t, mk_tensor *const *tensors, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (mk_tensor_present(tensors[i])) tiny_ok(&c->ctx, mk_fill(t->compute, tensors[i], 0xff), "poison");
}

/* NaN in every dtype. */
static void poison(check *c, mt_trainer *t) {
  mt_model *m = t->model;
  tiny_ok(&c->ctx, mt_comm_barrier(t->mesh->ep, t->compute), "poison"); /* a peer may still read the last gradients */
  mk_tensor *shared[] = {&m->ep->expert_out, &m->ep->expert_d_out, &m->ep->row_dweights, &m->scratch.d_act,
                         &m->scratch.d_up_gate};
  fill_nan(c, t, shared, sizeof shared / sizeof shared[0]);
  for (int l = 0; l < m->cfg->layers; l++) {
    mt_mlp *mlp = &m->set[0].layer[l].mlp;
    mk_tensor *own[] = {&mlp->ep.rows, &mlp->ep.returned, &mlp->ep.row_weights, &mlp->up_gate, &mlp->act};
    if (m->set[0].layer[l].moe >= 0) fill_nan(c, t, own, sizeof own / sizeof own[0]);
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
    expect(c, "rows kept by a destination, at most its capacity", d, (double)ep->capacity, kept,
           kept <= (double)ep->capacity);
    const mt_layer *last = &t->model->set[0].layer[t->model->cfg->layers - 1];
    tiny_ok(&c->ctx, mt_trainer_tensor_read(t, &last->mlp.ep.offsets, offsets), "offsets");
    if (d == ep->rank) expect(c, "rows the experts see", d, kept, offsets[local], offsets[local] == kept);
    c->tails += d == ep->rank && kept < (double)ep->rows_max;
  }
  free(offsets);
  free(keep);
}

/* Rows that this rank's experts got, from the counts [R,E] and the configuration alone. */
static void check_experts(check *c, mt_trainer *t, const int32_t *requested, const double *offsets) {
  const mt_config *cfg = &t->cfg;
  const mt_ep *ep = t->ep;
  int64_t local = ep->experts / ep->ranks, all = ep->ranks * ep->tokens * ep->top_k, total = 0;
  bool scoped = cfg->capacity_scope == MT_CAPACITY_EXPERT;
  double share = cfg->capacity_factor * (double)(ep->tokens * ep->top_k) / (scoped ? (double)local : 1);
  int64_t bound = cfg->capacity_factor > 0 ? mk_min((int64_t)fmax(ceil(share), 1), all) : all;
  for (int64_t l = 0; l < local; l++) {
    int64_t asked = 0, got = (int64_t)(offsets[l + 1] - offsets[l]);
    for (int s = 0; s < ep->ranks; s++)
      asked += requested[s * ep->experts + ep->rank * local + l];
    if (scoped) expect(c, "rows of expert", l, (double)mk_min(asked, bound), (double)got, got == mk_min(asked, bound));
    total += asked;
  }
  if (!scoped)
    expect(c, "rows of the rank", 0, (double)mk_min(total, bound), offsets[local],
           offsets[local] == (double)mk_min(total, bound));
}

/* Where the own routes went, against what the formulas make of the counts. */
static void check_predictions(check *c, mt_trainer *t, const mt_ep_layer *layer, const int32_t *requested) {
  const mt_ep *ep = t->ep;
  int64_t routes = ep->tokens * ep->top_k, sent = 0, left = routes;
  double *to = malloc((size_t)routes * sizeof *to);
  tiny_ok(&c->ctx, mt_trainer_tensor_read(t, &layer->dst_rank, to), "dst_rank");
  for (int d = 0; d < ep->ranks; d++) {
    int64_t kept = mt_ep_kept(ep, requested, ep->rank, d), got = 0;
    for (int64_t r = 0; r < routes; r++)
      got += to[r] == d;
    expect(c, "routes kept at a destination", d, (double)kept, (double)got, got == kept);
    sent += d == ep->rank ? 0 : got;
    left -= kept;
  }
  c->predicted += left;
  int64_t weight = ep->ops->weighs_rows ? (int64_t)mk_dtype_bytes(mt_ep_master(ep)) : 0;
  int64_t bytes = sent * (2 * ep->d_model * (int64_t)mk_dtype_bytes(ep->dtype) + weight);
  for (int backward = 0; backward < 2; backward++) {
    int64_t wire = ep->ops->wire(ep, requested, backward == 1).window_bytes;
    expect(c, "bytes through the windows, forward and backward", backward, (double)wire, (double)bytes, bytes == wire);
  }
  free(to);
}

static void check_layers(check *c, mt_trainer *t) {
  const mt_ep *ep = t->ep;
  int64_t n = ep->ranks * ep->experts, local = ep->experts / ep->ranks;
  double *values = malloc((size_t)n * sizeof *values), *offsets = malloc((size_t)(local + 1) * sizeof *offsets);
  int32_t *requested = malloc((size_t)n * sizeof *requested);
  for (int l = 0; l < t->cfg.layers; l++) {
    const mt_layer *layer = &t->model->set[0].layer[l];
    if (layer->moe < 0) continue;
    tiny_ok(&c->ctx, mt_trainer_tensor_read(t, &layer->mlp.ep.requested, values), "requested");
    tiny_ok(&c->ctx, mt_trainer_tensor_read(t, &layer->mlp.ep.offsets, offsets), "offsets");
    for (int64_t i = 0; i < n; i++)
      requested[i] = (int32_t)values[i];
    check_experts(c, t, requested, offsets);
    check_predictions(c, t, &layer->mlp.ep, requested);
  }
  free(requested);
  free(offsets);
  free(values);
}

static void check_memory(check *c, mt_trainer *t) {
  mt_memory memory = mt_predict_memory(&t->cfg, &t->mesh->plan, &t->model->params, t->ep, t->pp, t->dev);
  double most = (double)mt_memory_total(&memory), counted = (double)t->dev->peak_total_bytes;
  expect(c, "device memory, at most", 0, most, counted, counted <= most);
}

static void check_window(check *c, mt_trainer *t) {
  const mt_ep *ep = t->ep;
  int64_t row = ep->d_model * (int64_t)mk_dtype_bytes(ep->dtype), layers = mt_config_moe_layers(&t->cfg);
  int64_t weight = ep->ops->weighs_rows ? (int64_t)mk_dtype_bytes(mt_ep_master(ep)) : 0;
  int64_t buffers = ep->rows_max * ((layers + 2) * row + (layers + 1) * weight);
  int64_t tensors = 8 + (weight > 0 ? layers + 1 : 0); /* each starts on a multiple of 64 bytes */
  int64_t tables = 8 * ep->ranks + 4 * (ep->tokens * ep->top_k + ep->ranks * ep->experts);
  int64_t got = (int64_t)t->memory.arena[MK_MEM_COMM].peak_bytes, most = buffers + tables + 64 * tensors;
  expect(c, "bytes of the window, at most input and output rows and tables", 0, (double)most, (double)got,
         got >= buffers && got <= most);
  expect(c, "a packing buffer", 0, 0, 1, !mk_tensor_present(&ep->send) && !mk_tensor_present(&ep->recv));
  if (c->ctx.rank == 0)
    printf(
        "window %lld bytes: %lld of rows that experts read and write, %lld of tables and gaps; a packing buffer would "
        "take %lld\n",
        (long long)got, (long long)buffers, (long long)(got - buffers), (long long)(ep->tokens * ep->top_k * row));
}

/* Parameters after three steps; the caller frees them. */
static double *train(check *c, const mt_config *cfg, bool poisoned, int64_t *count) {
  mt_trainer *t = NULL;
  mt_data *data = NULL;
  double sums[MK_SUM_COUNT];
  int32_t *tokens = malloc((size_t)cfg->rank_tokens * 4), *labels = malloc((size_t)cfg->rank_tokens * 4);
  tiny_ok(&c->ctx, mt_trainer_create(&c->ctx, cfg, c->world, &t), "create");
  tiny_ok(&c->ctx, mt_data_create(&c->ctx, cfg, t->mesh->plan.dp_rank, &data), "data");
  c->dropped = c->tails = 0;
  check_window(c, t);
  for (int n = 0; n < STEPS; n++) {
    c->predicted = 0;
    tiny_ok(&c->ctx, mt_trainer_begin(t), "begin");
    for (int64_t m = 0; m < t->microbatches; m++) {
      if (poisoned) poison(c, t);
      tiny_ok(&c->ctx, mt_data_batch(data, n, m, tokens, labels), "batch");
      tiny_ok(&c->ctx, mt_trainer_microbatch(t, tokens, labels), "microbatch");
      check_pool(c, t);
      check_layers(c, t);
    }
    tiny_ok(&c->ctx, mt_trainer_tensor_read(t, &t->model->sums, sums), "sums");
    expect(c, "dropped routes of this rank in step", n, (double)c->predicted, sums[MK_SUM_DROPPED],
           sums[MK_SUM_DROPPED] == (double)c->predicted);
    tiny_ok(&c->ctx, mt_trainer_reduce(t), "reduce");
    tiny_ok(&c->ctx, mt_trainer_tensor_read(t, &t->model->sums, sums), "sums");
    c->dropped += (int64_t)sums[MK_SUM_DROPPED];
    tiny_ok(&c->ctx, mt_trainer_update(t), "update");
  }
  check_memory(c, t);
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

/* The first difference of two runs. */
static void expect_same_bits(check *c, const char *what, const double *expected, const double *got, int64_t count) {
  int64_t i = 0;
  while (i < count && memcmp(&expected[i], &got[i], sizeof got[i]) == 0)
    i++;
  if (i < count) expect(c, what, i, expected[i], got[i], false);
}

static void check_row(check *c, const char *row) {
  int64_t count = 0;
  mt_config cfg = drop_config(c, row), dropless = cfg, roomy = cfg;
  double *clean = train(c, &cfg, false, &count), *poisoned = train(c, &cfg, true, &count);
  expect_same_bits(c, "parameter with poisoned tails", clean, poisoned, count);
  expect(c, "dropped routes, at least", 0, 1, (double)c->dropped, c->dropped > 0); /* or nothing was tested */
  double tails = (double)c->tails; /* of this rank: the other one may be full */
  if (c->ctx.rank == 0)
    printf("%s: %lld routes dropped, %g of %d microbatches of rank 0 left unused rows\n", row, (long long)c->dropped,
           tails, 2 * STEPS);
  dropless.capacity_factor = 0;
  roomy.capacity_factor = (double)cfg.experts; /* all routes of the group fit into one expert */
  double *whole = train(c, &dropless, false, &count), *same = train(c, &roomy, false, &count);
  expect(c, "dropped where all routes fit", 0, 0, (double)c->dropped, c->dropped == 0);
  expect_same_bits(c, "parameter where all routes fit", whole, same, count);
  free(same);
  free(whole);
  free(poisoned);
  free(clean);
}

int main(int argc, char **argv) {
  check c = {0};
  mt_comm_mpi_config mpi = {.timeout_s = 60};
  tiny_ok(&c.ctx, mt_comm_mpi_create(&c.ctx, &mpi, &c.world), "mpi");
  for (int i = 1; i < argc; i++)
    check_row(&c, argv[i]);
  mt_comm_destroy(c.world);
  return c.failures > 0;
}
