/* Bytes on the wire and host waits by formula: see predict.h. */
#include "trainer/step/predict.h"

#include "trainer/model/recompute.h"
#include "trainer/optim/optim.h"

/* Passes of the exchange's forward half in one microbatch: a layer that makes its rows again sends them again. Rules
 * that keep what other ranks delivered make rows again on one rank only, where nothing travels but the host may wait.
 */
static int64_t forwards(const mt_config *cfg) { return (mt_parts_again(cfg, false) & MT_PART_ROWS) != 0 ? 2 : 1; }

mt_wire mt_predict_wire(const mt_config *cfg, const mt_mesh_plan *plan, const mt_params *params, const mt_ep *ep,
                        const mt_pp *pp, const int32_t *counts) {
  mt_wire wire = {.sharding = mt_sharding_ops_for(cfg)->wire_bytes(params, cfg, plan, pp),
                  .optim = mt_optim_wire_bytes(cfg, plan),
                  .pp = mt_pp_wire_bytes(cfg, plan->pp_rank)};
  int64_t layers = mt_config_microbatches(cfg) * mt_params_layers(params, false);
  for (int64_t i = 0; i < layers; i++) {
    const int32_t *layer = counts + i * ep->ranks * ep->experts;
    mt_ep_wire there = ep->ops->wire(ep, layer, false), back = ep->ops->wire(ep, layer, true);
    wire.ep += forwards(cfg) * there.payload_bytes + back.payload_bytes;
    wire.ep_counts += forwards(cfg) * there.counts_bytes + back.counts_bytes;
    wire.window += forwards(cfg) * there.window_bytes + back.window_bytes;
  }
  return wire;
}

int64_t mt_predict_host_waits(const mt_config *cfg, const mt_params *params, const mt_ep *ep) {
  return mt_config_microbatches(cfg) * mt_params_layers(params, false) * forwards(cfg) *
         (ep->ops->host_waits + (ep->host_counts ? 2 : 0));
}
