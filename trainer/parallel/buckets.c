/* Gradient buckets: neighbouring units of one flat buffer, reduced together as soon as the backward pass has left the
 * lowest of them, in a fixed order on every rank. Soft cap: a unit is never cut
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

mk_status mt_buckets_start(mt_sharding *sh, int unit, bool last, mt_bucket_fn reduce) {
  if (!last) return MK_OK;
  mk_context *ctx = sh->ctx;
  bool waited = false;
  for (int i = 0; i < sh->n_buckets; i++) {
    const mt_bucket *b = &sh->bucket[i];
    mt_comm *group = mt_sharding_group(sh->mesh, b->kind == 1);
    if (b->first_unit != unit || group->size == 1) continue;
    if (!waited) {
      MK_TRY(ctx, mt_stream_join(ctx, sh->ready, sh->compute, sh->comm));
      waited = true;
    }
    MK_TRY(ctx, reduce(sh, b, group));
  }
  return MK_OK;
}

static mk_status all_reduce(mt_sharding *sh, const mt_bucket *b, mt_comm *group) {
  return mt_comm_all_reduce(group, &b->grad, &b->grad, MT_SUM, sh->comm);
}

mk_status mt_buckets_reduce(mt_sharding *sh, int unit, bool last) {
  return mt_buckets_start(sh, unit, last, all_reduce);
}

mk_status mt_buckets_wait(mt_sharding *sh) { return mt_stream_join(sh->ctx, sh->reduced, sh->comm, sh->compute); }
