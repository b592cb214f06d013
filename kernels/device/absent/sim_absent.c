/* Stands in for device/sim in builds without simulated time. */
#include "kernels/device/backends.h"

mk_status mk_device_sim_create(mk_context *ctx, const mk_device_config *config, mk_device **out) {
  (void)config;
  (void)out;
  return MK_FAIL(ctx, MK_ERR_UNSUPPORTED,
                 "this build has no sim device: install libsimgrid-dev and configure again with -DMOEMARK_SIM=ON");
}
