/* Grouped GEMM: group e multiplies rows [offsets[e], offsets[e+1]) with its own weight W[e] [N,K]; offsets live on the
 * device and are never read by the host. Rows from offsets[E] on are neither read nor written (the tail of a capacity
 * buffer is garbage). Empty groups are legal anywhere. dtypes and rounding as in linear. */
#ifndef KERNELS_OPS_GROUPED_GEMM_GROUPED_GEMM_H
#define KERNELS_OPS_GROUPED_GEMM_GROUPED_GEMM_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_grouped_gemm_fwd_args {
  mk_tensor x;       /* [rows_max,K] */
  mk_tensor w;       /* [E,N,K] */
  mk_tensor packed;  /* optional, from linear_pack */
  mk_tensor offsets; /* i32 [E+1], ascending, offsets[0] = 0, offsets[E] <= rows_max */
  mk_tensor y;       /* out [rows_max,N] */
} mk_grouped_gemm_fwd_args;

typedef struct mk_grouped_gemm_dgrad_args {
  mk_tensor dy;      /* [rows_max,N] */
  mk_tensor w;       /* [E,N,K] */
  mk_tensor packed;  /* optional */
  mk_tensor offsets; /* i32 [E+1] */
  mk_tensor dx;      /* out [rows_max,K] */
} mk_grouped_gemm_dgrad_args;

typedef struct mk_grouped_gemm_wgrad_args {
  mk_tensor dy;      /* [rows_max,N] */
  mk_tensor x;       /* [rows_max,K] */
  mk_tensor offsets; /* i32 [E+1] */
  mk_tensor dw;      /* in/out f32 [E,N,K], accumulated; empty groups add nothing */
  int32_t overwrite; /* 1: dw = dy^T x, as if it had been zero (a first microbatch needs no clearing) */
} mk_grouped_gemm_wgrad_args;

mk_status mk_grouped_gemm_fwd(mk_stream *stream, const mk_grouped_gemm_fwd_args *args);
mk_status mk_grouped_gemm_dgrad(mk_stream *stream, const mk_grouped_gemm_dgrad_args *args);
mk_status mk_grouped_gemm_wgrad(mk_stream *stream, const mk_grouped_gemm_wgrad_args *args);

#ifdef __cplusplus
}
#endif

#endif
