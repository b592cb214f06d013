/* Gradient buckets: neighbouring units of one flat buffer, reduced by one call as soon as the backward pass has left
 * the lowest of them, in a fixed order on every rank. Soft cap: a unit is never cut
 * (Olmo-core 3.0.0 olmo_core/nn/parallel/distributed.py). */
#include "kernels/base/heap.h"
#include "trainer/parallel/parallel.h"

/* Elements of units first .. last. */
static int64_t range_count(const mt_params *params, int kind, int first, int last) {
  return params->unit_first[kind][last + 1] - params->unit_first[kind][first];
}

/* Lowest unit of the bucket that ends at `last`. Units that a pipeline rank does not have are empty and end none. */
static int bucket_first(const mt_sharding *sh, int kind, int last) {
  double cap_bytes = sh->cfg->bucket_mib * 1024 * 1024;
  double element = (double)mk_dtype_bytes(sh->params->flat_grad[kind].dtype);
  int first = last;
  for (int unit = last - 1; unit >= 0; unit--) {
    if ((double)range_count(sh->params, kind, unit, last) * element > cap_bytes) break;
    if (mt_params_unit_count(sh->params, kind, unit) > 0) first = unit;
  }
  return first;
}

mk_status mt_buckets_create(mt_sharding *sh) {
  mt_params *params = sh->params;
  MK_TRY(sh->ctx, mk_heap_array(sh->ctx, (size_t)params->units * 2, sizeof *sh->bucket, &sh->bucket));
  for (int kind = 0; kind < 2; kind++) {
    for (int last = params->units - 1; last >= 0;) {
      int first = bucket_first(sh, kind, last);
      int64_t count = range_count(params, kind, first, last);
      mk_tensor grad = mk_tensor_slice(&params->flat_grad[kind], params->unit_first[kind][first], count);
      if (count > 0) sh->bucket[sh->n_buckets++] = (mt_bucket){kind, first, last, grad};
      last = first - 1;
    }
  }
  return MK_OK;
}

mk_status mt_buckets_reduce(mt_sharding *sh, int unit, bool last) {
  if (!last) return MK_OK;
  mk_context *ctx = sh->ctx;
  bool waited = false;
  for (int i = 0; i < sh->n_buckets; i++) {
    mt_bucket *b = &sh->bucket[i];
    mt_comm *group = mt_sharding_group(sh->mesh, b->kind == 1);
    if (b->first_unit != unit || group->size == 1) continue;
    if (!waited) {
      MK_TRY(ctx, mt_stream_join(ctx, sh->ready, sh->compute, sh->comm));
      waited = true;
    }
    MK_TRY(ctx, mt_comm_all_reduce(group, &b->grad, &b->grad, MT_SUM, sh->comm));
  }
  return MK_OK;
}

mk_status mt_buckets_wait(mt_sharding *sh) { return mt_stream_join(sh->ctx, sh->reduced, sh->comm, sh->compute); }

static int64_t master_bytes(const mt_config *cfg) { return (int64_t)mk_dtype_bytes(mt_master_dtype(cfg)); }

int64_t mt_gradient_bytes(const mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan) {
  int64_t count = 0;
  if (plan->dp > 1) count += params->unit_first[0][params->units];
  if (plan->ep_dp > 1) count += params->unit_first[1][params->units];
  return count * master_bytes(cfg);
}

/* What a tensor takes of an arena. */
static int64_t placed(int64_t bytes) {
  return (bytes + MK_ARENA_ALIGN_BYTES - 1) / MK_ARENA_ALIGN_BYTES * MK_ARENA_ALIGN_BYTES;
}

int64_t mt_state_bytes(const mt_params *params, const mt_config *cfg) {
  int64_t compute = (int64_t)mk_dtype_bytes(mt_compute_dtype(cfg)), master = master_bytes(cfg);
  int64_t moments = compute == master ? 2 : 3; /* m and v, and main where it is not the compute copy */
  int64_t bytes = 0;
  for (int kind = 0; kind < 2; kind++) {
    mt_store_counts n = mt_params_counts(params, kind);
    bytes += placed(n.w * compute) + placed(n.own_w * compute) + placed(n.grad * master) + placed(n.own_grad * master);
    bytes += moments * placed(n.optim * master);
  }
  for (int i = 0; i < params->count; i++) {
    const mt_param *p = &params->item[i];
    bytes += mt_param_mxfp8_bytes(p, cfg);
    if (params->store[p->expert].ranks == 1) bytes += moments * placed(p->shard_count * master);
  }
  const mt_param *gain = mt_params_find(params, 0, MT_PARAM_EMBED_NORM);
  return bytes + (gain != NULL && params->store[0].ranks > 1 ? placed(gain->count * compute) : 0);
}
