/* RMSNorm (Zhang and Sennrich 2019, arXiv 1910.07467): u = x (+ branch); r = rsqrt(mean(u^2) + eps);
 * y = cast(u * r * gain) (+ add). Computed in FP32, gain multiplied in FP32 before the cast (Olmo-core order).
 * Optional tensors are absent (n_dims 0).
 * Backward: with g = dy*gain and n = u*r: dx = r * (g - n * mean(g*n)) (+ add), dgain += sum_t dy * n. */
#ifndef KERNELS_OPS_RMSNORM_RMSNORM_H
#define KERNELS_OPS_RMSNORM_RMSNORM_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_rmsnorm_fwd_args {
  mk_tensor x;      /* [T,D] */
  mk_tensor branch; /* optional [T,D]: added to x before the norm; the sum is rounded to the dtype and written to sum */
  mk_tensor sum;    /* out [T,D], present iff branch is; may alias x or branch */
  mk_tensor gain;   /* [D] */
  mk_tensor add;    /* optional [T,D]: added after the cast; the result is rounded again */
  mk_tensor y;      /* out [T,D]; may alias x when branch is absent, or add */
  mk_tensor rstd;   /* out f32 [T] (f64 on ref) */
  float eps;
} mk_rmsnorm_fwd_args;

typedef struct mk_rmsnorm_bwd_args {
  mk_tensor dy;    /* [T,D] */
  mk_tensor x;     /* [T,D] what was normalised (sum, when there was a branch) */
  mk_tensor gain;  /* [D] */
  mk_tensor rstd;  /* [T] */
  mk_tensor add;   /* optional [T,D]: added to dx in FP32 before rounding; may alias dx */
  mk_tensor dx;    /* out [T,D]; may alias dy or add */
  mk_tensor dgain; /* in/out f32 [D], accumulated; per-thread partials are summed in a fixed order */
} mk_rmsnorm_bwd_args;

mk_status mk_rmsnorm_fwd(mk_stream *stream, const mk_rmsnorm_fwd_args *args);
mk_status mk_rmsnorm_bwd(mk_stream *stream, const mk_rmsnorm_bwd_args *args);

#ifdef __cplusplus
}
#endif

#endif
