/* Rowwise transport: rows are put straight into the owner's expert input buffer and fetched from its output buffer.
 *
 * sharded     routed experts over R ranks: L = E/R each
 * memory      per MoE layer rows[N,D] (in the window) and returned[T*K,D]; shared by the layers expert_out[N,D] and
 *             expert_d_out[N,D] (in the window); N = R*T*K where nothing may drop (no capacity_factor, or evaluations
 *             in the run), else by capacity_scope at most that many:
 *               rank    ceil(capacity_factor*T*K), a pool of the rank's experts
 *               expert  L*C rows, C = ceil(capacity_factor*T*K/L) for each expert, packed: up to L-1 more than a pool
 *             mxfp8_ep: rows_q in place of rows, out_q and d_out_q in place of the others: 33/32 bytes an element
 * wire        per layer and microbatch, a rank moves (kept routes) * D elements four times: put, get, and both
 *             backwards, by one-sided copies that no communicator counts; plus 4*E bytes of counts handed over. An
 *             element is 2 bytes (bf16), with mxfp8_ep 1 and 1/32 for its scale
 * collectives all_gather of counts; two barriers a direction
 * timeline    forward   counts | map | put | barrier | experts | barrier | get | combine
 *             backward  d weights | weigh and put | barrier | experts' | barrier | sum
 * invariants  the host never waits; no row is packed (mxfp8_ep: rows are quantised into one buffer first); rows beyond
 *             offsets[L] are garbage and never read; what a rank reads of a peer was written before a barrier, and is
 *             not written again before the next one: dispatch' ends with every rank past its experts' backward pass,
 *             so the next microbatch may put into the same rows
 * paper       Olmo-core 3.0.0 olmo_core/nn/moe/v2/ep_no_sync_rowwise.py, ep_no_sync_common.py, fp8.py; capacity of
 *             each expert: Lepikhin et al. 2020, GShard, arXiv 2006.16668 */
#include "trainer/parallel/ep_window.h"

/* x [T,D] or [T*K,D] -> buffer [N,D], or as MXFP8 -> quantised: two rows a route, elements and scales. */
static mk_status put(mt_ep *ep, mk_stream *s, const mt_ep_layer *layer, const mk_tensor *x, const mk_tensor *buffer,
                     const mk_mxfp8 *quantised) {
  mk_context *ctx = ep->ctx;
  if (ep->mxfp8_wire) {
    mk_mxfp8 x_q = {mk_tensor_rows(&ep->send_q.q, 0, x->dim[0]), mk_tensor_rows(&ep->send_q.scale, 0, x->dim[0])};
    MK_TRY(ctx, mk_mxfp8_quantize(s, &(mk_mxfp8_quantize_args){.x = *x, .out = x_q, .rule = ep->mxfp8_rule}));
    MK_TRY(ctx, mt_ep_window_put(ep, s, layer, &x_q.q, NULL, &quantised->q));
    MK_TRY(ctx, mt_ep_window_put(ep, s, layer, &x_q.scale, NULL, &quantised->scale));
  } else {
    MK_TRY(ctx, mt_ep_window_put(ep, s, layer, x, NULL, buffer));
  }
  return mt_comm_barrier(ep->comm, s);
}

/* buffer [N,D] of every owner -> out [T*K,D]; as MXFP8 through out_q. Zeros for dropped routes. */
static mk_status get(mt_ep *ep, mk_stream *s, const mt_ep_layer *layer, const mk_tensor *buffer, const mk_tensor *out) {
  mk_context *ctx = ep->ctx;
  if (!ep->mxfp8_wire) {
    MK_TRY(ctx, mt_comm_barrier(ep->comm, s));
    return mt_ep_window_get(ep, s, layer, buffer, out);
  }
  mk_tensor rows = mk_tensor_slice(&layer->offsets, layer->offsets.dim[0] - 1, 1);
  MK_TRY(ctx, mk_mxfp8_quantize(
                  s, &(mk_mxfp8_quantize_args){.x = *buffer, .rows = rows, .out = ep->out_q, .rule = ep->mxfp8_rule}));
  MK_TRY(ctx, mt_comm_barrier(ep->comm, s));
  MK_TRY(ctx, mt_ep_window_get(ep, s, layer, &ep->out_q.q, &ep->send_q.q));
  MK_TRY(ctx, mt_ep_window_get(ep, s, layer, &ep->out_q.scale, &ep->send_q.scale));
  return mk_mxfp8_dequantize(s, &(mk_mxfp8_dequantize_args){.x = ep->send_q, .y = *out});
}

static mk_status dispatch(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *x, const mk_tensor *sums,
                          bool train) {
  MK_TRY(ep->ctx, mt_ep_window_route(ep, s, layer, sums, train));
  return put(ep, s, layer, x, mt_ep_rows(ep, layer), &layer->rows_q);
}

static mk_status combine(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *expert_out, const mk_tensor *add,
                         const mk_tensor *y) {
  MK_TRY(ep->ctx, get(ep, s, layer, expert_out, &layer->returned));
  return mt_ep_weigh(s, layer, &layer->returned, add, y);
}

static mk_status combine_backward(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *dy,
                                  const mk_tensor *d_expert_out, const mk_tensor *dweights) {
  mk_tensor none = {0};
  if (ep->mxfp8_wire) {
    MK_TRY(ep->ctx, mt_ep_weigh_backward(s, layer, dy, &ep->send, dweights));
    return put(ep, s, layer, &ep->send, d_expert_out, &ep->d_out_q);
  }
  MK_TRY(ep->ctx, mt_ep_weigh_backward(s, layer, dy, &none, dweights));
  MK_TRY(ep->ctx, mt_ep_window_put(ep, s, layer, dy, &layer->weights, d_expert_out));
  return mt_comm_barrier(ep->comm, s);
}

static mk_status dispatch_backward(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *d_rows,
                                   const mk_tensor *add, const mk_tensor *dx, const mk_tensor *dweights) {
  (void)dweights; /* complete since combine_backward */
  if (ep->mxfp8_wire) {
    MK_TRY(ep->ctx, get(ep, s, layer, d_rows, &ep->send));
    return mk_permute_bwd(s, &(mk_permute_bwd_args){.dout = ep->send, .map = layer->map, .add = *add, .dx = *dx});
  }
  MK_TRY(ep->ctx, mt_comm_barrier(ep->comm, s));
  return mt_ep_window_sum(ep, s, layer, d_rows, add, dx);
}

static mt_ep_wire wire(const mt_ep *ep, const int32_t *counts, bool backward) {
  return mt_ep_window_wire(ep, counts, backward, 0);
}

const mt_ep_ops mt_ep_rowwise_ops = {
    .name = "rowwise",
    .wire = wire,
    .layer_memory = mt_ep_window_layer_memory,
    .shared_bytes = mt_ep_window_shared_bytes,
    .windowed = true,
    .carries_mxfp8 = true,
    .place = mt_ep_window_place_layer,
    .place_shared = mt_ep_window_place_shared,
    .dispatch = dispatch,
    .combine = combine,
    .combine_backward = combine_backward,
    .dispatch_backward = dispatch_backward,
};
