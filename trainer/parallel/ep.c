/* Expert parallelism: choice of the transport and the parts that all transports share. */
#include "trainer/parallel/ep.h"

#include <math.h>

#include "kernels/base/heap.h"
#include "kernels/base/min_max.h"
#include "trainer/model/params.h"

/* Smallest whole number of rows, at least one, that is no less than `rows`; `all` where that is less. */
static int64_t whole_rows(double rows, int64_t all) {
  return ceil(rows) < (double)all ? (int64_t)fmax(ceil(rows), 1) : all;
}

bool mt_ep_drops(const mt_config *cfg, int64_t ranks) {
  return ranks > 1 && cfg->ep_transport != MT_EP_BLOCK && cfg->capacity_factor > 0;
}

bool mt_ep_may_wait(const mt_config *cfg, int64_t ranks) { return ranks == 1 && cfg->ep_transport != MT_EP_DEEPEP_V2; }

typedef struct row_sizes {
  int64_t capacity, expert_capacity, rows_max; /* of mt_ep */
} row_sizes;

/* Rows that a rank may receive in training. The block transport and a single rank are dropless: all routes of the group
 * may meet here. The others have, by capacity_scope,
 *   rank    a pool of ceil(capacity_factor * T * K) rows (Olmo-core 3.0.0 compute_ep_no_sync_rank_capacity)
 *   expert  ceil(capacity_factor * T * K / L) rows for each of the L experts, which is the same share of all R*T*K
 *           routes (Lepikhin et al. 2020, GShard, arXiv 2006.16668), but no more than the R*T tokens that can come
 * Evaluation is dropless: a run that evaluates has buffers for all routes. */
static row_sizes size_rows(const mt_config *cfg, int64_t ranks) {
  int64_t routes = cfg->rank_tokens * cfg->top_k, all = routes * ranks, local = cfg->experts / ranks;
  double pool = cfg->capacity_factor * (double)routes;
  bool drops = mt_ep_drops(cfg, ranks);
  row_sizes sizes = {.capacity = drops ? whole_rows(pool, all) : all};
  if (drops && cfg->capacity_scope == MT_CAPACITY_EXPERT) {
    sizes.expert_capacity = whole_rows(pool / (double)local, ranks * cfg->rank_tokens);
    sizes.capacity = mk_min(local * sizes.expert_capacity, all);
  }
  sizes.rows_max = cfg->eval_tokens > 0 ? all : sizes.capacity;
  return sizes;
}

int64_t mt_ep_rows_max(const mt_config *cfg, int64_t ranks) { return size_rows(cfg, ranks).rows_max; }

const mt_ep_ops *mt_ep_ops_for(const mt_config *cfg, int ranks) {
  if (cfg->ep_transport == MT_EP_DEEPEP_V2) return &mt_ep_deepep_v2_ops; /* also on one rank: its numerics differ */
  if (ranks == 1) return &mt_ep_local_ops;
  return cfg->ep_transport == MT_EP_BLOCK ? &mt_ep_block_ops : &mt_ep_rowwise_ops;
}

mk_status mt_ep_create(mk_context *ctx, mk_device *dev, const mt_config *cfg, int ranks, int rank, mt_comm *comm,
                       mt_ep **out) {
  mk_status st = MK_OK;
  mt_ep *ep = NULL;
  row_sizes sizes = size_rows(cfg, ranks);
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *ep, &ep));
  *ep = (mt_ep){.ctx = ctx,
                .dev = dev,
                .comm = comm,
                .ranks = ranks,
                .rank = rank,
                .tokens = cfg->rank_tokens,
                .top_k = cfg->top_k,
                .experts = cfg->experts,
                .d_model = cfg->d_model,
                .rows_max = sizes.rows_max,
                .capacity = sizes.capacity,
                .expert_capacity = sizes.expert_capacity,
                .dtype = mt_compute_dtype(cfg),
                .mxfp8 = mt_mxfp8_mlp(cfg),
                .mxfp8_wire = mt_mxfp8_ep(cfg),
                .mxfp8_rule = cfg->mxfp8_scale};
  ep->ops = mt_ep_ops_for(cfg, ranks);
  ep->host_counts = cfg->host_counts && mt_ep_may_wait(cfg, ranks);
  if (ep->ops == &mt_ep_block_ops || ep->host_counts) {
    MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)(ranks * ep->experts), sizeof(int32_t), &ep->host_requested), out);
    MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)ep->rows_max, sizeof(int32_t), &ep->host_reorder), out);
    MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)(ep->experts / ranks + 1), sizeof(int32_t), &ep->host_offsets), out);
    MK_TRY_GOTO(ctx, mk_event_create(dev, &ep->counts_ready), out);
  }
  *out = ep;
  ep = NULL;
