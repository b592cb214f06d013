/* Expert parallelism: route -> dispatch -> (experts) -> combine, and the way back.
 *
 * A rank of the EP group (R ranks) owns L = E/R experts: global experts [rank*L, rank*L + L). Each transport is one
 * file behind mt_ep_ops; EP of 1 is `local`, without communication, unless the transport is deepep_v2, whose numerics
 * differ. `rows` is expert-major: experts ascending, inside an expert source ranks ascending, inside a source the
 * routes in order t*K + k.
 *   local     permute by the route map; the experts read and write the rows in place
 *   block     permute, all-gather of counts, all-to-all-v of rows, reorder to expert-major, and the same way back
 *             (Olmo-core 3.0.0 olmo_core/nn/moe/v2/ep_sync_1d.py); dropless; the host waits for the counts once a layer
 *   rowwise   rows are put straight into the owner's buffer and fetched from it; offsets come from the route map on the
 *             device, so that the host waits for nothing (Olmo-core 3.0.0 ep_no_sync_rowwise.py); capacity and drops
 *   deepep_v2 as rowwise, but a row's weight travels with it, the experts apply it, and what comes back is summed
 *             (Olmo-core 3.0.0 ep_deepep_v2.py)
 */
#ifndef TRAINER_PARALLEL_EP_H
#define TRAINER_PARALLEL_EP_H

#include "kernels/device/arena.h"
#include "trainer/comm/comm.h"
#include "trainer/launch/config.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mt_ep mt_ep;

/* Per MoE layer: routing and what the exchange saves for the backward pass. N = rows_max, c = compute dtype. */
typedef struct mt_ep_layer {
  mk_tensor idx;         /* i32 [T,K] chosen experts, global ids */
  mk_tensor weights;     /* f32 [T,K] */
  mk_tensor position;    /* i32 [T,K] place among this rank's routes to the same expert */
  mk_tensor total;       /* i32 [E] this rank's routes per expert */
  mk_tensor map;         /* i32 [T,K] row of each own route in `returned`: own routes, expert-major; windowed: route r
                            is row r, the table that all layers share */
  mk_tensor offsets;     /* i32 [L+1] rows of the local experts in `rows` */
  mk_tensor rows;        /* c [N,D] input rows of the local experts; absent with mxfp8: see mt_ep_rows */
  mk_mxfp8 rows_q;       /* mxfp8, else absent: the same along D; saved */
  mk_tensor returned;    /* c [T*K,D] expert outputs of the own routes, in map order, kept for dweights; absent where
                            the experts weigh */
  mk_tensor row_weights; /* f32 [N,1] weight of each row; present where the experts apply it */
  /* all but local: */
  mk_tensor requested;            /* i32 [R,E] counts of every source rank */
  mk_tensor reorder;              /* i32 [N,1] received (source-major) row -> expert-major row */
  mk_tensor dst_rank, dst_row;    /* windowed: i32 [T,K] where each route's row lies; -1 = dropped */
  int64_t *send_rows, *recv_rows; /* host [R] */
  int64_t n_recv;                 /* rows received = rows of the local experts */
} mt_ep_layer;

/* Predictions of what one layer moves from a rank in one microbatch and one direction of the pass. */
typedef struct mt_ep_wire {
  int64_t payload_bytes; /* handed to the communicator, as comm.h counts it; of these counts_bytes are counts */
  int64_t counts_bytes;
  int64_t window_bytes; /* values to and from other ranks through windows, which no communicator counts */
} mt_ep_wire;

/* Predictions of memory, with MK_ARENA_ALIGN_BYTES for each tensor. */
typedef struct mt_ep_memory {
  int64_t activations, comm;
} mt_ep_memory;

