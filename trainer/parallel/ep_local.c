/* EP of one rank.
 *
 * sharded     nothing: all experts are here
 * memory      rows and returned, T*K*D elements each, per MoE layer
 * wire        0
 * collectives none
 * timeline    route_map -> permute -> experts -> combine
 * invariants  dropless; no host wait unless host_counts asks for two a layer; the experts write straight into
 *             `returned`, map names rows of both buffers
 * paper       Gale et al. 2022, MegaBlocks (dropless grouped GEMM), arXiv 2211.15841 */
#include "trainer/parallel/ep.h"

static void place(mt_ep *ep, mt_ep_layer *layer, mk_arena *activations, mk_arena *comm) {
  (void)ep, (void)layer, (void)activations, (void)comm;
}

static void place_shared(mt_ep *ep, mk_arena *comm) {
  ep->keep = mk_tensor_2d(MK_I32, 1, ep->experts);
  mk_arena_place(comm, &ep->keep);
}

static mk_status wait_for(mt_ep *ep, mk_stream *s, void *host, const mk_tensor *from) {
  MK_TRY(ep->ctx, mk_copy_d2h(s, host, from));
  MK_TRY(ep->ctx, mk_event_record(ep->counts_ready, s));
  return mk_event_sync(ep->counts_ready, true);
}

/* host_counts: as the dropless path of Olmo-core before its DDP stack, whose GEMMs took the rows of each expert from
 * the host: two waits a layer and pass, one for the counts and one for where the rows lie. */
static mk_status tell_host(mt_ep *ep, mk_stream *s, mt_ep_layer *layer) {
  if (!ep->host_counts) return MK_OK;
  MK_TRY(ep->ctx, wait_for(ep, s, ep->host_requested, &layer->total));
  return wait_for(ep, s, ep->host_offsets, &layer->offsets);
}

static mk_status dispatch(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *x, const mk_tensor *sums,
                          bool train) {
  (void)train;
  MK_TRY(ep->ctx, mt_ep_sort_own(ep, s, layer, &layer->offsets, sums));
  MK_TRY(ep->ctx, tell_host(ep, s, layer));
  return mk_permute_fwd(s, &(mk_permute_fwd_args){.x = *x, .map = layer->map, .out = *mt_ep_rows(ep, layer)});
}

static mk_status combine(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *expert_out, const mk_tensor *add,
                         const mk_tensor *y) {
  (void)ep;
  return mt_ep_weigh(s, layer, expert_out, add, y);
}

static mk_status combine_backward(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *dy,
                                  const mk_tensor *d_expert_out, const mk_tensor *dweights) {
  (void)ep;
  return mt_ep_weigh_backward(s, layer, dy, d_expert_out, dweights);
}

static mk_status dispatch_backward(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *d_rows,
                                   const mk_tensor *add, const mk_tensor *dx, const mk_tensor *dweights) {
  (void)dweights;
  (void)ep;
  return mk_permute_bwd(s, &(mk_permute_bwd_args){.dout = *d_rows, .map = layer->map, .add = *add, .dx = *dx});
}

static mt_ep_wire wire(const mt_ep *ep, const int32_t *counts, bool backward) {
  (void)ep, (void)counts, (void)backward;
  return (mt_ep_wire){0};
}

static mt_ep_memory layer_memory(const mt_ep *ep) {
  (void)ep;
  return (mt_ep_memory){0};
}

static int64_t shared_bytes(const mt_ep *ep) { return 4 * ep->experts + MK_ARENA_ALIGN_BYTES; }

const mt_ep_ops mt_ep_local_ops = {
    .name = "local",
    .wire = wire,
    .layer_memory = layer_memory,
    .shared_bytes = shared_bytes,
    .in_place = true,
    .place = place,
    .place_shared = place_shared,
    .dispatch = dispatch,
    .combine = combine,
    .combine_backward = combine_backward,
    .dispatch_backward = dispatch_backward,
};
