/* What a run will move and hold, by formula: nothing is placed, no communicator is asked. The equivalence table holds
 * these beside what the communicators traced and the device counted.
 *
 * Letters: c compute and f master bytes of a value, T tokens of a microbatch, K top-k, D model, E experts, R ranks of
 * an EP group, L = E/R, F expert hidden, Fs shared hidden, N rows reserved for the local experts, Q = (H + 2G) *
 * head_dim. */
#ifndef TRAINER_STEP_PREDICT_H
#define TRAINER_STEP_PREDICT_H

#include "trainer/model/model.h"
#include "trainer/parallel/parallel.h"
#include "trainer/parallel/pp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Payload of one step of this rank, as comm.h defines it, in bytes. */
typedef struct mt_wire {
  int64_t sharding; /* gradients and weights: communicators dense and expert */
  int64_t optim;    /* sums, norm, times and expert counts: all ranks */
  int64_t ep;       /* token exchange, of which ep_counts are counts of routes */
  int64_t ep_counts;
  int64_t pp;     /* streams and gradients between pipeline stages */
  int64_t window; /* rows that pass between ranks through windows; no communicator counts them */
} mt_wire;

/* counts: i32 [microbatches, MoE layers of this rank, R, E], the routes of every source rank of the EP group to every
 * expert. */
mt_wire mt_predict_wire(const mt_config *cfg, const mt_mesh_plan *plan, const mt_params *params, const mt_ep *ep,
                        const mt_pp *pp, const int32_t *counts);

/* Host waits inside one step: those of the transport. */
int64_t mt_predict_host_waits(const mt_config *cfg, const mt_params *params, const mt_ep *ep);

/* Chunks of a pipeline rank that are live at once, by the schedule's formula; `v` has none: as its list says. */
int64_t mt_predict_sets(const mt_pp *pp, int pp_rank);

/* Peak bytes of device memory of a rank by what they are for. `state` holds parameters, gradients and optimizer state
 * (mem_bytes of the strategy). Every tensor starts on 64 bytes; the formulas add that much for each. */
typedef struct mt_memory {
  int64_t state, activations, comm, workspace;
} mt_memory;

/* Pure but for what the device says of its libraries: scratch of the attention, packed weights. */
mt_memory mt_predict_memory(const mt_config *cfg, const mt_mesh_plan *plan, const mt_params *params, const mt_ep *ep,
                            const mt_pp *pp, mk_device *dev);

static inline int64_t mt_memory_total(const mt_memory *m) { return m->state + m->activations + m->comm + m->workspace; }

#ifdef __cplusplus
}
#endif

#endif
