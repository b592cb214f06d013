/* Conformance of a communication backend: `comm_conformance self|mpi cpu|cpu_async`, and `comm_conformance_nccl nccl
 * ..` with the NCCL backend over a mock. All tests of all files in one process, because MPI starts once; a rank that
 * fails ends the others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/trainer/comm/comm_fixture.h"

static int count_failures(void) {
  Suite *suite = suite_create("comm");
  suite_add_tcase(suite, cases_collective());
  suite_add_tcase(suite, cases_exchange());
  suite_add_tcase(suite, cases_window());
  suite_add_tcase(suite, cases_fault());
  TCase *own = fx_world_cases();
  if (own != NULL) suite_add_tcase(suite, own);
  SRunner *runner = srunner_create(suite);
  srunner_set_fork_status(runner, CK_NOFORK);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s self|mpi|nccl cpu|cpu_async\n", argv[0]);
    return 2;
  }
  if (fx_open(argv[1], argv[2], 60) != MK_OK) {
    fprintf(stderr, "no world: %s\n", fx()->ctx.error.message);
    return 1;
  }
  if (count_failures() > 0) {
    mt_comm_abort(fx_comm(FX_WORLD), 1);
    return 1;
  }
  fx_close();
  if (fx()->ctx.heap_live != 0) fprintf(stderr, "%lld heap blocks were not freed\n", fx()->ctx.heap_live);
  return fx()->ctx.heap_live == 0 ? 0 : 1;
}
