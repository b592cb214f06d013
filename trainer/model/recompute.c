/* See recompute.h.
 *
 * Rule olmo is what Olmo-core 3.0.0's DDP stack, which the other keys describe, always does: it drops the outputs of
 * the QKV preparation (and of a cast that is none here) and makes them again
 * (olmo_core/nn/moe/v2/output_discard_checkpoint.py). Olmo-core's list of ops to save (flash attention, reduce-scatter,
 * abs and max, every second product) belongs to its base transformer, the older FSDP stack, and differs little from
 * torchtitan's, so that rule torchtitan serves for it. */
#include "trainer/model/recompute.h"

/* Neither GEMM nor attention nor communication. */
enum {
  CHEAP = MT_PART_ATTN_IN | MT_PART_QKR | MT_PART_X_MID | MT_PART_MLP_IN | MT_PART_SHARED_ACT | MT_PART_SCORES |
          MT_PART_ACT | MT_PART_MLP_OUT
};

/* Every second linear of a block, in the order of the forward pass; the first is kept. The router gate is left out. */
static unsigned even_linears(void) {
  static const mt_part linear[] = {MT_PART_QKV, MT_PART_ATTN_OUT, MT_PART_SHARED_UP_GATE, MT_PART_MLP_OUT};
  unsigned parts = 0;
  for (size_t i = 1; i < sizeof linear / sizeof linear[0]; i += 2)
    parts |= (unsigned)linear[i];
  return parts;
}

/* Rows that came from other ranks are kept, rows of a permutation on this rank are not. Where the experts weigh, rows
 * are summed as they come back: mlp.out is then what communication delivered. */
static unsigned torchtitan(const mt_config *cfg, bool dense) {
  unsigned parts = CHEAP | even_linears();
  if (dense) return parts;
  const mt_ep_ops *ep = mt_ep_ops_for(cfg, (int)mt_config_ep(cfg));
  if (ep->in_place) parts |= MT_PART_ROWS;
  if (ep->weighs_rows) parts &= ~(unsigned)MT_PART_MLP_OUT;
  return parts;
}

unsigned mt_parts_shared(const mt_config *cfg, bool dense) {
  switch (cfg->recompute) {
    case MT_RECOMPUTE_NONE:
      return 0;
    case MT_RECOMPUTE_FULL:
      return MT_PARTS_ALL;
    case MT_RECOMPUTE_SELECTIVE:
      break;
  }
  return cfg->recompute_rule == MT_RULE_OLMO ? MT_PART_QKR : torchtitan(cfg, dense);
}

unsigned mt_parts_again(const mt_config *cfg, bool dense) {
  unsigned parts = mt_parts_shared(cfg, dense);
  /* without a norm behind it, only the next layer's forward pass reads the branch's output */
  if (cfg->recompute == MT_RECOMPUTE_SELECTIVE && cfg->norm == MT_NORM_PRE) parts &= ~(unsigned)MT_PART_MLP_OUT;
  return parts;
}
