/* Private to the cpu backends (device/cpu and the ops' _cpu.c files): the device struct and what runs one item of a
 * stream. `cpu` runs items at once, `cpu_async` on a worker thread; both run them through mk_cpu_run_*. */
#ifndef KERNELS_DEVICE_CPU_CPU_DEVICE_H
#define KERNELS_DEVICE_CPU_CPU_DEVICE_H

#include "kernels/device/backends.h"
#include "kernels/device/cpu/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

/* GEMM state of one thread of control (oneDNN engine, stream, primitives, scratch): kernels/device/cpu/gemm.c. */
typedef struct mk_cpu_gemm mk_cpu_gemm;

typedef struct mk_cpu_device {
  mk_device base;
  int threads;           /* OpenMP team of every op */
  mk_kernel kernel;      /* resolved: native or widened */
  mk_cpu_memory *memory; /* blocks of this device; shared with the workers of cpu_async */
  mk_cpu_gemm *gemm;     /* never shared between threads: each cpu_async worker has its own */
} mk_cpu_device;

static inline mk_cpu_device *mk_cpu_device_of(mk_stream *stream) { return (mk_cpu_device *)stream->dev; }

/* The tables of cpu and ref, indexed by mk_op_id (op_table.c). */
const mk_op_fn *mk_cpu_op_table(void);
const mk_op_fn *mk_ref_op_table(void);

/* Shared set-up and tear-down: threads, kernel choice, memory, GEMM state. fini is legal after a failed init. */
mk_status mk_cpu_device_init(mk_cpu_device *dev, mk_context *ctx, const mk_device_config *config,
                             const mk_device_ops *ops, const mk_op_fn *table);
void mk_cpu_device_fini(mk_cpu_device *dev);

/* Table entries that cpu and cpu_async share. */
mk_status mk_cpu_alloc(mk_device *dev, size_t bytes, void **out);
void mk_cpu_free(mk_device *dev, void *block, size_t bytes);
double mk_cpu_now_s(mk_device *dev);
void mk_cpu_info(mk_device *dev, mk_device_info *out);

/* Run one item now, on the calling thread, with device memory accessible. */
mk_status mk_cpu_run_op(mk_stream *stream, mk_op_id op, const void *args);
mk_status mk_cpu_run_call(mk_stream *stream, mk_call_fn fn, const void *args);
mk_status mk_cpu_run_copy(mk_stream *stream, void *dst, const void *src, size_t bytes);
mk_status mk_cpu_run_fill(mk_stream *stream, void *dst, int byte, size_t bytes);

/* Fails with MK_ERR_UNSUPPORTED unless `dtype` is f32 or bf16: the fast kernels' dtypes. */
mk_status mk_cpu_check_float(mk_stream *stream, mk_op_id op, mk_dtype dtype);

/* gemm.c. `dev` gives ctx, threads and kernel. */
mk_status mk_cpu_gemm_create(mk_cpu_device *dev, mk_cpu_gemm **out);
void mk_cpu_gemm_destroy(mk_context *ctx, mk_cpu_gemm *gemm);
size_t mk_cpu_gemm_pack_bytes(mk_device *dev, mk_dtype dtype, int64_t groups, int64_t n, int64_t k);

#ifdef __cplusplus
}
#endif

#endif
