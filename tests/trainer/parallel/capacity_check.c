/* Windowed transports with a capacity that drops: worked examples are in test_route_map.c; here the whole trainer.
 * Each argument is a row "key=value ..." over the configuration below.
 *   - a destination never takes more rows than its capacity, an expert no more than its own under capacity_scope
 *     expert, and all that is asked for where that is less
 *   - given the experts that the ranks chose, rows kept, routes dropped and bytes through the windows (window_tally.h)
 *     are the predicted ones, and device memory stays within the prediction
 *   - rows beyond the received ones are never read: filled with NaN before every microbatch, they change no bit
 *   - a capacity that never drops is dropless, bit for bit, and recompute changes neither drops nor bits
 *   - there is no buffer that rows are packed into: the window holds what experts read and write, and small tables;
 *     with MXFP8 on the wire rows are quantised into one
 * Prints what it found; a failure prints what, index, expected, got. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/min_max.h"
#include "tests/trainer/parallel/window_tally.h"
#include "tests/trainer/support/tiny.h"
#include "trainer/step/predict.h"

enum { STEPS = 3, MOST_COUNTS = 4096 };

typedef struct check {
  mk_context ctx;
  mt_comm *world;
  int failures;
  int64_t dropped; /* routes of all ranks */
  int64_t tails;   /* MoE layers with unused rows, of those looked at */
  mk_device *dev;  /* what ranks tell each other */
  mk_stream *stream;
  mk_tensor table; /* i64 [MOST_COUNTS] */
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
  tiny_set(&c->ctx, &out, row, " ");
  if (out.precision == MT_MXFP8) { /* blocks of 32 */
    out.d_model = 64, out.head_dim = 16, out.dense_hidden = 64, out.expert_hidden = 32, out.shared_hidden = 32;
    out.seq_len = 16, out.rank_tokens = 64;
  }
  out.global_tokens = out.rank_tokens * ranks * 2;
  tiny_ok(&c->ctx, mt_config_check(&c->ctx, &out), row);
  return out;
}

static void fill_nan(check *c, mt_trainer *t, mk_tensor *const *tensors, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (mk_tensor_present(tensors[i])) tiny_ok(&c->ctx, mk_fill(t->compute, tensors[i], 0xff), "poison");
}

/* NaN in every dtype, in MXFP8 as element and as scale. */
static void poison(check *c, mt_trainer *t) {
  mt_model *m = t->model;
  tiny_ok(&c->ctx, mt_comm_barrier(t->mesh->ep, t->compute), "poison"); /* a peer may still read the last gradients */
  mk_tensor *shared[] = {&m->ep->expert_out,       &m->ep->expert_d_out, &m->ep->row_dweights,
                         &m->ep->out_q.q,          &m->ep->out_q.scale,  &m->ep->d_out_q.q,
                         &m->ep->d_out_q.scale,    &m->ep->rows,         &m->scratch.expert_out,
                         &m->scratch.expert_d_out, &m->scratch.d_act,    &m->scratch.d_up_gate};
  fill_nan(c, t, shared, sizeof shared / sizeof shared[0]);
  for (int i = 0; i < m->sets * m->n_layers; i++) {
    mt_mlp *mlp = &m->layers[i].mlp;
    mk_tensor *own[] = {
        &mlp->ep.rows, &mlp->ep.rows_q.q, &mlp->ep.rows_q.scale, &mlp->ep.returned, &mlp->ep.row_weights,
        &mlp->up_gate, &mlp->act,         &mlp->act_q.q,         &mlp->act_q.scale, &mlp->down};
    if (m->layers[i].moe >= 0) fill_nan(c, t, own, sizeof own / sizeof own[0]);
  }
  tiny_ok(&c->ctx, mt_comm_barrier(t->mesh->ep, t->compute), "poison"); /* before a peer puts rows here */
}

/* After a microbatch of one stage that keeps its layers: `keep` is the last MoE layer's, `offsets` every layer's. */
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
  int64_t most = scoped ? ep->ranks * ep->tokens : all; /* a token goes to an expert at most once */
  int64_t bound = cfg->capacity_factor > 0 ? mk_min((int64_t)fmax(ceil(share), 1), most) : all;
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
static void check_destinations(check *c, mt_trainer *t, const mt_ep_layer *layer, const int32_t *requested) {
  const mt_ep *ep = t->ep;
  int64_t routes = ep->tokens * ep->top_k;
  double *to = malloc((size_t)routes * sizeof *to);
  tiny_ok(&c->ctx, mt_trainer_tensor_read(t, &layer->dst_rank, to), "dst_rank");
  for (int d = 0; d < ep->ranks; d++) {
    int64_t kept = mt_ep_kept(ep, requested, ep->rank, d), got = 0;
    for (int64_t r = 0; r < routes; r++)
      got += to[r] == d;
    expect(c, "routes kept at a destination", d, (double)kept, (double)got, got == kept);
  }
  free(to);
}

