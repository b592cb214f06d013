/* Optimizer part of a step: squared norm over the layout, clip and skip decision on the device, AdamW on own shards. */
#ifndef TRAINER_OPTIM_OPTIM_H
#define TRAINER_OPTIM_OPTIM_H

#include "trainer/comm/mesh.h"
#include "trainer/model/model.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MT_TIME_SLOTS = 4, MT_MEMORY_WORDS = 2 * MK_MEM_COUNT + 2 };

/* Per-step reductions and the update. One small all-reduce a step carries everything that ranks must agree on or tell
 * each other: reduce is f64 [MK_SUM_COUNT + 1 + 2*ranks + 1] = the step's sums | the squared norm | time and compute
 * time of every rank (each fills its own two, the others are zero, so that the sum is a gather) | ranks that
 * were told to stop. */
typedef struct mt_optim {
  mk_context *ctx;
  const mt_config *cfg;
  mt_model *model;
  const mt_mesh *mesh;
  int64_t total_steps; /* where cosine and linear schedules end */
  mk_tensor reduce;
  mk_tensor times;                    /* f64 [2*ranks + 1], the last part of reduce */
  mk_tensor log;                      /* u8 [sizeof(mk_step_log)] */
  mk_tensor verdict, notice;          /* i32 [1], u8 [MK_MESSAGE_BYTES]: what ranks tell each other outside steps */
  mk_tensor memory;                   /* i64 [ranks, MT_MEMORY_WORDS]: the same, of each rank's memory */
  double own_times[MT_TIME_SLOTS][2]; /* by step; the host fills the slot of the coming step */
  double own_stop[MT_TIME_SLOTS];     /* the same: 1 = this rank was told to stop */
} mt_optim;

/* Places the reduction buffer and the log; model->sums becomes its first part. */
void mt_optim_place(mt_optim *optim, mk_arena *arenas);

/* Advances step and learning rate, clears the step's sums and counts, and hands own_times of `step` over. */
mk_status mt_optim_begin(mt_optim *optim, mk_stream *stream, int64_t step);

/* Exchanges own_times[0] outside a step: after the last one. */
mk_status mt_optim_times_exchange(mt_optim *optim, mk_stream *stream);

/* Gathers MT_MEMORY_WORDS numbers of each rank outside a step: all [ranks, MT_MEMORY_WORDS] on the host, of which the
 * own row is filled in before. Collective over all ranks; waits for the device. */
mk_status mt_optim_memory_exchange(mt_optim *optim, mk_stream *stream, int64_t *all);

/* After the last backward pass of a unit: adds the norms of its gradients that no other rank shares, while they are
 * still in the processor's caches. The others follow in mt_optim_reduce. */
mk_status mt_optim_unit_norms(mt_optim *optim, mk_stream *stream, int unit);

/* After all gradients are complete sums: norm over all ranks (replicated tensors count once, experts once each,
 * Olmo-core 3.0.0 olmo_core/optim/moe_optimizer.py), loss sums over all ranks, clip coefficient, skip. */
mk_status mt_optim_reduce(mt_optim *optim, mk_stream *stream);

/* Pure: bytes that one step's reductions hand to the communicators. */
int64_t mt_optim_wire_bytes(const mt_config *cfg, const mt_mesh_plan *plan);

/* AdamW on the own shards; clears the gradients that the next step will add to. */
mk_status mt_optim_update(mt_optim *optim, mk_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
