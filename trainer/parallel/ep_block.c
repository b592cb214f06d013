/* Block transport: permute, all-gather of counts, all-to-all-v of rows, and the same way back.
 *
 * sharded     routed experts over R ranks: L = E/R each
 * memory      per MoE layer rows[R*T*K,D] (dropless: all routes of the group may meet here) and returned[T*K,D];
 *             shared by the layers send[T*K,D] and recv[R*T*K,D]
 * wire        per layer and microbatch, a rank hands over T*K rows of D elements in dispatch and in the backward of
 *             combine, and the rows that it received in the two others (rows to itself included, as comm.h counts);
 *             plus 4*E bytes of counts. With mxfp8_ep rows are rounded to MXFP8 before, and still travel as BF16
 * collectives all_gather of counts, all_to_all_v of rows. Olmo-core sends counts by an all-to-all, of which a rank gets
 *             the columns of its own experts only; gathered they are the whole table [source, expert], and through it
 *             [destination], on every rank, as in the other transports, for the same 4*E bytes handed over
 * timeline    forward   permute | counts | host wait | rows -> | reorder | experts | reorder | <- rows | combine
 *             backward  combine' | rows -> | reorder | experts' | reorder | <- rows | permute'
 * invariants  dropless; one host wait a layer and forward pass (the counts); the backward reuses the saved counts
 * paper       Lepikhin et al. 2020, GShard, arXiv 2006.16668; Olmo-core 3.0.0 olmo_core/nn/moe/v2/ep_sync_1d.py */
#include "trainer/parallel/ep.h"

static void place(mt_ep *ep, mt_ep_layer *layer, mk_arena *activations, mk_arena *comm) {
  (void)comm;
  layer->requested = mk_tensor_2d(MK_I32, ep->ranks, ep->experts);
  layer->reorder = mk_tensor_2d(MK_I32, ep->rows_max, 1);
  mk_arena_place(activations, &layer->requested);
  mk_arena_place(activations, &layer->reorder);
}

static void place_shared(mt_ep *ep, mk_arena *comm) {
  ep->send = mk_tensor_2d(ep->dtype, ep->tokens * ep->top_k, ep->d_model);
  ep->recv = mk_tensor_2d(ep->dtype, ep->rows_max, ep->d_model);
  ep->keep = mk_tensor_2d(MK_I32, 1, ep->experts);
  ep->send_offsets = mk_tensor_1d(MK_I32, ep->experts + 1);
  mk_tensor *all[] = {&ep->send, &ep->recv, &ep->keep, &ep->send_offsets};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    mk_arena_place(comm, all[i]);
}

/* Host: who sends how many rows to whom, and where a received row belongs in expert-major order. */
static void plan_exchange(mt_ep *ep, mt_ep_layer *layer) {
  int64_t local = ep->experts / ep->ranks, own = ep->rank * local, row = 0, received = 0;
  const int32_t *req = ep->host_requested; /* [source, expert] */
  for (int r = 0; r < ep->ranks; r++) {
    layer->send_rows[r] = 0;
    layer->recv_rows[r] = 0;
    for (int64_t l = 0; l < local; l++) {
      layer->send_rows[r] += req[ep->rank * ep->experts + r * local + l];
      layer->recv_rows[r] += req[r * ep->experts + own + l];
    }
  }
  /* expert-major position of (expert l, source r) first, then walk the received order: source outer, expert inner */
  for (int r = 0; r < ep->ranks; r++) {
    for (int64_t l = 0; l < local; l++) {
      int64_t first = 0;
      for (int64_t i = 0; i < local; i++) {
        for (int s = 0; s < ep->ranks; s++) {
          if (i < l || (i == l && s < r)) first += req[s * ep->experts + own + i];
        }
      }
      for (int32_t i = 0; i < req[r * ep->experts + own + l]; i++)
        ep->host_reorder[row++] = (int32_t)(first + i);
    }
  }
  for (int r = 0; r < ep->ranks; r++)
    received += layer->recv_rows[r];
  layer->n_recv = received;
}

/* Host offsets of the local experts' rows. */
static void plan_offsets(mt_ep *ep) {
  int64_t local = ep->experts / ep->ranks, own = ep->rank * local;
  ep->host_offsets[0] = 0;
  for (int64_t l = 0; l < local; l++) {
    int32_t rows = 0;
    for (int r = 0; r < ep->ranks; r++)
      rows += ep->host_requested[r * ep->experts + own + l];
    ep->host_offsets[l + 1] = ep->host_offsets[l] + rows;
  }
}

/* The host buffers are shared by the layers: the wait below comes after the stream has passed the last layer's copies.
 */
