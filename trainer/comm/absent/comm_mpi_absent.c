/* Stands in for the MPI backend in a build without MPI. */
#include "trainer/comm/comm.h"
#include "trainer/comm/comm_mpi_testing.h"

mk_status mt_comm_mpi_create(mk_context *ctx, const mt_comm_mpi_config *config, mt_comm **out) {
  (void)config, (void)out;
  return MK_FAIL(ctx, MK_ERR_UNSUPPORTED, "this build has no MPI communication: configure with -DMOEMARK_MPI=ON");
}

void mt_comm_mpi_set_piece_bytes(mt_comm *comm, int64_t bytes) { (void)comm, (void)bytes; }

void mt_comm_mpi_set_lane_bytes(mt_comm *comm, int64_t bytes) { (void)comm, (void)bytes; }
