/* Linear layers, y = x W^T without bias, W [N,K] as PyTorch stores it.
 * Operands bf16, f32 or mixed; products are exact and summed in FP32; the result is rounded once to the output dtype.
 * BF16 x BF16 runs on the BF16 kernel or widened (mk_kernel); a mixed pair is widened to FP32.
 * `packed` is an optional copy of W made by linear_pack once a step, mk_gemm_pack_bytes(dev, dtype, 1, N, K) long. */
#ifndef KERNELS_OPS_LINEAR_LINEAR_H
#define KERNELS_OPS_LINEAR_LINEAR_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_linear_pack_args {
  mk_tensor w;      /* [N,K], or [E,N,K] for grouped GEMM */
  mk_tensor packed; /* out u8 [mk_gemm_pack_bytes]; holds what fwd and dgrad need */
} mk_linear_pack_args;

typedef struct mk_linear_fwd_args {
  mk_tensor x;      /* [T,K] */
  mk_tensor w;      /* [N,K] */
  mk_tensor packed; /* optional */
  mk_tensor y;      /* out [T,N]; bf16 or f32 */
} mk_linear_fwd_args;

typedef struct mk_linear_dgrad_args {
  mk_tensor dy;     /* [T,N] */
  mk_tensor w;      /* [N,K] */
  mk_tensor packed; /* optional */
  mk_tensor add;    /* optional [T,K], added before rounding; may alias dx */
  mk_tensor dx;     /* out [T,K] */
} mk_linear_dgrad_args;

typedef struct mk_linear_wgrad_args {
  mk_tensor dy;      /* [T,N] */
  mk_tensor x;       /* [T,K] */
  mk_tensor dw;      /* in/out f32 [N,K], accumulated: dw += dy^T x */
  int32_t overwrite; /* 1: dw = dy^T x, as if it had been zero (a first microbatch needs no clearing) */
} mk_linear_wgrad_args;

mk_status mk_linear_pack(mk_stream *stream, const mk_linear_pack_args *args);
mk_status mk_linear_fwd(mk_stream *stream, const mk_linear_fwd_args *args);
mk_status mk_linear_dgrad(mk_stream *stream, const mk_linear_dgrad_args *args);
mk_status mk_linear_wgrad(mk_stream *stream, const mk_linear_wgrad_args *args);

#ifdef __cplusplus
}
#endif

#endif
