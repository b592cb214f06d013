/* Private to fsdp*.c: where gathered units and their gradients are, and the steps of gathering and reducing them. */
#ifndef TRAINER_PARALLEL_FSDP_H
#define TRAINER_PARALLEL_FSDP_H

#include "trainer/parallel/parallel.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MT_FSDP_NOWHERE = -1, MT_FSDP_GRAD_RING = 2 };

/* A place in flat_w or flat_grad that one unit after the other uses. */
typedef struct mt_fsdp_place {
  mk_event *filled; /* flat_w: gathered, comm -> compute; flat_grad: gradients complete, compute -> comm */
  mk_event *freed;  /* flat_w: last read passed, compute -> comm; flat_grad: reduced, comm -> compute */
} mt_fsdp_place;

/* One of the two buffers of one kind of parameters. */
typedef struct mt_fsdp_places {
  mt_fsdp_place *place;
  int count;
  bool ring;
  int64_t claimed; /* so far; a ring hands its places out in turn */
  int *at;         /* [units]: place of a unit that is here, or MT_FSDP_NOWHERE */
} mt_fsdp_places;

struct mt_fsdp {
  mt_fsdp_places w[2], grad[2];
};

/* Places and their events; after placement. fini is legal after a failed init. */
mk_status mt_fsdp_init(mt_sharding *sh);
void mt_fsdp_fini(mt_sharding *sh);

/* Starts the all-gathers of a unit that is not here, behind the last use of the places that they go to. */
mk_status mt_fsdp_gather(mt_sharding *sh, int unit);

/* Compute waits until the unit is here. */
mk_status mt_fsdp_wait(mt_sharding *sh, int unit);

/* The unit's weights may be overwritten once compute has passed this point. */
mk_status mt_fsdp_release(mt_sharding *sh, int unit);

/* Places for the gradients of a unit, those that the backward pass adds to cleared. Nothing without a ring. */
mk_status mt_fsdp_grad_begin(mt_sharding *sh, int unit);

/* Gradients of a unit are complete for this microbatch: starts what the configuration reduces now. */
mk_status mt_fsdp_grad_reduce(mt_sharding *sh, int unit);

/* Whole gradients of a unit from the shards, and away again. */
mk_status mt_fsdp_grad_show(mt_sharding *sh, int unit);
mk_status mt_fsdp_grad_hide(mt_sharding *sh, int unit);

/* Hooks layout and wire_bytes of the strategy (parallel.h); formulas in fsdp.c. */
void mt_fsdp_layout(mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan);
int64_t mt_fsdp_wire_bytes(const mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan);

#ifdef __cplusplus
}
#endif

#endif