static void check_layer(check *c, mt_trainer *t, const mt_layer *layer) {
  const mt_ep *ep = t->ep;
  int64_t n = ep->ranks * ep->experts, local = ep->experts / ep->ranks;
  double *values = malloc((size_t)n * sizeof *values), *offsets = malloc((size_t)(local + 1) * sizeof *offsets);
  int32_t *requested = malloc((size_t)n * sizeof *requested);
  tiny_ok(&c->ctx, mt_trainer_tensor_read(t, &layer->mlp.ep.requested, values), "requested");
  tiny_ok(&c->ctx, mt_trainer_tensor_read(t, &layer->mlp.ep.offsets, offsets), "offsets");
  for (int64_t i = 0; i < n; i++)
    requested[i] = (int32_t)values[i];
  check_experts(c, t, requested, offsets);
  check_destinations(c, t, &layer->mlp.ep, requested);
  c->tails += offsets[local] < (double)ep->rows_max;
  free(requested);
  free(offsets);
  free(values);
}

/* After passes that used the first `sets` sets: what is left of their layers. Layers that share their tensors
 * (recompute) show the first one's, which the backward pass came to last. */
static void check_layers(check *c, mt_trainer *t, int sets) {
  for (int s = 0; s < sets; s++) {
    bool seen = false;
    for (int l = 0; l < t->model->n_layers; l++) {
      const mt_layer *layer = &t->model->set[s].layer[l];
      if (layer->moe < 0 || (seen && t->cfg.recompute == MT_RECOMPUTE_FULL)) continue;
      check_layer(c, t, layer);
      seen = true;
    }
  }
}

/* counts [microbatches, MoE layers of this rank, R, E] of the running step, from the experts that every rank of the EP
 * group noted in its t->routes. The caller frees them. */
static int32_t *chosen_counts(check *c, mt_trainer *t) {
  const mt_ep *ep = t->ep;
  int64_t moe = mt_config_moe_layers(&t->cfg), layers = 0, routes = ep->tokens * ep->top_k,
          table = ep->ranks * ep->experts;
  int64_t n = t->microbatches * mt_params_layers(&t->model->params, false) * table;
  int64_t *values = c->table.data;
  int32_t *counts = calloc((size_t)n, sizeof *counts);
  expect(c, "counts that fit", 0, MOST_COUNTS, (double)n, n <= MOST_COUNTS);
  memset(values, 0, MOST_COUNTS * sizeof *values);
  for (int64_t i = 0; i < t->microbatches * moe; i++) {
    const int32_t *chosen = t->routes + i * routes;
    if (chosen[0] < 0) continue; /* another stage's layer */
    for (int64_t r = 0; r < routes; r++)
      values[layers * table + ep->rank * ep->experts + chosen[r]] += 1;
    layers += 1;
  }
  expect(c, "MoE layers that chose", 0, (double)(n / table), (double)layers, layers == n / table);
  tiny_ok(&c->ctx, mt_comm_all_reduce(t->mesh->ep, &c->table, &c->table, MT_SUM, c->stream), "counts");
  for (int64_t i = 0; i < n; i++)
    counts[i] = (int32_t)values[i];
  return counts;
}

/* Of a step before its reduction, given the counts: routes that this rank dropped, bytes through its windows. */
static void check_predictions(check *c, mt_trainer *t, int step, int64_t window_bytes) {
  const mt_ep *ep = t->ep;
  int64_t table = ep->ranks * ep->experts, left = 0;
  int64_t layers = t->microbatches * mt_params_layers(&t->model->params, false);
  double sums[MK_SUM_COUNT];
  tiny_ok(&c->ctx, mt_trainer_tensor_read(t, &t->model->sums, sums), "sums"); /* waits for the stream */
  int32_t *counts = chosen_counts(c, t);
  for (int64_t i = 0; i < layers; i++) {
    left += ep->tokens * ep->top_k;
    for (int d = 0; d < ep->ranks; d++)
      left -= mt_ep_kept(ep, counts + i * table, ep->rank, d);
  }
  expect(c, "dropped routes of this rank in step", step, (double)left, sums[MK_SUM_DROPPED],
         sums[MK_SUM_DROPPED] == (double)left);
  mt_wire wire = mt_predict_wire(&t->cfg, &t->mesh->plan, &t->model->params, ep, t->pp, counts);
  int64_t bytes = window_tally_bytes(t) - window_bytes;
  expect(c, "bytes through the windows in step", step, (double)wire.window, (double)bytes, bytes == wire.window);
  free(counts);
}

