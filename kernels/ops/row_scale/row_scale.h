/* Rows times their weights: y[n] = cast(x[n] * w[n]), FP32 product, rounded once (Olmo-core 3.0.0,
 * olmo_core/nn/moe/v2/ep_deepep_v2.py: routing weights inside the expert path).
 * Backward: dx[n] = cast(dy[n] * w[n]), dw[n] = <dy[n], x[n]>.
 * `rows` (optional, i32 [1] on the device) bounds the valid rows; rows beyond are neither read nor written. Dtypes: x,
 * y, dy, dx all bf16, all f32 or all f64 (ref); w and dw f32 (or f64 on ref), N values in whatever shape. */
#ifndef KERNELS_OPS_ROW_SCALE_ROW_SCALE_H
#define KERNELS_OPS_ROW_SCALE_ROW_SCALE_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_row_scale_fwd_args {
  mk_tensor x;    /* [N,F] */
  mk_tensor w;    /* f32, N values */
  mk_tensor rows; /* optional i32 [1] */
  mk_tensor y;    /* out [N,F]; may alias x */
} mk_row_scale_fwd_args;

typedef struct mk_row_scale_bwd_args {
  mk_tensor dy;   /* [N,F] */
  mk_tensor x;    /* [N,F] */
  mk_tensor w;    /* f32, N values */
  mk_tensor rows; /* optional i32 [1] */
  mk_tensor dx;   /* out [N,F]; may alias dy or x */
  mk_tensor dw;   /* out f32, N values */
} mk_row_scale_bwd_args;

mk_status mk_row_scale_fwd(mk_stream *stream, const mk_row_scale_fwd_args *args);
mk_status mk_row_scale_bwd(mk_stream *stream, const mk_row_scale_bwd_args *args);

#ifdef __cplusplus
}
#endif

#endif
