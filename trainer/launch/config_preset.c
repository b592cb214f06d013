/* Stacks by name: one word that sets several keys, so that a study can compare stack against stack.
 *
 * olmo_v1, the FSDP baseline of the Olmo-core 3 report: another block, another router and another strategy than the
 * stack that the report proposes, so a comparison of stacks, not of sharding alone.
 *
 *   x --+-----------------(+)-- x_mid --+---------------(+)-- u --(+)-- x_out      N: RMS norm
 *       |                  |            |                |          |
 *       +-> attention -> N-+            +-> shared -> N -+          |              the experts read the block's input x
 *       |                                                           |
 *       +-> router -> experts -> N ---------------------------------+
 *
 *   block         norm hybrid: x_mid = x + N(attn(x)); u = x_mid + N(shared(x_mid)); x_out = u + N(routed(x)); no
 *                 norm of the embedding                               trainer/model/model.h, mlp.c (hybrid_forward)
 *   router        top-k weights divided by their sum, times 1: they sum to 1          trainer/model/router.c
 *   experts       dropless (no capacity), whole on every rank (ep 1); the host waits for the rows of each expert in
 *                 every MoE layer                                                     trainer/parallel/ep_local.c
 *   parameters    fsdp over all ranks, gathered again in the backward pass of each microbatch, gradients scattered in
 *                 each                                                                trainer/parallel/fsdp.c
 *   optimizer     skipped steps (SkipStepAdamW)                                       trainer/optim/optim.c
 *
 * paper: Ai2 2026, Supercharging Olmo-core for Efficient and Scalable MoE Training, allenai.org/papers/olmocore3; FSDP:
 * Zhao et al. 2023, arXiv 2304.11277; dropless experts: Gale et al. 2022, MegaBlocks, arXiv 2211.15841. */
#include <string.h>

#include "trainer/launch/config.h"

/* The FSDP baseline of the Olmo-core 3 report as a stack
 * (allenai/OLMo-core:src/examples/olmo_ddp/moe_8l_fsdp.py@b665c27): the block in which the experts read the block's
 * input, router weights that sum to one, no embedding norm, dropless with host waits, units cut over all ranks,
 * gathered in the forward pass when they are needed and one ahead in the backward pass (prefetch_factor 0; FSDP2
 * fetches ahead in the backward pass by itself), gradients reduced each microbatch. */
static const struct {
  const char *key, *value;
} OLMO_V1[] = {
    {"norm", "hybrid"},
    {"embed_norm", "false"},
    {"norm_topk", "true"},
    {"weight_scale", "one"},
    {"capacity_factor", "0"},
    {"ep", "1"},
    {"ep_transport", "block"},
    {"host_counts", "true"},
    {"shard", "fsdp"},
    {"fsdp_shard_ranks", "0"},
    {"fsdp_reshard", "after_forward"},
    {"fsdp_prefetch", "0"},
    {"fsdp_prefetch_backward", "1"},
    {"fsdp_reduce", "each"},
    {"skip_step", "true"},
};

enum { N_OLMO_V1 = sizeof OLMO_V1 / sizeof OLMO_V1[0] };

bool mt_preset_sets(const char *preset, const char *key) {
  for (int i = 0; i < N_OLMO_V1 && strcmp(preset, "olmo_v1") == 0; i++) {
    if (strcmp(OLMO_V1[i].key, key) == 0) return true;
  }
  return false;
}

mk_status mt_config_expand(mk_context *ctx, mt_config *cfg) {
  for (int i = 0; i < N_OLMO_V1 && cfg->preset == MT_PRESET_OLMO_V1; i++)
    MK_TRY(ctx, mt_config_set(ctx, cfg, OLMO_V1[i].key, OLMO_V1[i].value));
  return MK_OK;
}
