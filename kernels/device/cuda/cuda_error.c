/* Errors of the CUDA runtime as statuses with a message. Most errors are reported once, some by every later call of the
 * process ("sticky"); cudaGetLastError clears the former, so that a refused allocation does not come back as the result
 * of the next launch. */
#include "kernels/device/cuda/cuda_device.h"

enum { RECENT_OPS = 6 };

static mk_status status_of(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return MK_ERR_MEMORY;
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return MK_ERR_UNSUPPORTED;
    default:
      return MK_ERR_DEVICE;
  }
}

mk_status mk_cuda_fail(mk_context *ctx, cudaError_t error, const char *call, const char *file, int line) {
  cudaGetLastError();
  return mk_fail(ctx, status_of(error), file, line, "CUDA: %s (%s) from %s", cudaGetErrorString(error),
                 cudaGetErrorName(error), call);
}

mk_status mk_cuda_fault(mk_device *dev, cudaError_t error, const char *call, const char *file, int line) {
  char ops[256];
  cudaGetLastError();
  return mk_fail(dev->ctx, status_of(error), file, line, "CUDA: %s (%s) from %s; last launches, newest first: %s",
                 cudaGetErrorString(error), cudaGetErrorName(error), call,
                 mk_device_recent_ops(dev, RECENT_OPS, ops, sizeof ops));
}
