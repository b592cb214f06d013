/* Weighted combine: y[t] = sum_k w[t,k] * rows[map[t,k]] (+ add), FP32 weights and sums in k order, rounded once;
 * dropped routes (map < 0) add nothing and weights are not renormalised (Olmo-core 3.0.0,
 * olmo_core/nn/moe/v2/ep_no_sync_rowwise.py).
 * Backward: drows[map[t,k]] = cast(dy[t] * cast(w[t,k])), dw[t,k] = <rows[map[t,k]], dy[t]> (0 when dropped).
 * No two routes share a row. A row outside [0,N) fails with MK_ERR_ARG. Dtypes: rows, add, y, dy, drows all bf16, all
 * f32 or all f64 (ref); weights and dweights f32 (or f64 on ref). */
#ifndef KERNELS_OPS_COMBINE_COMBINE_H
#define KERNELS_OPS_COMBINE_COMBINE_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_combine_fwd_args {
  mk_tensor rows;    /* [N,D] */
  mk_tensor map;     /* i32 [T,K] */
  mk_tensor weights; /* f32 [T,K] */
  mk_tensor add;     /* optional [T,D] (shared expert), added in FP32; may alias y */
  mk_tensor y;       /* out [T,D] */
} mk_combine_fwd_args;

typedef struct mk_combine_bwd_args {
  mk_tensor dy;       /* [T,D] */
  mk_tensor rows;     /* [N,D] */
  mk_tensor map;      /* i32 [T,K] */
  mk_tensor weights;  /* f32 [T,K] */
  mk_tensor drows;    /* optional out [N,D]; may alias rows; rows that no route names are left alone */
  mk_tensor dweights; /* out f32 [T,K] */
} mk_combine_bwd_args;

mk_status mk_combine_fwd(mk_stream *stream, const mk_combine_fwd_args *args);
mk_status mk_combine_bwd(mk_stream *stream, const mk_combine_bwd_args *args);

#ifdef __cplusplus
}
#endif

#endif
