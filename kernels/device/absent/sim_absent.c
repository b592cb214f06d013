/* Stands in for device/sim, which is not written yet. */
#include "kernels/device/backends.h"

mk_status mk_device_sim_create(mk_context *ctx, const mk_device_config *config, mk_device **out) {
  (void)config;
  (void)out;
  return MK_FAIL(ctx, MK_ERR_UNSUPPORTED,
                 "there is no sim device: simulated time is not built yet; use the device cpu");
}
