/* Activation recompute: which parts of a layer's forward pass are made again for its backward pass.
 *
 * A part is an op or two of the forward pass, named for what it makes. A forward pass makes all of them; a pass with
 * `replay` makes only pass->parts again, by the same calls, so that the bits are the same.
 *   full        all parts, from the layer's input (Chen et al. 2016, arXiv 1604.06174); rows travel again
 *   selective, rule torchtitan   the attention core, top-k, what communication delivered, grouped GEMMs and every odd
 *               linear of a block are kept; even linears, the router gate (never counted) and all cheap ops are made
 *               again (torchtitan 0.3.0 distributed/activation_checkpoint.py)
 *   selective, rule olmo         only QK-norm and RoPE are made again (Olmo-core 3.0.0
 *               olmo_core/nn/moe/v2/output_discard_checkpoint.py; its FP32 copy of the router's input is none
 *               here) */
#ifndef TRAINER_MODEL_RECOMPUTE_H
#define TRAINER_MODEL_RECOMPUTE_H

#include "trainer/model/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mt_part {
  MT_PART_ATTN_IN = 1 << 0,        /* attn.in */
  MT_PART_QKV = 1 << 1,            /* attn.qkv: linear */
  MT_PART_QKR = 1 << 2,            /* attn.qkr: QK-norm and RoPE */
  MT_PART_ATTENTION = 1 << 3,      /* attn.o, lse */
  MT_PART_ATTN_OUT = 1 << 4,       /* attn.out: linear */
  MT_PART_X_MID = 1 << 5,          /* x_mid, attn.out_rstd (with pre-norm MT_PART_MLP_IN makes x_mid) */
  MT_PART_MLP_IN = 1 << 6,         /* mlp.in */
  MT_PART_SHARED_UP_GATE = 1 << 7, /* mlp.shared_up_gate: linear */
  MT_PART_SHARED_ACT = 1 << 8,     /* mlp.shared_act */
  MT_PART_SCORES = 1 << 9,         /* mlp.logits, scores, lse: the router gate */
  MT_PART_ROUTES = 1 << 10,        /* top-k, weights, counts; what travels with them */
  MT_PART_ROWS = 1 << 11,          /* mlp.ep.rows: dispatch */
  MT_PART_UP_GATE = 1 << 12,       /* mlp.up_gate: grouped GEMM */
  MT_PART_ACT = 1 << 13,           /* mlp.act */
  MT_PART_DOWN = 1 << 14,          /* mlp.ep.returned: grouped GEMM and the way back */
  MT_PART_MLP_OUT = 1 << 15,       /* mlp.out, ff_out: the shared expert's down, a linear; the sum of a token's rows */
  MT_PART_X_OUT = 1 << 16,         /* the stream behind the layer, mlp.out_rstd, ff_rstd */
  MT_PARTS_ALL = (1 << 17) - 1
} mt_part;

/* Parts whose tensors layers of a kind (dense or MoE) share, because they do not outlive the layer's forward pass; 0
 * without recompute. */
unsigned mt_parts_shared(const mt_config *cfg, bool dense);

/* Of these, the parts that the layer's backward pass needs, to be made again before it. */
unsigned mt_parts_again(const mt_config *cfg, bool dense);

/* Whether this pass makes the part. */
static inline bool mt_makes(const mt_pass *p, mt_part part) { return !p->replay || (p->parts & (unsigned)part) != 0; }

#ifdef __cplusplus
}
#endif

#endif
