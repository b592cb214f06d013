/* What fully sharded data parallelism stores and sends; formulas in fsdp.c. */
#include "trainer/parallel/fsdp.h"

#include "kernels/base/min_max.h"

/* A ring has room for what is gathered ahead and for the unit in use; units that stay need a place each. */
static int weight_ring(const mt_config *cfg) {
  int places = (int)mk_max(cfg->fsdp_prefetch, mt_config_prefetch_backward(cfg)) + 1;
  return cfg->fsdp_reshard == MT_RESHARD_AFTER_FORWARD ? places : 0;
}

void mt_fsdp_layout(mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan) {
  for (int kind = 0; kind < 2; kind++) {
    mt_store store = {.ranks = plan->shard[kind], .rank = plan->shard_rank[kind], .copies = plan->copies};
    if (store.ranks > 1) {
      store.w_ring = weight_ring(cfg);
      store.grad_ring = cfg->fsdp_reduce == MT_FSDP_REDUCE_EACH ? MT_FSDP_GRAD_RING : 0;
    }
    mt_params_cut(params, kind, &store);
  }
}

/* All-gathers of the units of a chunk in a step, those of its layers by its passes. */
static int64_t chunk_gathered(const mt_params *params, const mt_config *cfg, int kind, const mt_pp_list *list,
                              int chunk, const mt_pp_stage *stage) {
  int64_t m = mt_config_microbatches(cfg), count = 0;
  int64_t each = mt_fsdp_passes(list, chunk, cfg->fsdp_reshard, m, NULL);
  for (int64_t layer = stage->first_layer; layer < stage->first_layer + stage->layers; layer++)
    count += each * mt_params_unit_count(params, kind, (int)layer + 1);
  if (stage->embeds) count += m * mt_params_unit_count(params, kind, 0);
  int64_t head = cfg->fsdp_reshard == MT_KEEP_TO_FORWARD ? 1 : m;
  if (stage->predicts) count += head * mt_params_unit_count(params, kind, params->units - 1);
  return count;
}

/* Elements of all units that are gathered in a step, each as often as it is. */
static int64_t gathered(const mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan, const mt_pp_list *list,
                        int kind) {
  mt_pp_shape shape = mt_pp_shape_of(cfg);
  int64_t count = 0;
  for (int chunk = 0; chunk < shape.chunks; chunk++) {
    mt_pp_stage stage = mt_pp_stage_make(&shape, cfg->layers, mt_pp_stage_at(&shape, plan->pp_rank, chunk));
    count += chunk_gathered(params, cfg, kind, list, chunk, &stage);
  }
  return count;
}

int64_t mt_fsdp_wire_bytes(const mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan, const mt_pp *pp) {
  int64_t compute = (int64_t)mk_dtype_bytes(mt_compute_dtype(cfg)),
          master = (int64_t)mk_dtype_bytes(mt_master_dtype(cfg));
  int64_t reductions = cfg->fsdp_reduce == MT_FSDP_REDUCE_EACH ? mt_config_microbatches(cfg) : 1, bytes = 0;
  for (int kind = 0; kind < 2; kind++) {
    int64_t ranks = params->store[kind].ranks, count = params->flat_count[kind];
    if (ranks > 1) bytes += gathered(params, cfg, plan, pp->step_list, kind) / ranks * compute;
    if (ranks > 1) bytes += reductions * count * master;
    if (plan->copies > 1) bytes += count / ranks * master;
  }
  return bytes;
}

/* Of one kind of parameters, cut over `ranks` ranks. */
static int64_t cut_bytes(const mt_params *params, const mt_config *cfg, int kind, int ranks) {
  mt_widths w = mt_widths_of(cfg);
  int64_t align = (int64_t)ranks * MT_PARAM_ALIGN, all = mt_elements(params, kind, align), largest = 0;
  for (int unit = 0; unit < params->units; unit++)
    largest = mk_max(largest, mt_unit_elements(params, kind, unit, align));
  bool each = cfg->fsdp_reduce == MT_FSDP_REDUCE_EACH, gives_up = cfg->fsdp_reshard == MT_RESHARD_AFTER_FORWARD;
  int64_t places = mk_max(cfg->fsdp_prefetch, mt_config_prefetch_backward(cfg)) + 1;
  int64_t weights = gives_up ? mk_min(places * largest, all) : all;
  int64_t shards = all / ranks * (w.compute + w.states * w.master);
  int64_t gradients = each ? MT_FSDP_GRAD_RING * largest + all / ranks : all;
  return shards + weights * w.compute + gradients * w.master + mt_quantised_bytes(params, cfg, kind, true);
}

int64_t mt_fsdp_mem_bytes(const mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan) {
  int64_t bytes = 0;
  for (int kind = 0; kind < 2; kind++) {
    int ranks = plan->shard[kind];
    bytes += ranks > 1 ? cut_bytes(params, cfg, kind, ranks) : mt_whole_bytes(params, cfg, kind, 1);
  }
  bool keeps_gain = cfg->embed_norm && plan->shard[0] > 1 && mt_params_find(params, 0, MT_PARAM_EMBED) != NULL;
  return bytes + (keeps_gain ? mt_tensor_bytes(cfg->d_model, mt_widths_of(cfg).compute) : 0);
}
