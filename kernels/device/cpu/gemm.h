/* GEMM of the cpu backends: dense and grouped, y = x W^T and its two gradients, over oneDNN.
 *
 * Values: operands f32 or bf16 in any mix, or MXFP8 (both, y = x W^T only), products exact, sums in FP32 (plus `add`),
 * one rounding to the output dtype. Results do not depend on the number of threads: tiles follow from the shape and the
 * row offsets, one task owns one output tile. They do depend on the kernel (native or widened), on oneDNN and on the
 * instruction set.
 *
 * A call opens one parallel region over all groups. Memory is taken when the device is created (scratch of each thread)
 * and by the first call of a shape (task list, native primitives), whatever its offsets; later calls allocate nothing
 * of ours. dnnl_sgemm takes a packing buffer from malloc in each call; glibc serves it from the heap after the first,
 * without page faults (`perf stat -e page-faults bench_ops all 3` and `... 33` count the same). */
#ifndef KERNELS_DEVICE_CPU_GEMM_H
#define KERNELS_DEVICE_CPU_GEMM_H

#include "kernels/device/cpu/cpu_device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mk_gemm_kind {
  MK_GEMM_FWD,   /* c[rows,N]  = a[rows,K] b[N,K]^T (+ add) */
  MK_GEMM_DGRAD, /* c[rows,K]  = a[rows,N] b[N,K]   (+ add) */
  MK_GEMM_WGRAD, /* c[N,K]    += a[rows,N]^T b[rows,K], c in f32 */
} mk_gemm_kind;

/* One call. Absent tensors have n_dims 0. */
typedef struct mk_gemm_call {
  mk_gemm_kind kind;
  int64_t groups, n, k;
  mk_tensor a;                /* x (fwd) or dy */
  mk_tensor b;                /* w [groups,n,k] (fwd, dgrad) or x (wgrad) */
  mk_tensor a_scale, b_scale; /* MXFP8: a and b are u8, blocks of 32 along the reduction; fwd only */
  mk_tensor add;              /* optional, dtype of c, may alias c; not for wgrad */
  mk_tensor c;
  mk_tensor offsets; /* i32 [groups+1]; absent: one group of all rows */
  bool overwrite;    /* wgrad: c is taken as zero; groups without rows become zero */
} mk_gemm_call;

/* `op` is for messages. MK_ERR_ARG for offsets that are not ascending or leave the buffers, MK_ERR_UNSUPPORTED for
 * FP64. */
mk_status mk_cpu_gemm_run(mk_stream *stream, mk_op_id op, const mk_gemm_call *call);

/* What other kernels of this backend share: one thread's scratch (64-byte aligned, contents undefined between ops),
 * and one single-threaded SGEMM, row-major, c = alpha op(a) op(b) + beta c; to be called inside a parallel region.
 * False when oneDNN fails (out of memory). */
enum { MK_CPU_SCRATCH_FLOATS = 1 << 19 };

float *mk_cpu_gemm_scratch(const mk_cpu_gemm *gemm, int thread);
bool mk_cpu_sgemm(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                  const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

/* rows x cols elements as floats, from and to a matrix of f32 or bf16 with `ld` elements a row. */
void mk_cpu_rows_load(const void *src, mk_dtype dtype, int64_t ld, int64_t rows, int64_t cols, float *dst,
                      int64_t dst_ld);
void mk_cpu_rows_store(const float *src, int64_t src_ld, int64_t rows, int64_t cols, void *dst, mk_dtype dtype,
                       int64_t ld);

/* Whether oneDNN may use these instructions here (processor, and ONEDNN_MAX_CPU_ISA). */
typedef enum mk_gemm_isa { MK_GEMM_ISA_AVX512, MK_GEMM_ISA_BF16, MK_GEMM_ISA_AMX } mk_gemm_isa;

bool mk_cpu_gemm_may_use(mk_gemm_isa isa);

#ifdef __cplusplus
}
#endif

#endif
