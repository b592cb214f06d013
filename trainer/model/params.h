/* Parameters: one list in canonical order, their shapes, and their places in flat buffers.
 *
 * A unit is what becomes ready together in the backward pass: the embedding (unit 0), each layer (1..L), the head
 * (L+1). A pipeline rank has the units of its stages, under the numbers and names of the whole model. Dense and expert
 * parameters live in two flat buffers, because they are reduced over different groups; inside each, units are contiguous
 * and ascending, so that a bucket of neighbouring units is one slice of memory.
 * Canonical names and shapes (row-major, y = x W^T):
 *   embed.table [V,D]  embed.norm [D]
 *   layers.<l>.attn_in_norm [D]  .qkv [(H+2G)*hd,D] rows q|k|v  .q_norm  .k_norm  .attn_o [D,H*hd]  .attn_out_norm [D]
 *   layers.<l>.mlp_in_norm [D]  .router [E,D]  .shared_up_gate [2F,D] rows up|gate  .shared_down [D,F]
 *   layers.<l>.expert_up_gate [E,2F,D]  .expert_down [E,D,F]  .mlp_out_norm [D]
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
  MT_PARAM_ROLE_COUNT
} mt_param_role;

enum { MT_PARAM_NAME_BYTES = 48 };

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
  mk_tensor w;      /* compute copy [dim] */
  mk_tensor grad;   /* f32 [dim] */
  mk_tensor packed; /* GEMM copy of w, absent where the device takes w as it is */
  /* precision mxfp8, else absent: w along K [(E,)N,K] for the forward pass, transposed along N [(E,)K,N] for dgrad */
  mk_mxfp8 w_q, w_t_q;
  /* optimizer state of the own shard: elements [shard_first, shard_first + shard_count) of the local parameter */
  int64_t shard_first, shard_count;
  bool replicated;      /* every rank of the group holds all of it */
  mk_tensor main, m, v; /* f32 [shard_count] */
} mt_param;

typedef struct mt_params {
  mk_context *ctx;
  mt_param *item;
  int count;
  int units;              /* layers + 2 */
  int64_t flat_count[2];  /* elements of the dense and the expert buffer */
  int64_t *unit_first[2]; /* [units + 1]: element range of a unit in each buffer */
  mk_tensor flat_w[2], flat_grad[2];
  int *index; /* [units * MT_PARAM_ROLE_COUNT]: place in item, or -1 */
} mt_params;

/* Builds the list for this rank's place in the mesh: local shapes, flat offsets, decay flags; no memory yet. */
mk_status mt_params_create(mk_context *ctx, const mt_config *cfg, const mt_mesh_plan *mesh, mt_params *out);
void mt_params_fini(mt_params *params);

/* Parameter of a unit by role, or NULL when the model has none. */
mt_param *mt_params_find(const mt_params *params, int unit, mt_param_role role);

/* Parameter by canonical name, or NULL. */
mt_param *mt_params_by_name(const mt_params *params, const char *name);

/* Optimizer shards over `dense_ranks` and `expert_ranks` ranks: contiguous slice of own rank where the element count is
 * at least 4096 and divisible, else replicated (Olmo-core 3.0.0 olmo_core/optim/moe_optimizer.py). One rank: all own.
 */
void mt_params_shard(mt_params *params, int dense_ranks, int dense_rank, int expert_ranks, int expert_rank);

/* Places compute copies, gradients and optimizer state in the arenas (two-pass, see arena.h) and the packed copies in
 * the workspace arena. With FP32 (or FP64) compute, main is a view of w. */
void mt_params_place(mt_params *params, mk_device *dev, const mt_config *cfg, mk_arena *arenas);

/* Whether parameters of a role are multiplied in MXFP8; bytes of both quantised copies of one, 0 without. */
bool mt_role_mxfp8(const mt_config *cfg, mt_param_role role);
int64_t mt_param_mxfp8_bytes(const mt_param *p, const mt_config *cfg);

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