out:
  mt_ep_destroy(ep);
  return st;
}

void mt_ep_destroy(mt_ep *ep) {
  if (ep == NULL) return;
  mk_context *ctx = ep->ctx;
  mt_window_destroy(ep->window);
  mk_event_destroy(ep->counts_ready);
  mk_heap_free(ctx, ep->host_offsets);
  mk_heap_free(ctx, ep->host_reorder);
  mk_heap_free(ctx, ep->host_requested);
  mk_heap_free(ctx, ep);
}

mk_status mt_ep_layer_create(mt_ep *ep, mt_ep_layer *layer) {
  MK_TRY(ep->ctx, mk_heap_array(ep->ctx, (size_t)ep->ranks, sizeof(int64_t), &layer->send_rows));
  return mk_heap_array(ep->ctx, (size_t)ep->ranks, sizeof(int64_t), &layer->recv_rows);
}

void mt_ep_layer_destroy(mt_ep *ep, mt_ep_layer *layer) {
  mk_heap_free(ep->ctx, layer->send_rows);
  mk_heap_free(ep->ctx, layer->recv_rows);
}

/* Rows that peers write lie in the window. MXFP8 keeps quantised rows for the backward pass, and one buffer for what is
 * to be quantised. */
void mt_ep_rows_place(mt_ep *ep, mt_ep_layer *layer, mk_arena *activations, mk_arena *comm) {
  if (!ep->mxfp8) {
    layer->rows = mk_tensor_2d(ep->dtype, ep->rows_max, ep->d_model);
    mk_arena_place(ep->ops->windowed ? comm : activations, &layer->rows);
    return;
  }
  layer->rows_q = mk_mxfp8_shape(0, ep->rows_max, ep->d_model);
  mt_mxfp8_place(mt_ep_arrives_mxfp8(ep) ? comm : activations, &layer->rows_q);
}

void mt_ep_layer_place(mt_ep *ep, mt_ep_layer *layer, mk_arena *activations, mk_arena *comm) {
  int64_t t = ep->tokens, k = ep->top_k, local = ep->experts / ep->ranks;
  layer->idx = mk_tensor_2d(MK_I32, t, k);
  layer->weights = mk_tensor_2d(mt_ep_master(ep), t, k);
  layer->position = mk_tensor_2d(MK_I32, t, k);
  layer->total = mk_tensor_1d(MK_I32, ep->experts);
  layer->offsets = mk_tensor_1d(MK_I32, local + 1);
  mk_tensor *all[] = {&layer->idx, &layer->weights, &layer->position, &layer->total, &layer->offsets};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    mk_arena_place(activations, all[i]);
  if (!ep->ops->windowed) {
    layer->map = mk_tensor_2d(MK_I32, t, k);
    mk_arena_place(activations, &layer->map);
  }
  if (!ep->ops->weighs_rows) {
    layer->returned = mk_tensor_2d(ep->dtype, t * k, ep->d_model);
    mk_arena_place(activations, &layer->returned);
  }
  ep->ops->place(ep, layer, activations, comm);
}

void mt_ep_place(mt_ep *ep, mk_arena *comm_arena) {
  if (ep->mxfp8 && !mt_ep_arrives_mxfp8(ep)) {
    ep->rows = mk_tensor_2d(ep->dtype, ep->rows_max, ep->d_model);
    mk_arena_place(comm_arena, &ep->rows);
  }
  ep->ops->place_shared(ep, comm_arena);
}

