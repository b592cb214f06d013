/* Load-balancing loss. stats: sums of scores per group and expert for one layer (sigmoid scores are renormalised to
 * sum 1 first). loss: after the last layer's forward, the loss of all layers and d(weighted loss)/d(score).
 * olmo (Olmo-core 3.0.0, olmo_core/nn/moe/loss.py): per layer and group L = (E/K) * sum_e n_e * (P_e / T_g) / divisor,
 * n_e before any drop; one group is their local_batch, a group per sequence their instance. Perfect balance gives
 * T / divisor per layer; the layers are summed.
 * hf (transformers load_balancing_loss_func): E * sum_e (n_e/(layers*T)) * (P_e/(layers*T)), n and P pooled over layers
 * and groups, once per microbatch; divided by `microbatches` so that the step's sum is their mean. Perfect balance: K.
 * No tokens: loss and coefficients are 0. Dtypes: f32, or f64 on ref. */
#ifndef KERNELS_OPS_LOAD_BALANCE_LOAD_BALANCE_H
#define KERNELS_OPS_LOAD_BALANCE_LOAD_BALANCE_H

#include "kernels/device/device.h"
#include "kernels/ops/step_state/step_state.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mk_lb_def { MK_LB_OLMO, MK_LB_HF } mk_lb_def;

typedef struct mk_load_balance_stats_args {
  mk_tensor scores;    /* f32 [T,E] */
  mk_tensor score_sum; /* out f32 [groups,E] (f64 on ref); fixed summation order */
  int32_t renormalize; /* 1 for sigmoid gating */
} mk_load_balance_stats_args;

typedef struct mk_load_balance_loss_args {
  mk_tensor counts;    /* i32 [layers,groups,E] */
  mk_tensor score_sum; /* f32 [layers,groups,E] */
  mk_tensor state;     /* divisor */
  mk_tensor coef;      /* out f32 [layers,groups,E]: weight * dL/d(score) */
  mk_tensor sums;      /* in/out f64 [MK_SUM_COUNT]: MK_SUM_LB += L */
  mk_lb_def def;
  int64_t tokens; /* T of this microbatch */
  int64_t top_k;
  int64_t microbatches; /* of the step and rank; hf only */
  float weight;
} mk_load_balance_loss_args;

mk_status mk_load_balance_stats(mk_stream *stream, const mk_load_balance_stats_args *args);
mk_status mk_load_balance_loss(mk_stream *stream, const mk_load_balance_loss_args *args);

#ifdef __cplusplus
}
#endif

#endif