static void check_memory(check *c, mt_trainer *t) {
  mt_memory memory = mt_predict_memory(&t->cfg, &t->mesh->plan, &t->model->params, t->ep, t->pp, t->dev);
  double most = (double)mt_memory_total(&memory), counted = (double)t->dev->peak_total_bytes;
  expect(c, "device memory, at most", 0, most, counted, counted <= most);
}

/* The window holds rows of each layer in each set, or of one where layers share theirs or rows are quantised after they
 * came; and the experts' output and its gradient. */
static int64_t window_buffers(const mt_trainer *t, int64_t *tensors) {
  const mt_ep *ep = t->ep;
  bool shared = t->cfg.recompute == MT_RECOMPUTE_FULL, quantised = mt_ep_arrives_mxfp8(ep);
  int64_t n = ep->rows_max, routes = ep->tokens * ep->top_k;
  int64_t layers = shared ? 1 : t->model->sets * (int64_t)t->model->moe_chunk;
  int64_t rows = 2 + (ep->mxfp8 && !quantised ? 1 : layers);
  int64_t bytes = rows * (quantised ? mt_ep_quantised_bytes(ep, n) : mt_ep_row_bytes(ep, n));
  *tensors = quantised ? 2 * rows : rows;
  if (quantised) { /* one buffer that rows are quantised into before they travel */
    bytes += mt_ep_quantised_bytes(ep, routes) + mt_ep_row_bytes(ep, routes);
    *tensors += 3;
  }
  if (ep->ops->weighs_rows) {
    bytes += n * (layers + 1) * (int64_t)mk_dtype_bytes(mt_ep_master(ep));
    *tensors += layers + 1;
  }
  return bytes;
}

static void check_window(check *c, mt_trainer *t) {
  enum { TABLES = 3, GAP = 64 }; /* peers, identity, keep; each tensor starts on a multiple of 64 bytes */
  const mt_ep *ep = t->ep;
  int64_t routes = ep->tokens * ep->top_k, tensors = 0, buffers = window_buffers(t, &tensors);
  int64_t borders = t->pp->buffers[MT_PP_STREAMS] + t->pp->buffers[MT_PP_GRADIENTS];
  int64_t tables = 8 * ep->ranks + 4 * (routes + ep->ranks * ep->experts) + borders * mt_ep_row_bytes(ep, ep->tokens);
  int64_t got = (int64_t)t->memory.arena[MK_MEM_COMM].peak_bytes;
  int64_t most = buffers + tables + GAP * (TABLES + tensors + borders);
  expect(c, "bytes of the window, at most input and output rows and tables", 0, (double)most, (double)got,
         got >= buffers && got <= most);
  expect(c, "a packing buffer", 0, 0, 1,
         !mk_tensor_present(&ep->recv) && mk_tensor_present(&ep->send) == mt_ep_arrives_mxfp8(ep));
  const mk_tensor *map = &t->model->set[0].layer[t->model->n_layers - 1].mlp.ep.map;
  expect(c, "a map of a layer's own", 0, 0, 1, !mk_tensor_present(map)); /* no pass yet: then it is the shared one */
  if (c->ctx.rank == 0)
    printf("window %lld bytes: %lld of rows, %lld of tables and gaps; a packing buffer would take %lld\n",
           (long long)got, (long long)buffers, (long long)(got - buffers), (long long)mt_ep_row_bytes(ep, routes));
}

/* One step up to its reduction. Where a pipeline has several microbatches under way, what they left is looked at when
 * the last one is through. */
static void forward_and_back(check *c, mt_trainer *t, mt_data *data, int step, bool poisoned) {
  size_t bytes = (size_t)t->cfg.rank_tokens * sizeof(int32_t);
  int32_t *tokens = malloc(bytes), *labels = malloc(bytes);
  bool alone = t->cfg.pp == 1, keeps = alone && t->cfg.recompute != MT_RECOMPUTE_FULL;
  tiny_ok(&c->ctx, mt_trainer_begin(t), "begin");
  for (int64_t m = 0; m < t->microbatches; m++) {
    if (poisoned && (m == 0 || alone)) poison(c, t);
    tiny_ok(&c->ctx, mt_data_batch(data, step, m, tokens, labels), "batch");
    tiny_ok(&c->ctx, mt_trainer_microbatch(t, tokens, labels), "microbatch");
    if (keeps) check_pool(c, t);
    if (alone || m == t->microbatches - 1) check_layers(c, t, t->model->sets);
  }
  free(labels);
  free(tokens);
}

