/* What transports over a shared window have in common: rows are put into and fetched from the peers' buffers, to places
 * that the route map gives on the device. Calls put work on the stream; none of them waits or is a barrier. */
#ifndef TRAINER_PARALLEL_EP_WINDOW_H
#define TRAINER_PARALLEL_EP_WINDOW_H

#include "trainer/parallel/ep.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Counts of the group and destinations of the own routes. */
void mt_ep_window_place_layer(mt_ep *ep, mt_ep_layer *layer, mk_arena *activations, mk_arena *comm);
/* expert_out, expert_d_out and the tables of the group. */
void mt_ep_window_place_shared(mt_ep *ep, mk_arena *comm);

/* Counts handed to all ranks of the group, then the route map: dst_rank, dst_row, offsets; map names rows of a buffer
 * [T*K,...] in which route r has row r. train: rows beyond the capacities are dropped; otherwise none is, as far as the
 * buffers reach. */
mk_status mt_ep_window_route(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *sums, bool train);

/* x [T,W] or [T*K,W] -> the rows of the kept routes in `buffer` [N,W] of their owners; weights f32 [T,K], unless NULL,
 * are multiplied in on the way. */
mk_status mt_ep_window_put(mt_ep *ep, mk_stream *s, const mt_ep_layer *layer, const mk_tensor *x,
                           const mk_tensor *weights, const mk_tensor *buffer);
/* Rows of `buffer` [N,W] of the owners -> out [T*K,W]; zeros for dropped routes. */
mk_status mt_ep_window_get(mt_ep *ep, mk_stream *s, const mt_ep_layer *layer, const mk_tensor *buffer,
                           const mk_tensor *out);

/* Bytes from the window's base to a tensor placed in it. */
int64_t mt_ep_window_offset(const mt_ep *ep, const mk_tensor *buffer);

/* y [T,D] = sum_k of a token's rows in `buffer` [N,D] of their owners (+ add), in k order; the rows are read where they
 * lie. */
mk_status mt_ep_window_sum(mt_ep *ep, mk_stream *s, const mt_ep_layer *layer, const mk_tensor *buffer,
                           const mk_tensor *add, const mk_tensor *y);

/* Predictions (ep.h) of what is common. per_row: bytes that travel once with each row. */
mt_ep_wire mt_ep_window_wire(const mt_ep *ep, const int32_t *counts, bool backward, int64_t per_row);
mt_ep_memory mt_ep_window_layer_memory(const mt_ep *ep);
int64_t mt_ep_window_shared_bytes(const mt_ep *ep);

#ifdef __cplusplus
}
#endif

#endif
