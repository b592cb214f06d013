/* Distributed optimizer (ZeRO-1): gradients and compute copies are whole on every rank, optimizer state is sharded.
 *
 * sharded     main, m, v of each tensor over its group of G ranks (dense: data-parallel ranks; experts: those that hold
 *             the same experts): contiguous slice of own rank where the tensor has at least 4096 elements and G divides
 *             them, else replicated
 * memory      P parameters of this rank, of which Q are replicated; compute copies and gradients, and state:
 *             bf16 6 P + 12 ((P-Q)/G + Q), fp32 8 P + 8 ((P-Q)/G + Q), fp64 16 P + 16 ((P-Q)/G + Q); mxfp8 as bf16, and
 *             the quantised copies (none.c)
 * wire        bytes handed over a step; f of a gradient (4; fp64 8), c of a compute copy (2, 4, 8)
 *               all_reduce      f P, padding between tensors included, then c (P - Q)/G in the all-gathers
 *               reduce_scatter  f P without it: f (P - Q) scattered, f Q reduced everywhere, then c (P - Q)/G
 * collectives last microbatch, after_backward, a bucket as soon as its lowest unit is done: all_reduce of the bucket
 *             (grad_reduce: all_reduce), or of each of its tensors reduce_scatter, where replicated all_reduce
 *             (grad_reduce: reduce_scatter); before_step waits; all_gather a sharded tensor at after_step
 * timeline    all_reduce      compute  F B | F B2 B1 B0    | Adam(own slice) |
 *                             comm     . . | .  R2 R1 R0   |                 | G0 G1 G2
 *             reduce_scatter  compute  F B | F B2 B1  B0   | Adam(own slice) |
 *                             comm     . . | .  ss ssr ssr |                 | G0 G1 G2
 *             (R a bucket; s reduce_scatter and r all_reduce of a tensor; G all_gathers of a unit)
 * invariants  buckets, and tensors in them from the last down, come in the same order on all ranks of a group; on CPU
 *             a rank's slice of a gradient has the same bits either way (comm.h); after after_step the compute copies
 *             are bitwise equal on all ranks of a group
 * paper       Rajbhandari et al. 2020, ZeRO, arXiv 1910.02054; Olmo-core 3.0.0 olmo_core/optim/moe_optimizer.py */
#include "trainer/parallel/parallel.h"

static void layout(mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan) {
  (void)cfg;
  mt_params_shard(params, plan->dp, plan->dp_rank, plan->ep_dp, plan->ep_dp_rank);
}

static bool scatters(const mt_config *cfg) { return cfg->grad_reduce == MT_GRAD_REDUCE_SCATTER; }

/* Reduces one tensor: only the own slice becomes the full sum where the tensor is sharded. */
static mk_status reduce_tensor(mt_sharding *sh, const mt_param *p, mt_comm *group) {
  mk_tensor whole = mk_tensor_slice(&p->grad, 0, p->count);
  if (p->replicated) return mt_comm_all_reduce(group, &whole, &whole, MT_SUM, sh->comm);
  mk_tensor own = mk_tensor_slice(&p->grad, p->shard_first, p->shard_count);
  return mt_comm_reduce_scatter(group, &whole, &own, MT_SUM, sh->comm);
}

/* The slices of a rank lie apart, one in each tensor, so that a bucket takes a call a tensor, from the last down. */
static mk_status scatter_bucket(mt_sharding *sh, const mt_bucket *b, mt_comm *group) {
  for (int i = sh->params->count - 1; i >= 0; i--) {
    const mt_param *p = &sh->params->item[i];
    if (p->expert != (b->kind == 1) || p->unit < b->first_unit || p->unit > b->last_unit) continue;
    MK_TRY(sh->ctx, reduce_tensor(sh, p, group));
  }
  return MK_OK;
}

static mk_status after_backward(mt_sharding *sh, int unit, bool last) {
  return scatters(sh->cfg) ? mt_buckets_start(sh, unit, last, scatter_bucket) : mt_buckets_reduce(sh, unit, last);
}

static mk_status after_step(mt_sharding *sh) {
  mk_context *ctx = sh->ctx;
  MK_TRY(ctx, mt_stream_join(ctx, sh->ready, sh->compute, sh->comm));
  for (int i = 0; i < sh->params->count; i++) {
    mt_param *p = &sh->params->item[i];
    mk_tensor whole = mk_tensor_slice(&p->w, 0, p->count);
    mk_tensor own = mk_tensor_slice(&p->w, p->shard_first, p->shard_count);
    if (p->replicated) continue;
    MK_TRY(ctx, mt_comm_all_gather(mt_sharding_group(sh->mesh, p->expert), &own, &whole, sh->comm));
  }
  return mt_buckets_wait(sh);
}

static int64_t wire_bytes(const mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan, const mt_pp *pp) {
  (void)pp;
  int64_t compute = (int64_t)mk_dtype_bytes(mt_compute_dtype(cfg)),
          master = (int64_t)mk_dtype_bytes(mt_master_dtype(cfg));
  int64_t bytes = scatters(cfg) ? 0 : mt_gradient_bytes(params, cfg, plan);
  for (int i = 0; i < params->count; i++) {
    const mt_param *p = &params->item[i];
    if ((p->expert ? plan->ep_dp : plan->dp) == 1) continue;
    if (scatters(cfg)) bytes += p->count * master;
    if (!p->replicated) bytes += p->shard_count * compute;
  }
  return bytes;
}

static int64_t mem_bytes(const mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan) {
  return mt_whole_bytes(params, cfg, 0, plan->dp) + mt_whole_bytes(params, cfg, 1, plan->ep_dp);
}

const mt_sharding_ops mt_dist_opt_ops = {
    .name = "dist_opt",
    .layout = layout,
    .init = mt_buckets_create,
    .after_backward = after_backward,
    .before_step = mt_buckets_wait,
    .after_step = after_step,
    .wire_bytes = wire_bytes,
    .mem_bytes = mem_bytes,
};
