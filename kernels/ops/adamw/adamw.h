/* AdamW, decoupled weight decay (Loshchilov and Hutter 2019, arXiv 1711.05101), eps outside the bias-corrected root:
 * g = grad * clip_coef; p = p*(1 - lr*wd); m = b1*m + (1-b1)*g; v = b2*v + (1-b2)*g^2;
 * p -= lr/(1-b1^t) * m / (sqrt(v)/sqrt(1-b2^t) + eps). lr, t, clip_coef and skip come from mk_step_state;
 * with skip nothing changes except that grad is still cleared. One pass: each byte is touched once. */
#ifndef KERNELS_OPS_ADAMW_ADAMW_H
#define KERNELS_OPS_ADAMW_ADAMW_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_adamw_args {
  mk_tensor state;   /* u8 [sizeof(mk_step_state)] */
  mk_tensor grad;    /* in/out f32 [n]; set to zero when clear_grad */
  mk_tensor main;    /* in/out f32 [n] */
  mk_tensor m, v;    /* in/out f32 [n] */
  mk_tensor compute; /* optional out bf16 or f32 [n]: the compute copy of main; may alias main when f32 */
  float beta1, beta2, eps, weight_decay;
  int32_t clear_grad;
} mk_adamw_args;

mk_status mk_adamw(mk_stream *stream, const mk_adamw_args *args);

#ifdef __cplusplus
}
#endif

#endif
