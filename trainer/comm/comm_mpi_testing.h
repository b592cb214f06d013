/* Settings of the MPI backend for tests: limits that real sizes would need gigabytes to reach. Same on all ranks
 * of the communicator. */
#ifndef TRAINER_COMM_COMM_MPI_TESTING_H
#define TRAINER_COMM_COMM_MPI_TESTING_H

#include "trainer/comm/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of one message at most (1 GiB by default, because MPI counts are `int`). */
void mt_comm_mpi_set_piece_bytes(mt_comm *comm, int64_t bytes);

/* Bytes of one chunk of a reduction; can only be lowered. A multiple of 8. */
void mt_comm_mpi_set_lane_bytes(mt_comm *comm, int64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
