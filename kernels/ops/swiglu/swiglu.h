/* SwiGLU (Shazeer 2020, arXiv 2002.05202) on a packed [N,2F] (columns 0..F-1 up, F..2F-1 gate): y = up * silu(gate).
 * Backward in FP32, rounded once: dup = dy*silu(z), dz = dy*up*sig(z)*(1 + z*(1 - sig(z))).
 * `rows` (optional, i32 [1] on the device) bounds the valid rows; rows beyond are neither read nor written. */
#ifndef KERNELS_OPS_SWIGLU_SWIGLU_H
#define KERNELS_OPS_SWIGLU_SWIGLU_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_swiglu_fwd_args {
  mk_tensor x;    /* [N,2F] */
  mk_tensor rows; /* optional i32 [1] */
  mk_tensor y;    /* out [N,F] */
} mk_swiglu_fwd_args;

typedef struct mk_swiglu_bwd_args {
  mk_tensor dy;   /* [N,F] */
  mk_tensor x;    /* [N,2F] */
  mk_tensor rows; /* optional i32 [1] */
  mk_tensor dx;   /* out [N,2F]; may alias x */
} mk_swiglu_bwd_args;

mk_status mk_swiglu_fwd(mk_stream *stream, const mk_swiglu_fwd_args *args);
mk_status mk_swiglu_bwd(mk_stream *stream, const mk_swiglu_bwd_args *args);

#ifdef __cplusplus
}
#endif

#endif
