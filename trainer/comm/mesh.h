/* The mesh of ranks: data parallel x expert parallel x pipeline, and one communicator per purpose.
 *
 *   dense mesh (pp, dp), row-major:             global rank = pp_rank * dp + dp_rank
 *   MoE mesh (pp, ep_dp, ep), ep fastest:       dp_rank     = ep_dp_rank * ep + ep_rank
 *
 * so an EP group is `ep` consecutive ranks, and the ranks that hold the same experts have stride `ep`. This is the
 * layout of Olmo-core 3.0.0 (olmo_core/distributed/parallel, train_module/transformer/ddp_train_module.py). */
#ifndef TRAINER_COMM_MESH_H
#define TRAINER_COMM_MESH_H

#include "trainer/comm/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mt_mesh_config {
  int ep;          /* ranks that share the experts of a layer */
  int pp;          /* pipeline stages */
  int64_t experts; /* routed experts of a layer; 0 = dense model, which takes ep 1 only */
  int shard;       /* neighbouring ranks that share one copy of the parameters (hybrid sharding); 0 = all of a stage */
} mt_mesh_config;

/* Where one rank stands. */
typedef struct mt_mesh_plan {
  int world, rank;
  int dp, dp_rank;       /* dense group: all ranks of the stage */
  int ep, ep_rank;       /* owns experts [ep_rank * experts / ep, (ep_rank + 1) * experts / ep) */
  int ep_dp, ep_dp_rank; /* ranks holding the same experts */
  int pp, pp_rank;
  /* of dense and expert parameters: ranks that share a copy (neighbours in their group), own place, number of copies */
  int shard[2], shard_rank[2], copies;
} mt_mesh_plan;

typedef enum mt_mesh_kind {
  MT_MESH_WORLD,
  MT_MESH_DENSE,
  MT_MESH_EXPERT,
  MT_MESH_EP,
  MT_MESH_PP,
  MT_MESH_DENSE_SHARD,
  MT_MESH_EXPERT_SHARD,
  MT_MESH_COPIES
} mt_mesh_kind;

/* Pure. MK_ERR_CONFIG with the reason when the layout is illegal: pp must divide world, ep must divide world / pp,
 * ep must divide experts; shard must divide world / pp and be a multiple of ep. */
mk_status mt_mesh_plan_make(mk_context *ctx, int world, int rank, const mt_mesh_config *config, mt_mesh_plan *out);

/* Pure. Global ranks of the own group of this kind, ascending, into ranks [at most world]; returns their number. The
 * own place in the list is dp_rank, ep_dp_rank, ep_rank or pp_rank. */
int mt_mesh_group(const mt_mesh_plan *plan, mt_mesh_kind kind, int *ranks);

/* One communicator per purpose; groups of one rank included, so that callers need no special case. */
typedef struct mt_mesh {
  mt_mesh_plan plan;
  mt_comm *world;   /* borrowed */
  mt_comm *dense;   /* "dense": gradients of everything but experts; the loss */
  mt_comm *expert;  /* "expert": gradients of the experts (ep_dp) */
  mt_comm *ep;      /* "ep": token exchange */
  mt_comm *pp;      /* "pp": activations, to the next stage */
  mt_comm *pp_back; /* "pp_back": gradients, to the previous stage */
  /* dense and expert: ranks that share a copy of the parameters; dense and expert themselves where there is one copy */
  mt_comm *shard[2];  /* "shard", "expert_shard" */
  mt_comm *copies[2]; /* "copies", "expert_copies": the same shard of every copy; NULL where there is one copy */
} mt_mesh;

/* Collective over world. */
mk_status mt_mesh_create(mk_context *ctx, mt_comm *world, const mt_mesh_config *config, mt_mesh **out);
void mt_mesh_destroy(mt_mesh *mesh); /* leaves world; NULL is legal */

/* Communicator of all ranks, for what a step must make equal on all of them: dense where there is one stage. */
mt_comm *mt_mesh_all(const mt_mesh *mesh);

/* What is known of faults on any communicator of the mesh, without waiting: MK_OK, or the first fault that is found. */
mk_status mt_mesh_poll(const mt_mesh *mesh);

/* Payload of all calls on the mesh's communicators so far, in bytes that this rank sent. */
int64_t mt_mesh_payload_bytes(const mt_mesh *mesh);

#ifdef __cplusplus
}
#endif

#endif
