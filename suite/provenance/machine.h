/* The machine as probed (hwloc, /proc, uname); nothing of it can be typed. */
#ifndef SUITE_PROVENANCE_MACHINE_H
#define SUITE_PROVENANCE_MACHINE_H

#include <stdint.h>

#include "kernels/base/status.h"

typedef struct ms_machine {
  char cpu_model[256];
  char isa[512]; /* feature words that decide kernels, e.g. "avx2 fma avx512f avx512_bf16" */
  int64_t sockets, numa_nodes, cores, hardware_threads;
  int64_t usable_threads;                /* that this process may run on */
  int64_t l1d_bytes, l2_bytes, l3_bytes; /* of one cache each; 0 = not reported */
  int64_t memory_bytes;
  int64_t shm_bytes; /* free in /dev/shm: MPI's shared memory */
  char host[128], user[128], os[256], kernel[256];
  char hwloc[32], mpi[64]; /* versions; mpi empty when there is no mpirun */
} ms_machine;

/* MK_ERR_DEVICE when the topology cannot be read. `mpi` stays empty: asking for it starts a program (run/capture.h). */
mk_status ms_machine_probe(mk_context *ctx, ms_machine *out);

/* Hash of what makes two machines equal for timing: CPU model, features, usable threads; 64 hex digits. */
mk_status ms_machine_hash(mk_context *ctx, const ms_machine *machine, char out[65]);

#endif