mk_status mt_ep_sort_own(mt_ep *ep, mk_stream *s, const mt_ep_layer *layer, const mk_tensor *offsets,
                         const mk_tensor *sums) {
  return mk_route_map(s, &(mk_route_map_args){.requested = mk_tensor_as_2d(&layer->total, 1, ep->experts),
                                              .idx = layer->idx,
                                              .position = layer->position,
                                              .dst_row = layer->map,
                                              .keep = ep->keep,
                                              .offsets = *offsets,
                                              .sums = *sums,
                                              .ranks = 1,
                                              .rank = 0,
                                              .capacity = ep->tokens * ep->top_k});
}

mk_status mt_ep_weigh(mk_stream *s, const mt_ep_layer *layer, const mk_tensor *rows, const mk_tensor *add,
                      const mk_tensor *y) {
  return mk_combine_fwd(
      s, &(mk_combine_fwd_args){.rows = *rows, .map = layer->map, .weights = layer->weights, .add = *add, .y = *y});
}

mk_status mt_ep_weigh_backward(mk_stream *s, const mt_ep_layer *layer, const mk_tensor *dy, const mk_tensor *d_rows,
                               const mk_tensor *dweights) {
  return mk_combine_bwd(s, &(mk_combine_bwd_args){.dy = *dy,
                                                  .rows = layer->returned,
                                                  .map = layer->map,
                                                  .weights = layer->weights,
                                                  .drows = *d_rows,
                                                  .dweights = *dweights});
}

/* Destinations fill local expert by local expert, inside one source by source, until the expert or the rank is full. */
int64_t mt_ep_kept(const mt_ep *ep, const int32_t *counts, int source, int destination) {
  int64_t local = ep->experts / ep->ranks, room = ep->capacity, kept = 0;
  for (int64_t e = destination * local; e < (destination + 1) * local; e++) {
    int64_t left = ep->expert_capacity > 0 ? ep->expert_capacity : room; /* of the expert */
    for (int s = 0; s < ep->ranks; s++) {
      int64_t taken = mk_min(counts[s * ep->experts + e], mk_min(left, room));
      left -= taken;
      room -= taken;
      if (s == source) kept += taken;
    }
  }
  return kept;
}

int64_t mt_ep_row_bytes(const mt_ep *ep, int64_t n) { return n * ep->d_model * (int64_t)mk_dtype_bytes(ep->dtype); }

int64_t mt_ep_quantised_bytes(const mt_ep *ep, int64_t n) { return mk_mxfp8_bytes(n, ep->d_model); }

mt_ep_memory mt_ep_rows_memory(const mt_ep *ep) {
  bool in_window = ep->mxfp8 ? mt_ep_arrives_mxfp8(ep) : ep->ops->windowed;
  int64_t n = ep->rows_max, bytes = ep->mxfp8 ? mt_ep_quantised_bytes(ep, n) : mt_ep_row_bytes(ep, n);
  bytes += 2 * MK_ARENA_ALIGN_BYTES;
  return (mt_ep_memory){.activations = in_window ? 0 : bytes, .comm = in_window ? bytes : 0};
}

mt_ep_memory mt_ep_layer_memory(const mt_ep *ep) {
  mt_ep_memory memory = ep->ops->layer_memory(ep);
  int64_t routes = ep->tokens * ep->top_k, master = (int64_t)mk_dtype_bytes(mt_ep_master(ep));
  memory.activations +=
      4 * (2 * routes + ep->experts + ep->experts / ep->ranks + 1) + master * routes + 5 * MK_ARENA_ALIGN_BYTES;
  if (!ep->ops->windowed) memory.activations += 4 * routes + MK_ARENA_ALIGN_BYTES;
  if (!ep->ops->weighs_rows) memory.activations += mt_ep_row_bytes(ep, routes) + MK_ARENA_ALIGN_BYTES;
  return memory;
}

int64_t mt_ep_shared_bytes(const mt_ep *ep) {
  bool unquantised = ep->mxfp8 && !mt_ep_arrives_mxfp8(ep);
  return ep->ops->shared_bytes(ep) + (unquantised ? mt_ep_row_bytes(ep, ep->rows_max) + MK_ARENA_ALIGN_BYTES : 0);
}
