/* The cuda device: one GPU, driven by one host thread. Memory is cudaMalloc'd and cleared; copies are asynchronous when
 * the host memory is pinned, and wait for their stream inside the runtime when it is not ("API synchronization
 * behavior" in the CUDA Runtime documentation). Device memory can never be read by the host, so `guard` holds by
 * itself. */
#include <stdio.h>
#include <time.h>

#include "kernels/base/heap.h"
#include "kernels/device/cuda/cuda_blas.h"
#include "kernels/device/cuda/cuda_device.h"
#include "kernels/ops/ops.h"

mk_status mk_cuda_enter(mk_device *dev) {
  MK_CUDA(dev->ctx, cudaSetDevice(((mk_cuda_device *)dev)->ordinal));
  return MK_OK;
}

mk_status mk_cuda_check_float(mk_stream *stream, mk_op_id op, mk_dtype dtype) {
  MK_CHECK(stream->dev->ctx, dtype == MK_F32 || dtype == MK_BF16, MK_ERR_UNSUPPORTED,
           "%s: the cuda kernel takes f32 and bf16, not %s; use the ref device", mk_op_name(op), mk_dtype_name(dtype));
  return MK_OK;
}

/* ---- memory ---- */

/* Cleared on the legacy default stream and waited for, because the streams of the device do not wait for that one. */
static mk_status alloc(mk_device *dev, size_t bytes, void **out) {
  void *block = NULL;
  size_t free_bytes = 0, total_bytes = 0;
  MK_TRY(dev->ctx, mk_cuda_enter(dev));
  cudaError_t error = cudaMalloc(&block, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    cudaMemGetInfo(&free_bytes, &total_bytes);
    return MK_FAIL(dev->ctx, MK_ERR_MEMORY, "out of GPU memory: %zu bytes needed, %zu of %zu free on %s", bytes,
                   free_bytes, total_bytes, ((mk_cuda_device *)dev)->gpu);
  }
  MK_CUDA(dev->ctx, error);
  error = cudaMemset(block, 0, bytes);
  if (error == cudaSuccess) error = cudaStreamSynchronize(cudaStreamLegacy);
  if (error != cudaSuccess) {
    cudaFree(block);
    return mk_cuda_fault(dev, error, "cudaMemset", __FILE__, __LINE__);
  }
  *out = block;
  return MK_OK;
}

/* Waits for all work of the device. An error is that of earlier work and is recorded for the next poll to return. */
static void release(mk_device *dev, void *block, size_t bytes) {
  (void)bytes;
  cudaSetDevice(((mk_cuda_device *)dev)->ordinal);
  cudaError_t error = cudaFree(block);
  if (error != cudaSuccess) mk_cuda_fault(dev, error, "cudaFree", __FILE__, __LINE__);
}

static mk_status copy(mk_stream *stream, void *dst, const void *src, size_t bytes, int kind) {
  static const enum cudaMemcpyKind kinds[] = {[MK_COPY_H2D] = cudaMemcpyHostToDevice,
                                              [MK_COPY_D2H] = cudaMemcpyDeviceToHost,
                                              [MK_COPY_D2D] = cudaMemcpyDeviceToDevice};
  MK_CUDA_WAIT(stream->dev, cudaMemcpyAsync(dst, src, bytes, kinds[kind], mk_cuda_stream_of(stream)->native));
  return MK_OK;
}

static mk_status fill(mk_stream *stream, void *dst, int byte, size_t bytes) {
  MK_CUDA_WAIT(stream->dev, cudaMemsetAsync(dst, byte, bytes, mk_cuda_stream_of(stream)->native));
  return MK_OK;
}

/* ---- the rest of the table ---- */

static double now_s(mk_device *dev) {
  (void)dev;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *stream_native(mk_stream *stream) { return mk_cuda_stream_of(stream)->native; }

/* cuBLAS takes weights as they are. */
static size_t gemm_pack_bytes(mk_device *dev, mk_dtype dtype, int64_t groups, int64_t n, int64_t k) {
  (void)dev, (void)dtype, (void)groups, (void)n, (void)k;
  return 0;
}

static void info(mk_device *dev, mk_device_info *out) {
  const mk_cuda_device *cuda = (const mk_cuda_device *)dev;
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver); /* 1000 * major + 10 * minor */
  cudaRuntimeGetVersion(&runtime);
  out->threads = 1;
  snprintf(out->isa, sizeof out->isa, "sm_%d", cuda->sm);
  snprintf(out->kernel, sizeof out->kernel, "native");
  mk_cuda_blas_version(cuda->blas, out->library, sizeof out->library);
  snprintf(out->text, sizeof out->text, "cuda: %s, %s, driver for CUDA %d.%d, runtime %d.%d, %s", cuda->gpu, out->isa,
           driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10, out->library);
}

