/* What fully sharded data parallelism stores and sends; formulas in fsdp.c. */
#include "trainer/parallel/fsdp.h"

#include "kernels/base/min_max.h"

/* A ring only where it is smaller than a place for each unit, and where units do not stay. */
static int weight_ring(const mt_params *params, const mt_config *cfg) {
  int places = (int)mk_max(cfg->fsdp_prefetch, mt_config_prefetch_backward(cfg)) + 1;
  return cfg->fsdp_reshard == MT_RESHARD_AFTER_FORWARD && places < params->units ? places : 0;
}

void mt_fsdp_layout(mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan) {
  for (int kind = 0; kind < 2; kind++) {
    mt_store store = {.ranks = plan->shard[kind], .rank = plan->shard_rank[kind], .copies = plan->copies};
    if (store.ranks > 1) {
      store.w_ring = weight_ring(params, cfg);
      store.grad_ring = cfg->fsdp_reduce == MT_FSDP_REDUCE_EACH ? MT_FSDP_GRAD_RING : 0;
    }
    mt_params_cut(params, kind, &store);
  }
}

/* All-gathers of a unit in a step of `m` microbatches. */
static int64_t gathers(const mt_params *params, const mt_config *cfg, int unit, int64_t m) {
  if (unit == 0) return m;
  bool head = unit == params->units - 1;
  switch (cfg->fsdp_reshard) {
    case MT_KEEP_TO_BACKWARD:
      return m;
    case MT_KEEP_TO_FORWARD:
      return head ? 1 : m + 1;
    default:
      return head ? m : 2 * m;
  }
}

int64_t mt_fsdp_wire_bytes(const mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan) {
  int64_t compute = (int64_t)mk_dtype_bytes(mt_compute_dtype(cfg)),
          master = (int64_t)mk_dtype_bytes(mt_master_dtype(cfg));
  int64_t m = mt_config_microbatches(cfg), bytes = 0;
  int64_t reductions = cfg->fsdp_reduce == MT_FSDP_REDUCE_EACH ? m : 1;
  for (int kind = 0; kind < 2; kind++) {
    int64_t ranks = params->store[kind].ranks;
    for (int unit = 0; unit < params->units; unit++) {
      int64_t count = mt_params_unit_count(params, kind, unit);
      if (ranks > 1) bytes += gathers(params, cfg, unit, m) * count / ranks * compute + reductions * count * master;
      if (plan->copies > 1) bytes += count / ranks * master;
    }
  }
  return bytes;
}