/* Parameters after three steps; the caller frees them. */
static double *train(check *c, const mt_config *cfg, bool poisoned, int64_t *count) {
  mt_trainer *t = NULL;
  mt_data *data = NULL;
  double sums[MK_SUM_COUNT];
  tiny_ok(&c->ctx, mt_trainer_create(&c->ctx, cfg, c->world, &t), "create");
  tiny_ok(&c->ctx, mt_data_create(&c->ctx, cfg, t->mesh->plan.dp_rank, &data), "data");
  size_t bytes =
      (size_t)(t->microbatches * mt_config_moe_layers(cfg) * cfg->rank_tokens * cfg->top_k) * sizeof(int32_t);
  t->routes = malloc(bytes);
  window_tally_start(t);
  c->dropped = c->tails = 0;
  check_window(c, t);
  for (int n = 0; n < STEPS; n++) {
    int64_t before = window_tally_bytes(t);
    memset(t->routes, -1, bytes);
    forward_and_back(c, t, data, n, poisoned);
    check_predictions(c, t, n, before);
    tiny_ok(&c->ctx, mt_trainer_reduce(t), "reduce");
    tiny_ok(&c->ctx, mt_trainer_tensor_read(t, &t->model->sums, sums), "sums");
    c->dropped += (int64_t)sums[MK_SUM_DROPPED];
    tiny_ok(&c->ctx, mt_trainer_update(t), "update");
  }
  check_memory(c, t);
  double *values = tiny_values(&c->ctx, t, MT_VALUE_WEIGHT, count);
  free(t->routes);
  mt_data_destroy(data);
  mt_trainer_destroy(t);
  return values;
}

/* The first difference of two runs. */
static void expect_same_bits(check *c, const char *what, const double *expected, const double *got, int64_t count) {
  int64_t i = 0;
  while (i < count && memcmp(&expected[i], &got[i], sizeof got[i]) == 0)
    i++;
  if (i < count) expect(c, what, i, expected[i], got[i], false);
}

/* Rows that travel again drop as before: nothing changes against a run that keeps them. */
static void check_recompute(check *c, const mt_config *cfg, const double *expected) {
  int64_t count = 0, dropped = c->dropped;
  mt_config keeping = *cfg;
  keeping.recompute = MT_RECOMPUTE_NONE;
  double *kept = train(c, &keeping, false, &count);
  expect(c, "dropped routes without recompute", 0, (double)dropped, (double)c->dropped, dropped == c->dropped);
  expect_same_bits(c, "parameter without recompute", expected, kept, count);
  free(kept);
}

static void check_row(check *c, const char *row) {
  int64_t count = 0;
  mt_config cfg = drop_config(c, row), dropless = cfg, roomy = cfg;
  double *clean = train(c, &cfg, false, &count);
  int64_t dropped = c->dropped;
  double *poisoned = train(c, &cfg, true, &count);
  expect(c, "dropped routes again", 0, (double)dropped, (double)c->dropped, dropped == c->dropped);
  expect_same_bits(c, "parameter with poisoned tails", clean, poisoned, count);
  expect(c, "dropped routes, at least", 0, 1, (double)c->dropped, c->dropped > 0); /* or nothing was tested */
  double tails = (double)c->tails; /* of this rank: the other one may be full */
  if (c->ctx.rank == 0)
    printf("%s: %lld routes dropped, %g looks at layers of rank 0 found unused rows\n", row, (long long)c->dropped,
           tails);
  if (cfg.recompute != MT_RECOMPUTE_NONE) check_recompute(c, &cfg, clean);
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
  mt_comm_mpi_config mpi = {.threaded = true, .timeout_s = 60};
  const mk_device_config device = {.name = "cpu", .threads = 1};
  tiny_ok(&c.ctx, mt_comm_mpi_create(&c.ctx, &mpi, &c.world), "mpi");
  tiny_ok(&c.ctx, mk_device_create(&c.ctx, &device, &c.dev), "device");
  tiny_ok(&c.ctx, mk_stream_create(c.dev, "check", &c.stream), "stream");
  c.table = mk_tensor_1d(MK_I64, MOST_COUNTS);
  tiny_ok(&c.ctx, mk_device_alloc(c.dev, MK_MEM_COMM, MOST_COUNTS * 8, &c.table.data), "memory");
  for (int i = 1; i < argc; i++)
    check_row(&c, argv[i]);
  mk_device_free(c.dev, MK_MEM_COMM, c.table.data, MOST_COUNTS * 8);
  mk_stream_destroy(c.stream);
  mk_device_destroy(c.dev);
  mt_comm_destroy(c.world);
  return c.failures > 0;
}