static void destroy(mk_device *base) {
  mk_cuda_device *dev = (mk_cuda_device *)base;
  mk_context *ctx = base->ctx;
  while (dev->streams != NULL)
    mk_cuda_stream_destroy(&dev->streams->base);
  if (dev->begin != NULL) cudaEventDestroy(dev->begin);
  if (dev->end != NULL) cudaEventDestroy(dev->end);
  mk_cuda_blas_destroy(ctx, dev->blas);
  mk_heap_free(ctx, dev);
}

static const mk_device_ops cuda_ops = {
    .name = "cuda",
    .alloc = alloc,
    .free = release,
    .stream_create = mk_cuda_stream_create,
    .stream_destroy = mk_cuda_stream_destroy,
    .launch = mk_cuda_launch,
    .call = mk_cuda_call,
    .copy = copy,
    .fill = fill,
    .event_create = mk_cuda_event_create,
    .event_destroy = mk_cuda_event_destroy,
    .event_record = mk_cuda_event_record,
    .stream_wait = mk_cuda_stream_wait,
    .event_sync = mk_cuda_event_sync,
    .event_elapsed_s = mk_cuda_event_elapsed_s,
    .stream_sync = mk_cuda_stream_sync,
    .now_s = now_s,
    .poll = mk_cuda_poll,
    .stream_native = stream_native,
    .gemm_pack_bytes = gemm_pack_bytes,
    .info = info,
    .destroy = destroy,
};

/* ---- creation ---- */

/* A machine without driver or GPU is a legal one: the refusal says what the runtime found. */
static mk_status find_gpu(mk_context *ctx, const mk_device_config *config, struct cudaDeviceProp *out) {
  int n = 0;
  cudaError_t error = cudaGetDeviceCount(&n);
  cudaGetLastError();
  const char *why = error == cudaSuccess ? "the driver shows none" : cudaGetErrorString(error);
  MK_CHECK(ctx, error == cudaSuccess && n > 0, MK_ERR_UNSUPPORTED,
           "no CUDA device: %s; it needs an NVIDIA GPU and its driver, else use device cpu", why);
  MK_CHECK(ctx, config->ordinal >= 0 && config->ordinal < n, MK_ERR_UNSUPPORTED,
           "no CUDA device %d: this process sees %d, counted from 0 (CUDA_VISIBLE_DEVICES limits them)",
           config->ordinal, n);
  MK_CHECK(ctx, config->kernel != MK_KERNEL_WIDENED, MK_ERR_UNSUPPORTED,
           "kernel widened: the cuda device multiplies BF16 natively; use kernel auto or native");
  MK_CUDA(ctx, cudaGetDeviceProperties(out, config->ordinal));
  return MK_OK;
}

mk_status mk_device_cuda_create(mk_context *ctx, const mk_device_config *config, mk_device **out) {
  mk_cuda_device *dev = NULL;
  struct cudaDeviceProp gpu;
  mk_status st = MK_OK;
  MK_TRY(ctx, find_gpu(ctx, config, &gpu));
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *dev, &dev));
  mk_device_init(&dev->base, ctx, config, &cuda_ops, mk_cuda_op_table());
  dev->ordinal = config->ordinal;
  dev->sm = 10 * gpu.major + gpu.minor;
  snprintf(dev->gpu, sizeof dev->gpu, "%.63s", gpu.name);
  MK_TRY_GOTO(ctx, mk_cuda_enter(&dev->base), out);
  MK_TRY_GOTO(ctx, mk_cuda_blas_create(ctx, &dev->blas), out);
  if (config->profile) {
    MK_CUDA_GOTO(ctx, cudaEventCreate(&dev->begin), out);
    MK_CUDA_GOTO(ctx, cudaEventCreate(&dev->end), out);
  }
  *out = &dev->base;
  return MK_OK;
out:
  destroy(&dev->base);
  return st;
}
