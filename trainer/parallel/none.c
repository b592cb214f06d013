/* No sharding.
 *
 * sharded     nothing; one data-parallel rank
 * memory      P parameters: compute copy 2P (bf16) or 4P (fp32), gradients 4P, moments 8P, main 4P (bf16 only)
 * wire        0
 * collectives none
 * timeline    F B F B ... step
 * invariants  gradients of all microbatches are summed in FP32 */
#include "trainer/parallel/parallel.h"

static int64_t wire_bytes(const mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan, const mt_pp *pp) {
  (void)params, (void)cfg, (void)plan, (void)pp;
  return 0;
}

static int64_t mem_bytes(const mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan) {
  (void)plan;
  return mt_state_bytes(params, cfg);
}

const mt_sharding_ops mt_none_ops = {
    .name = "none",
    .wire_bytes = wire_bytes,
    .mem_bytes = mem_bytes,
};