typedef struct mt_ep_ops {
  const char *name;
  bool windowed;      /* the comm arena lies in a window that the peers reach */
  bool carries_mxfp8; /* with mxfp8_ep rows travel as MXFP8; elsewhere they are rounded before and travel as BF16 */
  bool in_place;      /* the experts write straight into layer->returned */
  bool weighs_rows;   /* the experts multiply by layer->row_weights and leave its gradient in ep->row_dweights */
  int host_waits;     /* of a layer's forward pass */
  /* pure. counts: i32 [R,E], the routes of every source rank to every expert, before any drop */
  mt_ep_wire (*wire)(const mt_ep *ep, const int32_t *counts, bool backward);
  mt_ep_memory (*layer_memory)(const mt_ep *ep); /* what `place` takes */
  int64_t (*shared_bytes)(const mt_ep *ep);      /* what `place_shared` takes */
  void (*place)(mt_ep *ep, mt_ep_layer *layer, mk_arena *activations, mk_arena *comm);
  void (*place_shared)(mt_ep *ep, mk_arena *comm);
  /* x [T,D] -> layer->rows (and row_weights); train: rows beyond the capacities are dropped, otherwise none is */
  mk_status (*dispatch)(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *x, const mk_tensor *sums,
                        bool train);
  /* expert_out [N,D] -> y [T,D] = sum_k w * out (+ add); w = 1 where the experts weigh */
  mk_status (*combine)(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *expert_out, const mk_tensor *add,
                       const mk_tensor *y);
  /* dy [T,D] -> d_expert_out [N,D], and dweights [T,K] unless the experts weigh */
  mk_status (*combine_backward)(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *dy,
                                const mk_tensor *d_expert_out, const mk_tensor *dweights);
  /* d_rows [N,D] -> dx [T,D] (+ add); where the experts weigh, row_dweights -> dweights */
  mk_status (*dispatch_backward)(mt_ep *ep, mk_stream *s, mt_ep_layer *layer, const mk_tensor *d_rows,
                                 const mk_tensor *add, const mk_tensor *dx, const mk_tensor *dweights);
} mt_ep_ops;

struct mt_ep {
  const mt_ep_ops *ops;
  mk_context *ctx;
  mk_device *dev;
  mt_comm *comm; /* the EP group; NULL while only planning */
  int ranks, rank;
  int64_t tokens, top_k, experts, d_model;
  int64_t rows_max;        /* N: rows of the buffers; all routes of the group where a run evaluates */
  int64_t capacity;        /* rows that a rank accepts in training, <= N */
  int64_t expert_capacity; /* rows that an expert accepts in training from all ranks, <= R*T: a token goes to an expert
                              at most once; 0 = as its rank's pool allows */
  mk_dtype dtype;
  bool mxfp8, mxfp8_wire; /* the experts multiply MXFP8; rows travel as MXFP8 (mxfp8_ep) */
  mk_mxfp8_rule mxfp8_rule;
  mk_tensor rows; /* mxfp8: c [N,D] shared by the layers; absent where rows arrive as MXFP8 */
  /* windowed, shared by the layers: */
  mt_window *window;                  /* holds the comm arena, laid out alike on all ranks */
  mk_tensor peers;                    /* i64 [R] */
  mk_tensor identity;                 /* i32 [T,K]: route r lies in row r */
  mk_tensor expert_out, expert_d_out; /* c [N,D] in the window; absent otherwise (the model's scratch serves) */
  mk_tensor row_dweights;             /* f32 [N,1] in the window, where the experts weigh */
  /* rowwise with mxfp8_wire: what travels, in the window; and send rows */
  mk_mxfp8 out_q, d_out_q; /* [N,D] */
  mk_mxfp8 send_q;         /* [T*K,D] */
  /* block transport, shared by the layers: */
  mk_tensor send, recv;    /* c [T*K,D], c [N,D] */
  mk_tensor keep;          /* i32 [1,E] or [R,E] scratch of route_map */
  mk_tensor send_offsets;  /* i32 [E+1] */
  bool host_counts;        /* one rank: the host waits for the rows of each expert (config key host_counts) */
  int32_t *host_requested; /* [R,E] */
  int32_t *host_reorder;   /* [N] */
  int32_t *host_offsets;   /* [L+1] */
  mk_event *counts_ready;
};

/* dtype of weights and their gradients. */
static inline mk_dtype mt_ep_master(const mt_ep *ep) { return ep->dtype == MK_F64 ? MK_F64 : MK_F32; }

/* Where dispatch leaves rows: the layer's own, or with MXFP8 one buffer, whose rows are quantised at once. */
static inline const mk_tensor *mt_ep_rows(const mt_ep *ep, const mt_ep_layer *layer) {
  return ep->mxfp8 ? &ep->rows : &layer->rows;
}

