/* Private to fsdp*.c: the order in which units are used, where gathered units and their gradients are, and the steps of
 * gathering and reducing them. */
#ifndef TRAINER_PARALLEL_FSDP_H
#define TRAINER_PARALLEL_FSDP_H

#include "trainer/parallel/parallel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What happens to the layers of a chunk around one of its passes. */
typedef struct mt_fsdp_pass {
  bool gathers;  /* they are not here: the first pass, or released by the one before */
  bool releases; /* they do not stay behind it */
} mt_fsdp_pass;

/* One use of a unit's weights, alike. The embedding's backward pass is none: it needs no weights. */
typedef struct mt_fsdp_use {
  int unit;
  mt_use use;
  bool gathers, releases;
} mt_fsdp_use;

/* All uses on this rank, in order, of a step or of an evaluation: what its pipeline list says, chunk by chunk. */
typedef struct mt_fsdp_uses {
  const mt_config *cfg;
  const mt_pp_list *list; /* borrowed */
  mt_pp_shape shape;
  mt_fsdp_pass *pass; /* [list->count], for each action; NULL in an evaluation, which keeps nothing */
} mt_fsdp_uses;

/* A place in that order. */
typedef struct mt_fsdp_walk {
  const mt_fsdp_uses *uses;
  int64_t action; /* the compute action that the next use belongs to; list->count at the end */
  int64_t within; /* uses of that action before it */
  int64_t before; /* uses of all before it */
} mt_fsdp_walk;

/* Pure: passes of the layers of a chunk in a step of `microbatches`, into pass [list->count] where it is not NULL;
 * returns in how many of them the layers are gathered. */
int64_t mt_fsdp_passes(const mt_pp_list *list, int chunk, mt_fsdp_reshard reshard, int64_t microbatches,
                       mt_fsdp_pass *pass);

/* The uses of a list; train: of a step, else of an evaluation. fini is legal on zero. */
mk_status mt_fsdp_uses_make(mk_context *ctx, const mt_config *cfg, const mt_pp_list *list, bool train,
                            mt_fsdp_uses *out);
void mt_fsdp_uses_fini(mk_context *ctx, mt_fsdp_uses *uses);

/* The first use; the one at a place, false at the end; and on to the next. */
mt_fsdp_walk mt_fsdp_walk_start(const mt_fsdp_uses *uses);
bool mt_fsdp_walk_get(const mt_fsdp_walk *walk, mt_fsdp_use *out);
void mt_fsdp_walk_on(mt_fsdp_walk *walk);

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
  mt_fsdp_uses uses[2]; /* of an evaluation, of a step */
  mt_fsdp_use use;      /* the running one */
  mt_fsdp_walk next;    /* the use after it */
  mt_fsdp_walk ahead;   /* the first use whose gather, if it has one, is not issued */
};

/* Places and their events; after placement. fini is legal after a failed init. */
mk_status mt_fsdp_init(mt_sharding *sh);
void mt_fsdp_fini(mt_sharding *sh);

/* Starts the all-gathers of a unit that is not here, behind the last use of the places that they go to. */
mk_status mt_fsdp_gather(mt_sharding *sh, int unit);

/* Whether the unit is here or on its way. */
bool mt_fsdp_here(const mt_sharding *sh, int unit);

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

/* Hooks layout, wire_bytes and mem_bytes of the strategy (parallel.h); formulas in fsdp.c. */
void mt_fsdp_layout(mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan);
int64_t mt_fsdp_wire_bytes(const mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan, const mt_pp *pp);
int64_t mt_fsdp_mem_bytes(const mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan);

#ifdef __cplusplus
}
#endif

#endif
