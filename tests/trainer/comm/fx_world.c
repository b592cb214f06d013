/* Worlds of the backends on the host: self and MPI. */
#include <string.h>

#include "tests/trainer/comm/comm_fixture.h"
#include "trainer/comm/comm_mpi_testing.h"

mk_status fx_world_open(fixture *f, const char *backend, double timeout_s) {
  mt_comm_mpi_config config = {.threaded = strcmp(f->device, "cpu_async") == 0, .timeout_s = timeout_s};
  mt_comm **world = &f->comm[FX_WORLD];
  if (strcmp(backend, "self") == 0) return mt_comm_self_create(&f->ctx, world);
  MK_CHECK(&f->ctx, strcmp(backend, "mpi") == 0, MK_ERR_ARG, "no backend %s in this program", backend);
  return mt_comm_mpi_create(&f->ctx, &config, world);
}

mk_status fx_world_tune(fixture *f) {
  if (strcmp(f->comm[FX_WORLD]->ops->name, "mpi") != 0) return MK_OK;
  mt_comm_mpi_set_piece_bytes(f->comm[FX_CUT], 24);
  mt_comm_mpi_set_lane_bytes(f->comm[FX_CUT], 64);
  return MK_OK;
}

void fx_world_close(fixture *f) { (void)f; }

void fx_world_adapt(mk_device *dev) { (void)dev; }

TCase *fx_world_cases(void) { return NULL; }
