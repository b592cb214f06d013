/* Parameters: one list in canonical order, their shapes, and their places in flat buffers.
 *
 * A unit is what becomes ready together in the backward pass: the embedding (unit 0), each layer (1..L), the head
 * (L+1). A pipeline rank has the units of its stages, under the numbers and names of the whole model. Dense and expert
 * parameters live in two flat buffers, because they are reduced over different groups; inside each, units are
 * contiguous and ascending, so that a bucket of neighbouring units is one slice of memory.
 * Canonical names and shapes (row-major, y = x W^T):
 *   embed.table [V,D]  embed.norm [D]
 *   layers.<l>.attn_in_norm [D]  .qkv [(H+2G)*hd,D] rows q|k|v  .q_norm  .k_norm  .attn_o [D,H*hd]  .attn_out_norm [D]
 *   layers.<l>.mlp_in_norm [D]  .router [E,D]  .shared_up_gate [2F,D] rows up|gate  .shared_down [D,F]
 *   layers.<l>.expert_up_gate [E,2F,D]  .expert_down [E,D,F]  .mlp_out_norm [D]
 *   layers.<l>.ff_out_norm [D]  hybrid, MoE layers with a shared expert
 *   head.norm [D]  head.out [V,D] */
#ifndef TRAINER_MODEL_PARAMS_H
#define TRAINER_MODEL_PARAMS_H

#include "kernels/device/arena.h"
#include "trainer/comm/mesh.h"
#include "trainer/launch/config.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mt_param_role {
  MT_PARAM_EMBED,
  MT_PARAM_EMBED_NORM,
  MT_PARAM_ATTN_IN_NORM,
  MT_PARAM_QKV,
  MT_PARAM_Q_NORM,
  MT_PARAM_K_NORM,
  MT_PARAM_ATTN_O,
  MT_PARAM_ATTN_OUT_NORM,
  MT_PARAM_MLP_IN_NORM,
  MT_PARAM_ROUTER,
  MT_PARAM_SHARED_UP_GATE,
  MT_PARAM_SHARED_DOWN,
  MT_PARAM_EXPERT_UP_GATE,
  MT_PARAM_EXPERT_DOWN,
  MT_PARAM_MLP_OUT_NORM,
  MT_PARAM_HEAD_NORM,
  MT_PARAM_HEAD_OUT,
  MT_PARAM_FF_OUT_NORM, /* hybrid: after the shared expert */
  MT_PARAM_ROLE_COUNT
} mt_param_role;

enum { MT_PARAM_NAME_BYTES = 48 };

/* What a unit's weights are needed for. The head runs forward and backward of a chunk of tokens together. */
typedef enum mt_use { MT_USE_FORWARD, MT_USE_BACKWARD, MT_USE_BOTH } mt_use;

typedef struct mt_param {
  char name[MT_PARAM_NAME_BYTES];
  mt_param_role role;
  int unit;         /* 0 embedding, 1..L layers, L+1 head */
  bool expert;      /* lives in the expert buffer and is split over the EP group */
  bool decays;      /* takes weight decay */
  bool overwritten; /* a GEMM weight: the first microbatch overwrites its gradient, so that nothing clears it */
  int n_dims;
  int64_t dim[3];   /* local shape: dim[0] of an expert parameter is E / EP */
  int64_t count;    /* local elements */
  int64_t first;    /* global index of the first local element */
  int64_t total;    /* global elements */
  int64_t offset;   /* element offset in its flat buffer */
  mk_tensor w;      /* compute copy [dim]; of a unit that is cut: absent except between gather and release */
  mk_tensor grad;   /* f32 [dim]; of a unit that is cut with a ring: absent except during its backward pass */
  mk_tensor packed; /* GEMM copy of w, absent where the device takes w as it is, and for units that are cut */
  /* precision mxfp8, else absent: w along K [(E,)N,K] for the forward pass, transposed along N [(E,)K,N] for dgrad. Of
   * a unit that is cut: in memory that the role's parameters share, made again for each use of the unit */
  mk_mxfp8 w_q, w_t_q;
  /* optimizer state of the own shard: elements [shard_first, shard_first + shard_count) of the local parameter */
  int64_t shard_first, shard_count;
  bool replicated;           /* every rank of the group holds all of it */
  mk_tensor main, m, v;      /* f32 [shard_count] */
  mk_tensor own_w, own_grad; /* [shard_count]: the shard's part of compute copy and gradient */
} mt_param;

/* Every parameter, and every shard, starts on a multiple of this many elements, so that vector loads of BF16 and FP32
 * are aligned; the gaps stay zero. */
enum { MT_PARAM_ALIGN = 32 };

/* How one of the two flat buffers is stored. Whole (ranks 1): each unit has its place in flat_w and flat_grad. Cut:
 * this rank owns an equal contiguous piece of each unit (its shard), in own_w and own_grad; whole units exist in
 * flat_w and flat_grad while they are in use. */
typedef struct mt_store {
  int ranks, rank;       /* over which units are cut, and the own place */
  int copies;            /* ranks that hold the same shard */
  int w_ring, grad_ring; /* places of one largest unit that units take in turn; 0 = each unit has its own place */
  int64_t largest;       /* elements of the largest unit */
  mk_tensor own_w;       /* [flat_count / ranks]; absent where whole */
  mk_tensor own_grad;    /* the same; absent without a ring: the shard is then a slice of the unit in flat_grad */
  mk_tensor main, m, v;  /* the same: optimizer state of all shards */
} mt_store;

