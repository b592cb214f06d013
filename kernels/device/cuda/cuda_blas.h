/* GEMM of the cuda device for the ops' _cuda.cu files: row-major, FP32 sums, operands f32 or bf16 in any mix. */
#ifndef KERNELS_DEVICE_CUDA_CUDA_BLAS_H
#define KERNELS_DEVICE_CUDA_CUDA_BLAS_H

#include "kernels/device/cuda/cuda_device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One operand of the product. `ld` counts elements between stored rows. */
typedef struct mk_cuda_operand {
  const void *data;
  mk_dtype dtype;
  int64_t ld;
  bool reduce_first; /* stored [reduce, extent] instead of [extent, reduce] */
} mk_cuda_operand;

/* out[r,c] = sum_k left[r,k] * right[c,k] (+ add[r,c]), rounded once to out's dtype. */
typedef struct mk_cuda_gemm {
  int64_t rows, cols, reduce;
  mk_cuda_operand left;  /* extent = rows */
  mk_cuda_operand right; /* extent = cols */
  const void *add;       /* optional; dtype and ld of out, may be out */
  void *out;
  mk_dtype out_dtype;
  int64_t out_ld;
} mk_cuda_gemm;

/* cuda_gemm.cu: any mix of f32 and bf16, any size, zero included. */
mk_status mk_cuda_gemm_run(mk_stream *stream, const mk_cuda_gemm *g);

/* cuda_blas.c: what cuBLASLt does by itself: both operands bf16, or both and the output f32; no size is zero. */
mk_status mk_cuda_blas_gemm(mk_stream *stream, const mk_cuda_gemm *g);

mk_status mk_cuda_blas_create(mk_context *ctx, mk_cuda_blas **out);
void mk_cuda_blas_destroy(mk_context *ctx, mk_cuda_blas *blas); /* NULL is legal */

/* Writes "cuBLAS 13.1.0". */
void mk_cuda_blas_version(const mk_cuda_blas *blas, char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
