/* See ep_window.h. */
#include "trainer/parallel/ep_window.h"

#include "kernels/base/heap.h"

void mt_ep_window_place_layer(mt_ep *ep, mt_ep_layer *layer, mk_arena *activations, mk_arena *comm) {
  (void)comm;
  layer->requested = mk_tensor_2d(MK_I32, ep->ranks, ep->experts);
  layer->dst_rank = mk_tensor_2d(MK_I32, ep->tokens, ep->top_k);
  layer->dst_row = layer->dst_rank;
  mk_arena_place(activations, &layer->requested);
  mk_arena_place(activations, &layer->dst_rank);
  mk_arena_place(activations, &layer->dst_row);
}

void mt_ep_window_place_shared(mt_ep *ep, mk_arena *comm) {
  if (mt_ep_arrives_mxfp8(ep)) {
    ep->out_q = mk_mxfp8_shape(0, ep->rows_max, ep->d_model);
    ep->d_out_q = ep->out_q;
    ep->send_q = mk_mxfp8_shape(0, ep->tokens * ep->top_k, ep->d_model);
    ep->send = mk_tensor_2d(ep->dtype, ep->tokens * ep->top_k, ep->d_model); /* rows before they are quantised */
  } else {
    ep->expert_out = mk_tensor_2d(ep->dtype, ep->rows_max, ep->d_model);
    ep->expert_d_out = ep->expert_out;
  }
  ep->peers = mk_tensor_1d(MK_I64, ep->ranks);
  ep->identity = mk_tensor_2d(MK_I32, ep->tokens, ep->top_k);
  ep->keep = mk_tensor_2d(MK_I32, ep->ranks, ep->experts);
  mk_tensor *all[] = {&ep->expert_out, &ep->expert_d_out,  &ep->out_q.q,  &ep->out_q.scale,
                      &ep->d_out_q.q,  &ep->d_out_q.scale, &ep->send_q.q, &ep->send_q.scale,
                      &ep->send,       &ep->peers,         &ep->identity, &ep->keep};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    mk_arena_place(comm, all[i]);
}

mk_status mt_ep_window_open(mt_ep *ep, mk_arena *comm_arena) {
  mk_context *ctx = ep->ctx;
  MK_TRY(ctx, mt_window_create(ep->comm, ep->dev, comm_arena->peak_bytes, &ep->window));
  MK_CHECK(ctx, mt_window_shared(ep->window), MK_ERR_UNSUPPORTED,
           "ep_transport: %s needs memory that all %d ranks of an EP group share; these ranks are on several "
           "machines, use block",
           ep->ops->name, ep->ranks);
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

int64_t mt_ep_window_offset(const mt_ep *ep, const mk_tensor *buffer) {
  return mk_tensor_offset_bytes(buffer, ep->window->base);
}

mk_status mt_ep_window_route(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *sums, bool train) {
  MK_TRY(ep->ctx, mt_comm_all_gather(ep->comm, &layer->total, &layer->requested, s));
  layer->map = ep->identity; /* route r comes back into row r; a dropped one as zeros */
  return mk_route_map(s, &(mk_route_map_args){.requested = layer->requested,
                                              .idx = layer->idx,
                                              .position = layer->position,
                                              .dst_rank = layer->dst_rank,
                                              .dst_row = layer->dst_row,
                                              .keep = ep->keep,
                                              .offsets = layer->offsets,
                                              .sums = *sums,
                                              .ranks = ep->ranks,
                                              .rank = ep->rank,
                                              .capacity = train ? ep->capacity : ep->rows_max,
                                              .expert_capacity = train ? ep->expert_capacity : 0});
}

/* The routes of a layer into `buffer`, which lies at the same place in every rank's window. */
static mk_row_routes routes_into(const mt_ep *ep, const mt_ep_layer *layer, const mk_tensor *buffer) {
  return (mk_row_routes){.rank = layer->dst_rank,
                         .row = layer->dst_row,
                         .peers = ep->peers,
                         .offset = mt_ep_window_offset(ep, buffer),
                         .rows = ep->rows_max};
}

mk_status mt_ep_window_put(mt_ep *ep, mk_stream *s, const mt_ep_layer *layer, const mk_tensor *x,
                           const mk_tensor *weights, const mk_tensor *buffer) {
  mk_row_put_args args = {.x = *x, .routes = routes_into(ep, layer, buffer)};
  if (weights != NULL) args.weights = *weights;
  return mk_row_put(s, &args);
}

mk_status mt_ep_window_get(mt_ep *ep, mk_stream *s, const mt_ep_layer *layer, const mk_tensor *buffer,
                           const mk_tensor *out) {
  return mk_row_get(s, &(mk_row_get_args){.routes = routes_into(ep, layer, buffer), .out = *out});
}

mk_status mt_ep_window_sum(mt_ep *ep, mk_stream *s, const mt_ep_layer *layer, const mk_tensor *buffer,
                           const mk_tensor *add, const mk_tensor *y) {
  return mk_row_sum(s, &(mk_row_sum_args){.routes = routes_into(ep, layer, buffer), .add = *add, .y = *y});
}

/* Each direction of a pass puts the kept rows of other ranks' experts and fetches as many; `per_row` more bytes of each
 * travel once. */
mt_ep_wire mt_ep_window_wire(const mt_ep *ep, const int32_t *counts, bool backward, int64_t per_row) {
  int64_t rows = 0, told = backward ? 0 : 4 * ep->experts;
  for (int r = 0; r < ep->ranks; r++)
    rows += r == ep->rank ? 0 : mt_ep_kept(ep, counts, ep->rank, r);
  int64_t row_bytes = mt_ep_arrives_mxfp8(ep) ? mt_ep_quantised_bytes(ep, rows) : mt_ep_row_bytes(ep, rows);
  return (mt_ep_wire){.payload_bytes = told, .counts_bytes = told, .window_bytes = 2 * row_bytes + rows * per_row};
}

mt_ep_memory mt_ep_window_layer_memory(const mt_ep *ep) {
  return (mt_ep_memory){.activations =
                            4 * (ep->ranks * ep->experts + 2 * ep->tokens * ep->top_k) + 3 * MK_ARENA_ALIGN_BYTES};
}

int64_t mt_ep_window_shared_bytes(const mt_ep *ep) {
  int64_t routes = ep->tokens * ep->top_k, n = ep->rows_max;
  int64_t tables = 8 * ep->ranks + 4 * routes + 4 * ep->ranks * ep->experts;
  if (!mt_ep_arrives_mxfp8(ep)) return 2 * mt_ep_row_bytes(ep, n) + tables + 5 * MK_ARENA_ALIGN_BYTES;
  return mt_ep_quantised_bytes(ep, 2 * n + routes) + mt_ep_row_bytes(ep, routes) + tables + 10 * MK_ARENA_ALIGN_BYTES;
}
