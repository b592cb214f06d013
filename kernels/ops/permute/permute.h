/* Permute: copies each token's row to its routes' rows, out[map[t,k]] = x[t]; entries < 0 are skipped.
 * Backward is the unweighted sum, dx[t] = sum_k dout[map[t,k]] (+ add), in k order, FP32 sums, rounded once.
 * No two routes share a row. A row beyond N fails with MK_ERR_ARG. All float tensors of a call have one dtype: bf16,
 * f32 or f64 (ref). */
#ifndef KERNELS_OPS_PERMUTE_PERMUTE_H
#define KERNELS_OPS_PERMUTE_PERMUTE_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_permute_fwd_args {
  mk_tensor x;   /* [T,D] */
  mk_tensor map; /* i32 [T,K]: destination row, or negative */
  mk_tensor out; /* out [N,D]; rows that no route names are left alone */
} mk_permute_fwd_args;

typedef struct mk_permute_bwd_args {
  mk_tensor dout; /* [N,D] */
  mk_tensor map;  /* i32 [T,K] */
  mk_tensor add;  /* optional [T,D], added in FP32; may alias dx */
  mk_tensor dx;   /* out [T,D] */
} mk_permute_bwd_args;

mk_status mk_permute_fwd(mk_stream *stream, const mk_permute_fwd_args *args);
mk_status mk_permute_bwd(mk_stream *stream, const mk_permute_bwd_args *args);

#ifdef __cplusplus
}
#endif

#endif