/* Rows reach the experts as MXFP8: layer->rows_q in dispatch, ep->d_out_q in combine_backward. */
static inline bool mt_ep_arrives_mxfp8(const mt_ep *ep) { return ep->mxfp8_wire && ep->ops->carries_mxfp8; }

/* How rows reach their experts over `ranks` ranks. */
const mt_ep_ops *mt_ep_ops_for(const mt_config *cfg, int ranks);

/* Whether a capacity bounds the rows of a rank's experts, so that routes may drop in training: with capacity_factor
 * above 0, more than one rank, and a transport that is not dropless. */
bool mt_ep_drops(const mt_config *cfg, int64_t ranks);

/* Rows that the buffers of a rank's experts hold (rows_max of its mt_ep). */
int64_t mt_ep_rows_max(const mt_config *cfg, int64_t ranks);

/* Whether host_counts makes the host wait: no rank sends rows to another. */
bool mt_ep_may_wait(const mt_config *cfg, int64_t ranks);

/* Transport for cfg over `ranks` ranks; comm may be NULL when only memory is planned. */
mk_status mt_ep_create(mk_context *ctx, mk_device *dev, const mt_config *cfg, int ranks, int rank, mt_comm *comm,
                       mt_ep **out);
void mt_ep_destroy(mt_ep *ep);

/* Gives a layer its host arrays (once) and its tensors (each pass of the two-pass placement). */
mk_status mt_ep_layer_create(mt_ep *ep, mt_ep_layer *layer);
void mt_ep_layer_destroy(mt_ep *ep, mt_ep_layer *layer);
void mt_ep_layer_place(mt_ep *ep, mt_ep_layer *layer, mk_arena *activations, mk_arena *comm);
/* Its rows, apart: layers may share them. */
void mt_ep_rows_place(mt_ep *ep, mt_ep_layer *layer, mk_arena *activations, mk_arena *comm);
/* What all layers share. */
void mt_ep_place(mt_ep *ep, mk_arena *comm_arena);

/* Windowed transports, between the two passes of placement: makes the window, lends it to the comm arena. Collective
 * over the EP group. */
mk_status mt_ep_window_open(mt_ep *ep, mk_arena *comm_arena);
/* After the second pass: constant tables on the device. */
mk_status mt_ep_start(mt_ep *ep, mk_stream *stream);

/* Shared by transports that send rows in expert order: layer->map sorts this rank's own routes by expert, none dropped;
 * offsets: i32 [E+1] where each expert's routes begin. */
mk_status mt_ep_sort_own(mt_ep *ep, mk_stream *s, const mt_ep_layer *layer, const mk_tensor *offsets,
                         const mk_tensor *sums);

/* Shared by transports that weigh at the source: y [T,D] = sum_k w * rows[map] (+ add), and its gradients, where
 * layer->returned holds the rows of the forward pass; d_rows may be absent. */
mk_status mt_ep_weigh(mk_stream *s, const mt_ep_layer *layer, const mk_tensor *rows, const mk_tensor *add,
                      const mk_tensor *y);
mk_status mt_ep_weigh_backward(mk_stream *s, const mt_ep_layer *layer, const mk_tensor *dy, const mk_tensor *d_rows,
                               const mk_tensor *dweights);

/* Pure, for the predictions: routes of rank `source` that rank `destination` keeps of counts [R,E] in training; bytes
 * of n rows of the compute dtype, and of MXFP8 rows with their scales. */
int64_t mt_ep_kept(const mt_ep *ep, const int32_t *counts, int source, int destination);
int64_t mt_ep_row_bytes(const mt_ep *ep, int64_t n);
int64_t mt_ep_quantised_bytes(const mt_ep *ep, int64_t n);
/* Memory that mt_ep_rows_place and mt_ep_layer_place take for one layer, and mt_ep_place for all. */
mt_ep_memory mt_ep_rows_memory(const mt_ep *ep);
mt_ep_memory mt_ep_layer_memory(const mt_ep *ep);
int64_t mt_ep_shared_bytes(const mt_ep *ep);

extern const mt_ep_ops mt_ep_local_ops;
extern const mt_ep_ops mt_ep_block_ops;
extern const mt_ep_ops mt_ep_rowwise_ops;
extern const mt_ep_ops mt_ep_deepep_v2_ops;

#ifdef __cplusplus
}
#endif

#endif
