/* Plain data parallelism: every rank holds everything and applies the same update.
 *
 * sharded     nothing (experts over EP where EP > 1)
 * memory      P parameters of this rank: compute copy, gradient, optimizer state as in none.c: 18 P bytes in bf16, 16 P
 *             in fp32, 32 P in fp64, 18 P and the quantised copies in mxfp8; buckets are slices of the gradients
 * wire        one all-reduce of the gradients a step: 4 bytes a parameter handed over (fp64: 8); dense over the
 *             data-parallel group, experts over the ranks that hold the same experts
 * collectives all_reduce at after_backward of the last microbatch, a bucket as soon as its lowest unit is done
 * timeline    compute  F B | F B2 B1 B0 | step
 *             comm     . . | .  R2 R1 R0|
 * invariants  buckets are reduced once a step, in the same order on all ranks; parameters stay equal on all ranks
 * paper       Li et al. 2020, PyTorch Distributed, arXiv 2006.15704 */
#include "trainer/parallel/parallel.h"

static int64_t wire_bytes(const mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan, const mt_pp *pp) {
  (void)pp;
  return mt_gradient_bytes(params, cfg, plan);
}

const mt_sharding_ops mt_ddp_ops = {
    .name = "ddp",
    .init = mt_buckets_create,
    .after_backward = mt_buckets_reduce,
    .before_step = mt_buckets_wait,
    .wire_bytes = wire_bytes,
    .mem_bytes = mt_uncut_mem_bytes,
};
