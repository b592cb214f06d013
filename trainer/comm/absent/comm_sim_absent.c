/* Stands in for simulated communication in a build without SimGrid. */
#include "trainer/comm/comm.h"

mk_status mt_comm_sim_create(mk_context *ctx, mk_device *dev, mt_comm **out) {
  (void)dev, (void)out;
  return MK_FAIL(ctx, MK_ERR_UNSUPPORTED, "this build has no simulation: configure with -DMOEMARK_SIM=ON");
}
