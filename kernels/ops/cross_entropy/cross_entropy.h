/* Cross-entropy with z-loss on a chunk of logits, forward and backward in one pass, logits replaced by their gradient.
 * Per token with label y >= 0: ce = lse - logit_y, z = z_weight * lse^2; both divided by the step's loss divisor and
 * added to sums[MK_SUM_CE], sums[MK_SUM_Z]; sums[MK_SUM_LABELS] += 1. Negative labels (-100) are skipped (gradient 0);
 * a label >= V fails with MK_ERR_ARG. The definitions are those of Olmo-core 3.0.0,
 * olmo_core/nn/functional/cross_entropy_loss.py, reduction "sum".
 * dlogit_v = (softmax_v * (1 + 2 * z_weight * lse) - [v == y]) / divisor, rounded to the logits' dtype.
 * The running maximum and sum go through the vocabulary in chunks that stay in cache. */
#ifndef KERNELS_OPS_CROSS_ENTROPY_CROSS_ENTROPY_H
#define KERNELS_OPS_CROSS_ENTROPY_CROSS_ENTROPY_H

#include "kernels/device/device.h"
#include "kernels/ops/step_state/step_state.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_cross_entropy_args {
  mk_tensor logits; /* in/out [T,V]: becomes dlogits when with_grad */
  mk_tensor labels; /* i32 [T]; -100 = ignored */
  mk_tensor state;  /* divisor */
  mk_tensor sums;   /* in/out f64 [MK_SUM_COUNT]; token order, independent of threads */
  mk_tensor losses; /* work, out f32 [2,T] (f64 on ref): ce and z of each token, undivided */
  float z_weight;
  int32_t with_grad; /* 0: evaluation, logits unchanged */
} mk_cross_entropy_args;

mk_status mk_cross_entropy(mk_stream *stream, const mk_cross_entropy_args *args);

#ifdef __cplusplus
}
#endif

#endif
