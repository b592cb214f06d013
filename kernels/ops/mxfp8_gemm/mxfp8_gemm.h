/* GEMMs of MXFP8 operands, y = a b^T: both are quantised along the columns that are summed, so that one form serves the
 * forward pass (x, W), the data gradient (dY along N, the transposed W along N) and a weight gradient (dY and x
 * transposed, along the tokens). Products of elements with their scales are exact, sums are FP32, the result is rounded
 * once to the output's dtype (Olmo-core 3.0.0 olmo_core/kernels/scaled_grouped_mm.py, mxfp8_linear.py). */
#ifndef KERNELS_OPS_MXFP8_GEMM_MXFP8_GEMM_H
#define KERNELS_OPS_MXFP8_GEMM_MXFP8_GEMM_H

#include "kernels/ops/mxfp8/mxfp8.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_mxfp8_linear_args {
  mk_mxfp8 a;    /* [M,K] */
  mk_mxfp8 b;    /* [N,K] */
  mk_tensor add; /* optional [M,N] of y's dtype, added before rounding; may alias y (accumulation into FP32) */
  mk_tensor y;   /* out [M,N]; bf16 or f32 */
} mk_mxfp8_linear_args;

/* Rows [offsets[e], offsets[e+1]) of a with b[e]; rows from offsets[E] on are neither read nor written. */
typedef struct mk_mxfp8_grouped_args {
  mk_mxfp8 a;        /* [rows_max,K] */
  mk_mxfp8 b;        /* [E,N,K] */
  mk_tensor offsets; /* i32 [E+1], ascending, offsets[0] = 0, offsets[E] <= rows_max */
  mk_tensor y;       /* out [rows_max,N] */
} mk_mxfp8_grouped_args;

mk_status mk_mxfp8_linear(mk_stream *stream, const mk_mxfp8_linear_args *args);
mk_status mk_mxfp8_grouped(mk_stream *stream, const mk_mxfp8_grouped_args *args);

#ifdef __cplusplus
}
#endif

#endif
