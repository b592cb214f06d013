/* Rowwise transport: rows are put straight into the owner's expert input buffer and fetched from its output buffer.
 *
 * sharded     routed experts over R ranks: L = E/R each
 * memory      per MoE layer rows[N,D] (in the window) and returned[T*K,D]; shared by the layers expert_out[N,D] and
 *             expert_d_out[N,D] (in the window); N = ceil(capacity_factor*T*K) pooled over a rank's experts, or R*T*K
 *             where nothing may drop (no factor, or evaluations in the run)
 * wire        per layer and microbatch, a rank moves (kept routes) * D elements four times: put, get, and both
 *             backwards, by one-sided copies that no communicator counts; plus 4*E bytes of counts handed over
 * collectives all_gather of counts; two barriers a direction
 * timeline    forward   counts | map | put | barrier | experts | barrier | get | combine
 *             backward  combine' | put | barrier | experts' | barrier | get | permute'
 * invariants  the host never waits; no row is packed; rows beyond offsets[L] are garbage and never read; what a rank
 *             reads of a peer was written before a barrier, and is not written again before the next one: dispatch'
 *             ends with every rank past its experts' backward pass, so the next microbatch may put into the same rows
 * paper       Olmo-core 3.0.0 olmo_core/nn/moe/v2/ep_no_sync_rowwise.py, ep_no_sync_common.py */
#include "trainer/parallel/ep_window.h"

static mk_status dispatch(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *x, const mk_tensor *sums,
                          bool train) {
  MK_TRY(ep->ctx, mt_ep_window_route(ep, s, layer, sums, train));
  MK_TRY(ep->ctx, mt_ep_window_put(ep, s, layer, x, &layer->rows));
  return mt_comm_barrier(ep->comm, s);
}

static mk_status combine(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *expert_out, const mk_tensor *add,
                         const mk_tensor *y) {
  MK_TRY(ep->ctx, mt_comm_barrier(ep->comm, s));
  MK_TRY(ep->ctx, mt_ep_window_get(ep, s, layer, expert_out, &layer->returned));
  return mt_ep_weigh(s, layer, &layer->returned, add, y);
}

static mk_status combine_backward(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *dy,
                                  const mk_tensor *d_expert_out, const mk_tensor *dweights) {
  MK_TRY(ep->ctx, mt_ep_weigh_backward(s, layer, dy, &ep->send, dweights));
  MK_TRY(ep->ctx, mt_ep_window_put(ep, s, layer, &ep->send, d_expert_out));
  return mt_comm_barrier(ep->comm, s);
}

static mk_status dispatch_backward(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *d_rows,
                                   const mk_tensor *add, const mk_tensor *dx, const mk_tensor *dweights) {
  (void)dweights; /* complete since combine_backward */
  MK_TRY(ep->ctx, mt_comm_barrier(ep->comm, s));
  MK_TRY(ep->ctx, mt_ep_window_get(ep, s, layer, d_rows, &ep->send));
  return mt_ep_window_sum(s, layer, &ep->send, add, dx);
}

const mt_ep_ops mt_ep_rowwise_ops = {
    .name = "rowwise",
    .windowed = true,
    .place = mt_ep_window_place_layer,
    .place_shared = mt_ep_window_place_shared,
    .dispatch = dispatch,
    .combine = combine,
    .combine_backward = combine_backward,
    .dispatch_backward = dispatch_backward,
};
