/* Private to cuda_blas.c: cuBLASLt, loaded when the first cuda device is made. Linking it would load its 540 MB into
 * every program of a build with CUDA, those on the CPU included: 0.2 s and 200 MB resident a process (measured with
 * cuBLAS 13.1: a program that calls cublasLtGetVersion, ru_maxrss). */
#ifndef KERNELS_DEVICE_CUDA_CUBLASLT_H
#define KERNELS_DEVICE_CUDA_CUBLASLT_H

#include <cublasLt.h>

#include "kernels/base/status.h"

/* clang-format off */
#define MK_CUBLASLT_LIST(X) \
  X(cublasLtCreate) X(cublasLtDestroy) X(cublasLtGetVersion) X(cublasLtGetStatusString) \
  X(cublasLtMatmulDescCreate) X(cublasLtMatmulDescSetAttribute) X(cublasLtMatmulDescDestroy) \
  X(cublasLtMatrixLayoutCreate) X(cublasLtMatrixLayoutDestroy) \
  X(cublasLtMatmulPreferenceCreate) X(cublasLtMatmulPreferenceSetAttribute) X(cublasLtMatmulPreferenceDestroy) \
  X(cublasLtMatmulAlgoGetHeuristic) X(cublasLtMatmul)
/* clang-format on */

typedef struct mk_cublaslt {
#define X(name) __typeof__(name) *name;
  MK_CUBLASLT_LIST(X)
#undef X
} mk_cublaslt;

/* Finds the library on the loader's path or where the build found it. MK_ERR_UNSUPPORTED when it is not there. It is
 * never unloaded: its threads and exit handlers would outlive its code. */
mk_status mk_cublaslt_load(mk_context *ctx, mk_cublaslt *out);

/* Turns a cuBLAS status into MK_ERR_DEVICE: the call and the library's own text. */
mk_status mk_cublas_fail(mk_context *ctx, const mk_cublaslt *lib, cublasStatus_t status, const char *call,
                         const char *file, int line);

#define MK_CUBLAS(ctx, lib, call) \
  do { \
    cublasStatus_t mk_cublas_status = (lib)->call; \
    if (mk_cublas_status != CUBLAS_STATUS_SUCCESS) { \
      return mk_cublas_fail((ctx), (lib), mk_cublas_status, #call, __FILE__, __LINE__); \
    } \
  } while (0)

/* For functions with cleanup: needs a local `mk_status st` and the label. */
#define MK_CUBLAS_GOTO(ctx, lib, call, label) \
  do { \
    cublasStatus_t mk_cublas_status = (lib)->call; \
    if (mk_cublas_status != CUBLAS_STATUS_SUCCESS) { \
      st = mk_cublas_fail((ctx), (lib), mk_cublas_status, #call, __FILE__, __LINE__); \
      goto label; \
    } \
  } while (0)

#endif