typedef struct mt_params {
  mk_context *ctx;
  mt_param *item;
  int count;
  int units;              /* layers + 2 */
  int64_t flat_count[2];  /* elements of the dense and the expert buffer */
  int64_t *unit_first[2]; /* [units + 1]: element range of a unit in each buffer */
  mk_tensor flat_w[2], flat_grad[2];
  mt_store store[2];
  mk_tensor quantised[MT_PARAM_ROLE_COUNT]; /* u8: both quantised copies of the role's largest cut parameter */
  mk_tensor kept_gain; /* [D] copy of embed.norm, which the backward pass reads when the embedding is no longer there */
  int *index;          /* [units * MT_PARAM_ROLE_COUNT]: place in item, or -1 */
} mt_params;

/* Builds the list for this rank's place in the mesh: local shapes, flat offsets, decay flags; no memory yet. */
mk_status mt_params_create(mk_context *ctx, const mt_config *cfg, const mt_mesh_plan *mesh, mt_params *out);
void mt_params_fini(mt_params *params);

/* Parameter of a unit by role, or NULL when the model has none. */
mt_param *mt_params_find(const mt_params *params, int unit, mt_param_role role);

/* Elements of a unit in one of the two buffers (0 dense, 1 expert), padding included. */
static inline int64_t mt_params_unit_count(const mt_params *params, int kind, int unit) {
  return params->unit_first[kind][unit + 1] - params->unit_first[kind][unit];
}

/* Layers that this rank holds: dense ones, or those with routed experts. */
int64_t mt_params_layers(const mt_params *params, bool dense);

/* Parameter by canonical name, or NULL. */
mt_param *mt_params_by_name(const mt_params *params, const char *name);

enum { MT_SMALLEST_SHARDED = 4096 }; /* elements */

/* Is the optimizer state of a tensor cut over `ranks`? Where it has few elements or they do not divide, every rank
 * holds all of it (Olmo-core 3.0.0 olmo_core/optim/moe_optimizer.py). */
static inline bool mt_param_shards(int64_t count, int ranks) {
  return ranks > 1 && count >= MT_SMALLEST_SHARDED && count % ranks == 0;
}

/* Optimizer shards over `dense_ranks` and `expert_ranks` ranks: contiguous slice of own rank, or replicated, as
 * mt_param_shards() says. */
void mt_params_shard(mt_params *params, int dense_ranks, int dense_rank, int expert_ranks, int expert_rank);

/* Cuts the units of one buffer over store->ranks ranks (ZeRO-3: Rajbhandari et al. 2020, arXiv 1910.02054): all
 * parameters of a unit together are one flat piece, padded so that every shard begins at 64 bytes; a parameter's shard
 * is what of it lies in the own piece, perhaps nothing. Changes offsets, unit_first and flat_count. `store` says
 * ranks, rank, copies and rings; a w_ring that is no smaller than the places of all units becomes 0; ranks 1 leaves the
 * buffer whole. */
void mt_params_cut(mt_params *params, int kind, const mt_store *store);

/* Memory of a whole unit in flat_w or flat_grad: place `place` of the ring, or the unit's own place. */
mk_tensor mt_params_unit_memory(const mt_params *params, int kind, int unit, int place, bool gradient);

/* Own piece of a unit inside its whole memory, and in the shards' memory. */
mk_tensor mt_params_own_slice(const mt_params *params, int kind, int unit, const mk_tensor *whole);
mk_tensor mt_params_own_w(const mt_params *params, int kind, int unit);
mk_tensor mt_params_own_grad(const mt_params *params, int kind, int unit);

/* The parameter with its shape, at element `offset` of a flat tensor. */
mk_tensor mt_param_view(const mt_param *p, const mk_tensor *flat, int64_t offset);

/* Lets w (or grad) of a unit's parameters point into the unit's whole memory; NULL: nowhere. */
void mt_params_bind(mt_params *params, int kind, int unit, const mk_tensor *memory, bool gradient);

/* Elements of a buffer's tensors as they are stored. */
typedef struct mt_store_counts {
  int64_t w, grad, own_w, own_grad, optim; /* optim: of each of main, m, v; 0 where they are placed one by one */
} mt_store_counts;
mt_store_counts mt_params_counts(const mt_params *params, int kind);

/* True when a microbatch's backward pass overwrites weight gradients of the buffer: the first, or all with a ring. */
static inline bool mt_store_fresh(const mt_store *store, bool first) { return first || store->grad_ring > 0; }

/* Places compute copies, gradients and optimizer state in the arenas (two-pass, see arena.h) and the packed copies in
 * the workspace arena. With FP32 (or FP64) compute, main is a view of w. */
void mt_params_place(mt_params *params, mk_device *dev, const mt_config *cfg, mk_arena *arenas);

/* Whether this rank holds only a shard of the parameter, and the whole one while its unit is in use. */
static inline bool mt_param_cut(const mt_params *params, const mt_param *p) {
  return params->store[p->expert].ranks > 1;
}

/* Whether parameters of a role are multiplied in MXFP8. */
bool mt_role_mxfp8(const mt_config *cfg, mt_param_role role);

/* Elements and scales in one arena; shapes set (mk_mxfp8_shape). */
static inline void mt_mxfp8_place(mk_arena *arena, mk_mxfp8 *m) {
  mk_arena_place(arena, &m->q);
  mk_arena_place(arena, &m->scale);
}

/* dtype of activations and compute copies; of gradients and statistics. */
mk_dtype mt_compute_dtype(const mt_config *cfg);
mk_dtype mt_master_dtype(const mt_config *cfg);

#ifdef __cplusplus
}
#endif

#endif
