/* Rowwise transport: rows are put straight into the owner's expert input buffer and fetched from its output buffer.
 *
 * sharded     routed experts over R ranks: L = E/R each
 * memory      per MoE layer rows[C,D] (in the window) and returned[T*K,D]; shared by the layers expert_out[C,D] and
 *             expert_d_out[C,D] (in the window); C = ceil(capacity_factor*T*K) pooled over a rank's experts, or R*T*K
 * wire        per layer and microbatch, a rank moves (kept routes) * D elements four times: put, get, and both backwards,
 *             by one-sided copies that no communicator counts; plus 4*E bytes of counts handed over
 * collectives all_gather of counts; two barriers a direction
 * timeline    forward   counts | map | put | barrier | experts | barrier | get | combine
 *             backward  combine' | put | barrier | experts' | barrier | get | permute'
 * invariants  the host never waits; no row is packed; rows beyond offsets[L] are garbage and never read; what a rank
 *             reads of a peer was written before a barrier, and is not written again before the next one: dispatch' ends
 *             with every rank past its experts' backward pass, so the next microbatch may put into the same rows
 * paper       Olmo-core 3.0.0 olmo_core/nn/moe/v2/ep_no_sync_rowwise.py, ep_no_sync_common.py */
#include "kernels/base/heap.h"
#include "trainer/parallel/ep.h"

static void place(mt_ep *ep, mt_ep_layer *layer, mk_arena *activations) {
  layer->requested = mk_tensor_2d(MK_I32, ep->ranks, ep->experts);
  layer->dst_rank = mk_tensor_2d(MK_I32, ep->tokens, ep->top_k);
  layer->dst_row = layer->dst_rank;
  mk_arena_place(activations, &layer->requested);
  mk_arena_place(activations, &layer->dst_rank);
  mk_arena_place(activations, &layer->dst_row);
}

static void place_shared(mt_ep *ep, mk_arena *comm) {
  ep->expert_out = mk_tensor_2d(ep->dtype, ep->rows_max, ep->d_model);
  ep->expert_d_out = ep->expert_out;
  ep->send = mk_tensor_2d(ep->dtype, ep->tokens * ep->top_k, ep->d_model);
  ep->peers = mk_tensor_1d(MK_I64, ep->ranks);
  ep->identity = mk_tensor_2d(MK_I32, ep->tokens, ep->top_k);
  ep->keep = mk_tensor_2d(MK_I32, ep->ranks, ep->experts);
  mk_tensor *all[] = {&ep->expert_out, &ep->expert_d_out, &ep->send, &ep->peers, &ep->identity, &ep->keep};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    mk_arena_place(comm, all[i]);
}

mk_status mt_ep_window_open(mt_ep *ep, mk_arena *comm_arena) {
  mk_context *ctx = ep->ctx;
  MK_TRY(ctx, mt_window_create(ep->comm, ep->dev, comm_arena->peak_bytes, &ep->window));
  MK_CHECK(ctx, mt_window_shared(ep->window), MK_ERR_UNSUPPORTED,
           "ep_transport: rowwise needs memory that all %d ranks of an EP group share; these ranks are on several "
           "machines, use block",
           ep->ranks);
  mk_arena_lend(comm_arena, ep->window->base);
  return MK_OK;
}

mk_status mt_ep_start(mt_ep *ep, mk_stream *stream) {
  mk_context *ctx = ep->ctx;
  mk_status st = MK_OK;
  int64_t *bases = NULL;
  int32_t *identity = NULL;
  int64_t routes = ep->tokens * ep->top_k;
  if (!ep->ops->windowed) return MK_OK;
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)ep->ranks, sizeof *bases, &bases), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)routes, sizeof *identity, &identity), out);
  for (int r = 0; r < ep->ranks; r++)
    bases[r] = (int64_t)(intptr_t)ep->window->peer_base[r];
  for (int64_t i = 0; i < routes; i++)
    identity[i] = (int32_t)i;
  MK_TRY_GOTO(ctx, mk_copy_h2d(stream, &ep->peers, bases), out);
  MK_TRY_GOTO(ctx, mk_copy_h2d(stream, &ep->identity, identity), out);
  MK_TRY_GOTO(ctx, mk_stream_sync(stream, false), out);
out:
  mk_heap_free(ctx, identity);
  mk_heap_free(ctx, bases);
  return st;
}

/* The routes of a layer into `buffer`, which lies at the same place in every rank's window. */
static mk_row_routes routes_into(const mt_ep *ep, const mt_ep_layer *layer, const mk_tensor *buffer) {
  return (mk_row_routes){.rank = layer->dst_rank,
                         .row = layer->dst_row,
                         .peers = ep->peers,
                         .offset = mt_ep_window_offset(ep, buffer),
                         .rows = ep->rows_max};
}

static mk_status put(mt_ep *ep, mk_stream *s, const mt_ep_layer *layer, const mk_tensor *x, const mk_tensor *buffer) {
  MK_TRY(ep->ctx, mk_row_put(s, &(mk_row_put_args){.x = *x, .routes = routes_into(ep, layer, buffer)}));
  return mt_comm_barrier(ep->comm, s);
}

static mk_status get(mt_ep *ep, mk_stream *s, const mt_ep_layer *layer, const mk_tensor *buffer, const mk_tensor *out) {
  MK_TRY(ep->ctx, mt_comm_barrier(ep->comm, s));
  return mk_row_get(s, &(mk_row_get_args){.routes = routes_into(ep, layer, buffer), .out = *out});
}

static mk_status dispatch(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *x, const mk_tensor *sums) {
  mk_context *ctx = ep->ctx;
  MK_TRY(ctx, mt_comm_all_gather(ep->comm, &layer->total, &layer->requested, s));
  MK_TRY(ctx, mk_route_map(s, &(mk_route_map_args){.requested = layer->requested,
                                                   .idx = layer->idx,
                                                   .position = layer->position,
                                                   .dst_rank = layer->dst_rank,
                                                   .dst_row = layer->dst_row,
                                                   .keep = ep->keep,
                                                   .offsets = layer->offsets,
                                                   .sums = *sums,
                                                   .ranks = ep->ranks,
                                                   .rank = ep->rank,
                                                   .capacity = ep->rows_max}));
  layer->map = ep->identity; /* route r comes back into row r; a dropped one as zeros */
  return put(ep, s, layer, x, &layer->rows);
}

static mk_status combine(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *expert_out, const mk_tensor *add,
                         const mk_tensor *y) {
  MK_TRY(ep->ctx, get(ep, s, layer, expert_out, &layer->returned));
  return mt_ep_weigh(s, layer, &layer->returned, add, y);
}

static mk_status combine_backward(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *dy,
                                  const mk_tensor *d_expert_out, const mk_tensor *dweights) {
  MK_TRY(ep->ctx, mt_ep_weigh_backward(s, layer, dy, &ep->send, dweights));
  return put(ep, s, layer, &ep->send, d_expert_out);
}

static mk_status dispatch_backward(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *d_rows,
                                   const mk_tensor *add, const mk_tensor *dx) {
  MK_TRY(ep->ctx, get(ep, s, layer, d_rows, &ep->send));
  return mk_permute_bwd(s, &(mk_permute_bwd_args){.dout = ep->send, .map = layer->map, .add = *add, .dx = *dx});
}

const mt_ep_ops mt_ep_rowwise_ops = {
    .name = "rowwise",
    .windowed = true,
    .place = place,
    .place_shared = place_shared,
    .dispatch = dispatch,
    .combine = combine,
    .combine_backward = combine_backward,
    .dispatch_backward = dispatch_backward,
};
