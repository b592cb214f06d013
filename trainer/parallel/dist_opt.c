/* Distributed optimizer (ZeRO-1): gradients and compute copies are whole on every rank, optimizer state is sharded.
 *
 * sharded     main, m, v of each tensor over its group of G ranks: contiguous slice of own rank where the tensor has at
 *             least 4096 elements and G divides them, else replicated
 * memory      bf16: 6 + 12/G bytes a parameter
 * wire        gradients as in ddp (all_reduce), or reduce-scatter of the sharded tensors and all-reduce of the others;
 *             then an all-gather of the compute copies: 2/G bytes a sharded parameter handed over
 * collectives all_reduce of buckets at after_backward (grad_reduce: all_reduce), or reduce_scatter a tensor at
 *             before_step (grad_reduce: reduce_scatter); all_gather a tensor at after_step
 * timeline    compute  F B | F B2 B1 B0 | Adam(own slice) |
 *             comm     . . | .  R2 R1 R0|                 | G0 G1 G2
 * invariants  after after_step the compute copies are bitwise equal on all ranks of a group
 * paper       Rajbhandari et al. 2020, ZeRO, arXiv 1910.02054; Olmo-core 3.0.0 olmo_core/optim/moe_optimizer.py */
#include "trainer/parallel/parallel.h"

static void layout(mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan) {
  (void)cfg;
  mt_params_shard(params, plan->dp, plan->dp_rank, plan->ep_dp, plan->ep_dp_rank);
}

static bool scatters(const mt_config *cfg) { return cfg->grad_reduce == MT_GRAD_REDUCE_SCATTER; }

static mk_status after_backward(mt_sharding *sh, int unit, bool last) {
  return scatters(sh->cfg) ? MK_OK : mt_buckets_reduce(sh, unit, last);
}

/* Reduces one tensor: only the own slice becomes the full sum where the tensor is sharded. */
static mk_status reduce_tensor(mt_sharding *sh, const mt_param *p) {
  mt_comm *group = mt_sharding_group(sh->mesh, p->expert);
  mk_tensor whole = mk_tensor_slice(&p->grad, 0, p->count);
  if (group->size == 1) return MK_OK;
  if (p->replicated) return mt_comm_all_reduce(group, &whole, &whole, MT_SUM, sh->comm);
  mk_tensor own = mk_tensor_slice(&p->grad, p->shard_first, p->shard_count);
  return mt_comm_reduce_scatter(group, &whole, &own, MT_SUM, sh->comm);
}

static mk_status before_step(mt_sharding *sh) {
  mk_context *ctx = sh->ctx;
  if (scatters(sh->cfg)) {
    MK_TRY(ctx, mt_stream_join(ctx, sh->ready, sh->compute, sh->comm));
    for (int i = sh->params->count - 1; i >= 0; i--)
      MK_TRY(ctx, reduce_tensor(sh, &sh->params->item[i]));
  }
  return mt_buckets_wait(sh);
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
  (void)plan;
  return mt_state_bytes(params, cfg);
}

const mt_sharding_ops mt_dist_opt_ops = {
    .name = "dist_opt",
    .layout = layout,
    .init = mt_buckets_create,
    .after_backward = after_backward,
    .before_step = before_step,
    .after_step = after_step,
    .wire_bytes = wire_bytes,
    .mem_bytes = mem_bytes,
};