static mk_status exchange_counts(mt_ep *ep, mk_stream *s, mt_ep_layer *layer) {
  mk_context *ctx = ep->ctx;
  MK_TRY(ctx, mt_comm_all_gather(ep->comm, &layer->total, &layer->requested, s));
  MK_TRY(ctx, mk_copy_d2h(s, ep->host_requested, &layer->requested));
  MK_TRY(ctx, mk_event_record(ep->counts_ready, s));
  MK_TRY(ctx, mk_event_sync(ep->counts_ready, true));
  plan_exchange(ep, layer);
  plan_offsets(ep);
  MK_TRY(ctx, mk_copy_h2d(s, &layer->offsets, ep->host_offsets));
  mk_tensor order = mk_tensor_rows(&layer->reorder, 0, layer->n_recv);
  return mk_copy_h2d(s, &order, ep->host_reorder);
}

/* send [T*K,D] in route order -> rows [N,D] expert-major, through the received order. */
static mk_status rows_to_experts(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *send,
                                 const mk_tensor *rows) {
  mk_tensor recv = mk_tensor_rows(&ep->recv, 0, layer->n_recv),
            reorder = mk_tensor_rows(&layer->reorder, 0, layer->n_recv);
  MK_TRY(ep->ctx, mt_comm_all_to_all_v(ep->comm, send, layer->send_rows, &recv, layer->recv_rows, s));
  return mk_permute_fwd(s, &(mk_permute_fwd_args){.x = recv, .map = reorder, .out = *rows});
}

/* rows [N,D] expert-major -> back [T*K,D] in route order. */
static mk_status rows_to_sources(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *rows,
                                 const mk_tensor *back) {
  mk_tensor recv = mk_tensor_rows(&ep->recv, 0, layer->n_recv),
            reorder = mk_tensor_rows(&layer->reorder, 0, layer->n_recv);
  MK_TRY(ep->ctx, mk_permute_bwd(s, &(mk_permute_bwd_args){.dout = *rows, .map = reorder, .dx = recv}));
  return mt_comm_all_to_all_v(ep->comm, &recv, layer->recv_rows, back, layer->send_rows, s);
}

static mk_status dispatch(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *x, const mk_tensor *sums,
                          bool train) {
  (void)train;
  mk_context *ctx = ep->ctx;
  /* sorted by global expert = sorted by destination rank, since a rank owns consecutive experts */
  MK_TRY(ctx, mt_ep_sort_own(ep, s, layer, &ep->send_offsets, sums));
  MK_TRY(ctx, mk_permute_fwd(s, &(mk_permute_fwd_args){.x = *x, .map = layer->map, .out = ep->send}));
  MK_TRY(ctx, exchange_counts(ep, s, layer));
  return rows_to_experts(ep, s, layer, &ep->send, mt_ep_rows(ep, layer));
}

static mk_status combine(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *expert_out, const mk_tensor *add,
                         const mk_tensor *y) {
  MK_TRY(ep->ctx, rows_to_sources(ep, s, layer, expert_out, &layer->returned));
  return mt_ep_weigh(s, layer, &layer->returned, add, y);
}

static mk_status combine_backward(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *dy,
                                  const mk_tensor *d_expert_out, const mk_tensor *dweights) {
  MK_TRY(ep->ctx, mt_ep_weigh_backward(s, layer, dy, &ep->send, dweights));
  return rows_to_experts(ep, s, layer, &ep->send, d_expert_out);
}

static mk_status dispatch_backward(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *d_rows,
                                   const mk_tensor *add, const mk_tensor *dx, const mk_tensor *dweights) {
  (void)dweights;
  MK_TRY(ep->ctx, rows_to_sources(ep, s, layer, d_rows, &ep->send));
  return mk_permute_bwd(s, &(mk_permute_bwd_args){.dout = ep->send, .map = layer->map, .add = *add, .dx = *dx});
}

/* All own routes are handed over, those to itself included, and the rows that came are handed back. */
static mt_ep_wire wire(const mt_ep *ep, const int32_t *counts, bool backward) {
  int64_t rows = ep->tokens * ep->top_k, told = backward ? 0 : 4 * ep->experts;
  for (int r = 0; r < ep->ranks; r++)
    rows += mt_ep_kept(ep, counts, r, ep->rank);
  return (mt_ep_wire){.payload_bytes = mt_ep_row_bytes(ep, rows) + told, .counts_bytes = told};
}

static mt_ep_memory layer_memory(const mt_ep *ep) {
  return (mt_ep_memory){.activations = 4 * (ep->ranks * ep->experts + ep->rows_max) + 2 * MK_ARENA_ALIGN_BYTES};
}

static int64_t shared_bytes(const mt_ep *ep) {
  return mt_ep_row_bytes(ep, ep->tokens * ep->top_k + ep->rows_max) + 4 * (2 * ep->experts + 1) +
         4 * MK_ARENA_ALIGN_BYTES;
}

const mt_ep_ops mt_ep_block_ops = {
    .name = "block",
    .host_waits = 1,
    .wire = wire,
    .layer_memory = layer_memory,
    .shared_bytes = shared_bytes,
    .place = place,
    .place_shared = place_shared,
    .dispatch = dispatch,
    .combine = combine,
    .combine_backward = combine_backward,
    .dispatch_backward = dispatch_backward,
};
