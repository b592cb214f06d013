/* DeepEP v2 transport: a row travels with its routing weight, which the owner's experts apply; what comes back is
 * summed.
 *
 * sharded     routed experts over R ranks: L = E/R each
 * memory      per MoE layer, in the window, rows[N,D] and row_weights[N]; shared by the layers, in the window,
 *             expert_out[N,D], expert_d_out[N,D] and row_dweights[N]; nothing that returned is kept. N as in
 *             rowwise, for either capacity_scope. MXFP8: rows[N,D] once for all layers; per layer rows_q[N,D] and the
 *             down projection's output [N,D] beside the window
 * wire        as rowwise, plus a weight with each row and its gradient on the way back: 8 bytes a kept route; with
 *             mxfp8_ep rows are rounded to MXFP8 before, and still travel as BF16
 * collectives all_gather of counts; two barriers a direction
 * timeline    forward   counts | map | put rows, weights | barrier | experts | barrier | sum
 *             backward  put | barrier | experts' | barrier | get d weights | sum
 * invariants  capacity, drops and places of rows as in rowwise, and as there: no host wait, rows beyond offsets[L] are
 *             garbage, a barrier between writer and reader. The weight multiplies the SwiGLU hidden before the down
 *             projection (model/experts.c), or, with MXFP8, what comes out of it (experts_mxfp8.c), rounded to the
 *             compute dtype there; the sum of a token is FP32 in k order, rounded once. Results equal those of the
 *             other transports to the rounding of the compute dtype only. On one rank the numerics are the same: the
 *             window is then the rank's own
 * paper       Olmo-core 3.0.0 olmo_core/nn/moe/v2/ep_deepep_v2.py; DeepSeek DeepEP V2 (expert_alignment 1) */
#include "trainer/parallel/ep_window.h"

static void place(mt_ep *ep, mt_ep_layer *layer, mk_arena *activations, mk_arena *comm) {
  mt_ep_window_place_layer(ep, layer, activations, comm);
  layer->row_weights = mk_tensor_2d(layer->weights.dtype, ep->rows_max, 1);
  mk_arena_place(comm, &layer->row_weights);
}

static void place_shared(mt_ep *ep, mk_arena *comm) {
  mt_ep_window_place_shared(ep, comm);
  ep->row_dweights = mk_tensor_2d(mt_ep_master(ep), ep->rows_max, 1);
  mk_arena_place(comm, &ep->row_dweights);
}

/* [T,K] as one value a route. */
static mk_tensor per_route(const mk_tensor *t) { return mk_tensor_as_2d(t, mk_tensor_count(t), 1); }

static mk_status dispatch(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *x, const mk_tensor *sums,
                          bool train) {
  mk_tensor weights = per_route(&layer->weights);
  MK_TRY(ep->ctx, mt_ep_window_route(ep, s, layer, sums, train));
  MK_TRY(ep->ctx, mt_ep_window_put(ep, s, layer, x, NULL, mt_ep_rows(ep, layer)));
  MK_TRY(ep->ctx, mt_ep_window_put(ep, s, layer, &weights, NULL, &layer->row_weights));
  return mt_comm_barrier(ep->comm, s);
}

static mk_status combine(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *expert_out, const mk_tensor *add,
                         const mk_tensor *y) {
  MK_TRY(ep->ctx, mt_comm_barrier(ep->comm, s));
  return mt_ep_window_sum(ep, s, layer, expert_out, add, y);
}

static mk_status combine_backward(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *dy,
                                  const mk_tensor *d_expert_out, const mk_tensor *dweights) {
  (void)dweights; /* known to the owner of the row only after the experts' backward pass */
  MK_TRY(ep->ctx, mt_ep_window_put(ep, s, layer, dy, NULL, d_expert_out));
  return mt_comm_barrier(ep->comm, s);
}

static mk_status dispatch_backward(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *d_rows,
                                   const mk_tensor *add, const mk_tensor *dx, const mk_tensor *dweights) {
  mk_tensor d_routes = per_route(dweights);
  MK_TRY(ep->ctx, mt_comm_barrier(ep->comm, s));
  MK_TRY(ep->ctx, mt_ep_window_get(ep, s, layer, &ep->row_dweights, &d_routes));
  return mt_ep_window_sum(ep, s, layer, d_rows, add, dx);
}

/* A weight goes with each row, its gradient comes back. */
static mt_ep_wire wire(const mt_ep *ep, const int32_t *counts, bool backward) {
  return mt_ep_window_wire(ep, counts, backward, (int64_t)mk_dtype_bytes(mt_ep_master(ep)));
}

static int64_t weight_bytes(const mt_ep *ep) {
  return ep->rows_max * (int64_t)mk_dtype_bytes(mt_ep_master(ep)) + MK_ARENA_ALIGN_BYTES;
}

static mt_ep_memory layer_memory(const mt_ep *ep) {
  mt_ep_memory memory = mt_ep_window_layer_memory(ep);
  memory.comm += weight_bytes(ep);
  return memory;
}

static int64_t shared_bytes(const mt_ep *ep) { return mt_ep_window_shared_bytes(ep) + weight_bytes(ep); }

const mt_ep_ops mt_ep_deepep_v2_ops = {
    .name = "deepep_v2",
    .wire = wire,
    .layer_memory = layer_memory,
    .shared_bytes = shared_bytes,
    .windowed = true,
    .weighs_rows = true,
    .place = place,
    .place_shared = place_shared,
    .dispatch = dispatch,
    .combine = combine,
    .combine_backward = combine_backward,
    .dispatch_backward = dispatch_backward,
};
