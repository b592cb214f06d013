/* Stands in for simulated communication, which is not written yet. */
#include "trainer/comm/comm.h"

mk_status mt_comm_sim_create(mk_context *ctx, mk_device *dev, mt_comm **out) {
  (void)dev, (void)out;
  return MK_FAIL(ctx, MK_ERR_UNSUPPORTED,
                 "there is no sim communication: simulated time is not built yet; use the device cpu");
}
