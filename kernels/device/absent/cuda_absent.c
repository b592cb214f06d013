/* Stands in for device/cuda in builds without the CUDA Toolkit. */
#include "kernels/device/backends.h"

mk_status mk_device_cuda_create(mk_context *ctx, const mk_device_config *config, mk_device **out) {
  (void)config;
  (void)out;
  return MK_FAIL(ctx, MK_ERR_UNSUPPORTED,
                 "this build has no cuda device: install the CUDA Toolkit 13 (nvcc) and configure again with "
                 "-DMOEMARK_CUDA=ON, or use the device cpu");
}
