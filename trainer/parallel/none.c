/* No sharding.
 *
 * sharded     nothing; one data-parallel rank
 * memory      P parameters of this rank (each tensor rounded up to 32), bytes of each: compute copy, gradient, m, v,
 *             and main where the compute copy is not it: bf16 2 + 4 + 12 = 18, fp32 4 + 4 + 8 = 16, fp64 8 + 8 + 16 =
 *             32; mxfp8 as bf16, and 2 (1 + 1/32) for what is multiplied in MXFP8: elements and scales, both ways round
 * wire        0
 * collectives none
 * timeline    F B F B ... step
 * invariants  gradients of all microbatches are summed in FP32
 * paper       Micikevicius et al. 2018, Mixed Precision Training, arXiv 1710.03740: main parameters in FP32 beside
 *             copies of lower precision */
#include "trainer/parallel/parallel.h"

static int64_t wire_bytes(const mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan, const mt_pp *pp) {
  (void)params, (void)cfg, (void)plan, (void)pp;
  return 0;
}

const mt_sharding_ops mt_none_ops = {
    .name = "none",
    .wire_bytes = wire_bytes,
    .mem_bytes = mt_uncut_mem_bytes,
};
