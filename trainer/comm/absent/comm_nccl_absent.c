/* Stands in for the NCCL backend in a build without CUDA or NCCL. */
#include "trainer/comm/comm.h"

mk_status mt_comm_nccl_create(mk_context *ctx, mt_comm *bootstrap, mk_device *dev, mt_comm **out) {
  (void)bootstrap, (void)dev, (void)out;
  return MK_FAIL(ctx, MK_ERR_UNSUPPORTED,
                 "this build has no NCCL communication: it needs CUDA and nccl.h (-DMOEMARK_NCCL=ON)");
}
