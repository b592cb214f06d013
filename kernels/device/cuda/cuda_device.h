/* Private to the cuda backend (device/cuda and the ops' _cuda.cu files): the device, what a stream lends the ops that
 * run on it, and the error macros. One host thread drives a device; kernels of one stream run in order, so an op may
 * use its stream's memory without asking whether the op before it has ended. */
#ifndef KERNELS_DEVICE_CUDA_CUDA_DEVICE_H
#define KERNELS_DEVICE_CUDA_CUDA_DEVICE_H

#include <cuda_runtime_api.h>

#include "kernels/device/backends.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Memory of each stream, taken when it is made: what cuBLAS asks for on Hopper and newer ("cublasSetWorkspace" in the
 * cuBLAS documentation: 32 MiB), and as much for partial sums and widened operands of ops. */
enum { MK_CUDA_BLAS_BYTES = 32 << 20, MK_CUDA_SCRATCH_BYTES = 32 << 20 };

typedef struct mk_cuda_blas mk_cuda_blas;   /* cuda_blas.c: library handle and GEMM plans */
typedef struct mk_cuda_calls mk_cuda_calls; /* cuda_calls.c: host functions on a stream */

typedef struct mk_cuda_stream {
  mk_stream base;
  cudaStream_t native;
  void *blas_memory; /* [MK_CUDA_BLAS_BYTES] */
  void *scratch;     /* [MK_CUDA_SCRATCH_BYTES], for the op that runs */
  mk_cuda_calls *calls;
  struct mk_cuda_stream *next;
} mk_cuda_stream;

typedef struct mk_cuda_device {
  mk_device base;
  int ordinal;
  char gpu[64];
  int sm; /* compute capability: 10 * major + minor */
  mk_cuda_blas *blas;
  mk_cuda_stream *streams; /* linked, for poll */
  cudaEvent_t begin, end;  /* profile mode: around each launch */
} mk_cuda_device;

static inline mk_cuda_device *mk_cuda_device_of(mk_stream *stream) { return (mk_cuda_device *)stream->dev; }
static inline mk_cuda_stream *mk_cuda_stream_of(mk_stream *stream) { return (mk_cuda_stream *)stream; }

/* The table of cuda kernels, indexed by mk_op_id; NULL where there is none yet (cuda_ops.c). */
const mk_op_fn *mk_cuda_op_table(void);

/* Fails with MK_ERR_UNSUPPORTED unless `dtype` is f32 or bf16. */
mk_status mk_cuda_check_float(mk_stream *stream, mk_op_id op, mk_dtype dtype);

/* Makes the device the calling thread's current one: before whatever creates, allocates or launches. */
mk_status mk_cuda_enter(mk_device *dev);

/* cuda_streams.c: members of the table. */
mk_status mk_cuda_stream_create(mk_device *dev, const char *name, mk_stream **out);
void mk_cuda_stream_destroy(mk_stream *stream);
mk_status mk_cuda_launch(mk_stream *stream, mk_op_id op, const void *args, size_t args_bytes);
mk_status mk_cuda_event_create(mk_device *dev, mk_event **out);
void mk_cuda_event_destroy(mk_event *event);
mk_status mk_cuda_event_record(mk_event *event, mk_stream *stream);
mk_status mk_cuda_stream_wait(mk_stream *stream, mk_event *event);
mk_status mk_cuda_event_sync(mk_event *event);
mk_status mk_cuda_event_elapsed_s(mk_event *begin, mk_event *end, double *out);
mk_status mk_cuda_stream_sync(mk_stream *stream);
mk_status mk_cuda_poll(mk_device *dev);
mk_status mk_cuda_query(mk_cuda_stream *stream); /* fails when the stream has; does not wait */

/* cuda_calls.c. Host functions may not call CUDA (cudaLaunchHostFunc), so not this device either. */
mk_status mk_cuda_calls_create(mk_cuda_stream *stream, mk_cuda_calls **out);
void mk_cuda_calls_destroy(mk_context *ctx, mk_cuda_calls *calls); /* after the stream has ended */
mk_status mk_cuda_call(mk_stream *stream, mk_call_fn fn, const void *args, size_t args_bytes);
mk_status mk_cuda_calls_poll(mk_cuda_stream *stream); /* first fault of the functions that have run */

/* cuda_error.c. Each describes the error, clears CUDA's record of it and returns a status: MK_ERR_MEMORY,
 * MK_ERR_UNSUPPORTED (no kernel for this GPU) or MK_ERR_DEVICE. */
mk_status mk_cuda_fail(mk_context *ctx, cudaError_t error, const char *call, const char *file, int line);
/* The same for an error that a wait found: names the last launches, for one of them may be at fault. */
mk_status mk_cuda_fault(mk_device *dev, cudaError_t error, const char *call, const char *file, int line);

#define MK_CUDA(ctx, call) \
  do { \
    cudaError_t mk_cuda_error = (call); \
    if (mk_cuda_error != cudaSuccess) return mk_cuda_fail((ctx), mk_cuda_error, #call, __FILE__, __LINE__); \
  } while (0)

/* For functions with cleanup: needs a local `mk_status st` and the label. */
#define MK_CUDA_GOTO(ctx, call, label) \
  do { \
    cudaError_t mk_cuda_error = (call); \
    if (mk_cuda_error != cudaSuccess) { \
      st = mk_cuda_fail((ctx), mk_cuda_error, #call, __FILE__, __LINE__); \
      goto label; \
    } \
  } while (0)

/* Of calls that report what earlier work did. */
#define MK_CUDA_WAIT(dev, call) \
  do { \
    cudaError_t mk_cuda_error = (call); \
    if (mk_cuda_error != cudaSuccess) return mk_cuda_fault((dev), mk_cuda_error, #call, __FILE__, __LINE__); \
  } while (0)

/* After kernel launches. */
#define MK_CUDA_LAUNCHED(stream) MK_CUDA_WAIT((stream)->dev, cudaGetLastError())

#ifdef __cplusplus
}
#endif

#endif
