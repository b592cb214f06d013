/* Sharding strategies: one file each behind one table of hooks.
 *
 * The step loop calls the hooks; a strategy decides there which collective to start. Gradients are complete sums once
 * before_step returns: every loss term is divided by the labels of the whole step (all ranks and microbatches), so that
 * a plain sum over the group is the mean gradient; expert gradients are summed over the ranks that hold the same
 * experts, whose tokens already met inside them. Communication runs on its own stream, ordered by events. */
#ifndef TRAINER_PARALLEL_PARALLEL_H
#define TRAINER_PARALLEL_PARALLEL_H

#include "trainer/comm/mesh.h"
#include "trainer/model/params.h"
#include "trainer/parallel/pp.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mt_sharding mt_sharding;

typedef struct mt_sharding_ops {
  const char *name;
  /* which part of every parameter this rank stores and updates (mt_params_shard, mt_params_cut); before placement.
   * NULL = everything whole, here and below = nothing to do */
  void (*layout)(mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan);
  mk_status (*init)(mt_sharding *sh);
  void (*fini)(mt_sharding *sh);
  /* before a unit's weights are read, and after its forward pass (mt_pass) */
  mk_status (*before_use)(mt_sharding *sh, int unit, mt_use use);
  mk_status (*after_forward)(mt_sharding *sh, int unit);
  /* a unit's gradients are complete for this microbatch (mt_pass); `last`: of the step's last microbatch */
  mk_status (*after_backward)(mt_sharding *sh, int unit, bool last);
  /* gradients are needed now: makes compute wait for what is under way */
  mk_status (*before_step)(mt_sharding *sh);
  /* the optimizer has written its shards of the compute copies */
  mk_status (*after_step)(mt_sharding *sh);
  /* outside a step, collective: whole weights (or gradients) of a unit on this rank, until the hide that follows */
  mk_status (*show)(mt_sharding *sh, int unit, bool gradient);
  mk_status (*hide)(mt_sharding *sh, int unit, bool gradient);
  /* pure: bytes this rank hands to the communicators in one step (payload as in comm.h), and bytes of parameters,
   * gradients and optimizer state */
  int64_t (*wire_bytes)(const mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan, const mt_pp *pp);
  int64_t (*mem_bytes)(const mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan);
} mt_sharding_ops;

/* Units [first_unit, last_unit] of one flat buffer, reduced together when first_unit is done (units finish from the
 * last to the first). */
typedef struct mt_bucket {
  int kind; /* 0 dense, 1 expert */
  int first_unit, last_unit;
  mk_tensor grad; /* flat slice */
} mt_bucket;

typedef struct mt_fsdp mt_fsdp;

struct mt_sharding {
  const mt_sharding_ops *ops;
  mk_context *ctx;
  const mt_config *cfg;
  mt_params *params;
  mt_mesh *mesh;
  const mt_pp *pp; /* the order of passes on this rank */
  mk_stream *compute, *comm;
  mk_event *ready, *reduced; /* compute -> comm, comm -> compute */
  mt_bucket *bucket;
  int n_buckets;
  mt_fsdp *fsdp;
  /* the running microbatch: trains or evaluates; first and last of its step */
  bool train, first, last;
};

/* Strategy by cfg->shard; looks nothing up later. */
const mt_sharding_ops *mt_sharding_ops_for(const mt_config *cfg);

/* The mesh that the configuration asks for. */
mt_mesh_config mt_sharding_mesh(const mt_config *cfg);

/* Storage of the parameters by cfg->shard; after mt_params_create, before placement. */
void mt_sharding_layout(mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan);

/* After placement. Streams, mesh and pipeline are borrowed. */
mk_status mt_sharding_create(mk_context *ctx, const mt_config *cfg, mt_params *params, mt_mesh *mesh, const mt_pp *pp,
                             mk_stream *compute, mk_stream *comm, mt_sharding **out);
void mt_sharding_destroy(mt_sharding *sh);

/* Cuts both flat gradient buffers into buckets of neighbouring units up to cfg->bucket_mib, from the last unit down. */
mk_status mt_buckets_create(mt_sharding *sh);

/* Puts the collectives of one bucket on sh->comm; `group`: the ranks that share its gradients, more than one. */
typedef mk_status (*mt_bucket_fn)(mt_sharding *sh, const mt_bucket *bucket, mt_comm *group);

/* In the last microbatch: `reduce` on every bucket that `unit` completes, behind what compute has been given so far. */
mk_status mt_buckets_start(mt_sharding *sh, int unit, bool last, mt_bucket_fn reduce);

/* Shared by strategies that sum whole gradients: mt_buckets_start with one all-reduce a bucket; and the wait of compute
 * for all that was started. */
mk_status mt_buckets_reduce(mt_sharding *sh, int unit, bool last);
mk_status mt_buckets_wait(mt_sharding *sh);

/* Communicator whose ranks share a parameter's gradient. */
mt_comm *mt_sharding_group(const mt_mesh *mesh, bool expert);

/* Lets the stream `to` wait for all that `from` has been given so far. */
mk_status mt_stream_join(mk_context *ctx, mk_event *event, mk_stream *from, mk_stream *to);

/* Pure, for the formulas of the strategies: made of the list of parameters and the configuration, not of what a layout
 * did with them. Bytes of a compute copy and of a gradient or state; states of an element: m, v, and main where it is
 * not the compute copy. */
typedef struct mt_widths {
  int64_t compute, master, states;
} mt_widths;
mt_widths mt_widths_of(const mt_config *cfg);

/* Elements of a unit, or of all units, of this rank (kind 0 dense, 1 expert): each parameter rounded up to
 * MT_PARAM_ALIGN, each unit to `align`. */
int64_t mt_unit_elements(const mt_params *params, int kind, int unit, int64_t align);
int64_t mt_elements(const mt_params *params, int kind, int64_t align);

/* Bytes: a tensor in an arena; both quantised copies of a kind's parameters multiplied in MXFP8, in_turn: of the
 * largest of each role; parameters with these and gradients of a kind kept whole, and optimizer state cut over `ranks`
 * where mt_param_shards() says so (1: whole too); all of that on one rank, the hook mem_bytes of who cuts nothing;
 * gradients that a step reduces, handed over once. */
int64_t mt_tensor_bytes(int64_t elements, int64_t width);
int64_t mt_quantised_bytes(const mt_params *params, const mt_config *cfg, int kind, bool in_turn);
int64_t mt_whole_bytes(const mt_params *params, const mt_config *cfg, int kind, int ranks);
int64_t mt_uncut_mem_bytes(const mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan);
int64_t mt_gradient_bytes(const mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan);

extern const mt_sharding_ops mt_none_ops, mt_ddp_ops, mt_dist_opt_ops, mt_fsdp_ops;

#ifdef __cplusplus
}
#endif

#endif
