/* How a run ends when a rank stops: `comm_end timeout|abort|killed`, through mpirun.
 * timeout: rank 1 comes too late, rank 0 gets MK_ERR_TIMEOUT at the deadline; exit 0 when all was as it should be.
 * abort: rank 1 aborts with 3 while rank 0 waits; mpirun returns 3. killed: the last rank gets SIGKILL. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/check_main.h"
#include "tests/trainer/comm/comm_fixture.h"

/* Rank 1 comes LATE_US after rank 0, which waits out what is left of it, so that the world stays within its own
 * deadline. */
#define TIMEOUT_S 1.0

enum { N = 100, KINDS = 4, LATE_US = 1800000 };

static mk_status call(mt_comm *comm, int kind, const mk_tensor *t, mk_stream *s) {
  switch (kind) {
    case 0:
      return mt_comm_all_reduce(comm, t, t, MT_SUM, s);
    case 1:
      return mt_comm_barrier(comm, s);
    case 2:
      return mt_comm_recv(comm, t, 1, s);
    default:
      return mt_comm_broadcast(comm, t, 1, s);
  }
}

/* What rank 1 does for the call that rank 0 gave up. */
static mk_status answer(mt_comm *comm, int kind, const mk_tensor *t, mk_stream *s) {
  return kind == 2 ? mt_comm_send(comm, t, 0, s) : call(comm, kind, t, s);
}

static void check_timeout(mt_comm *comm, int kind, const mk_tensor *t, test_bench *b) {
  static const char *const names[KINDS] = {"all_reduce", "barrier", "recv", "broadcast"};
  double begin_s = mk_device_now_s(b->dev);
  mk_status st = call(comm, kind, t, b->stream);
  double took_s = mk_device_now_s(b->dev) - begin_s;
  const char *said = b->ctx.error.message;
  ck_assert_msg(st == MK_ERR_TIMEOUT, "%s: got %s", names[kind], mk_status_name(st));
  ck_assert_msg(took_s >= TIMEOUT_S && took_s < 2 * TIMEOUT_S, "%s took %g s", names[kind], took_s);
  ck_assert_msg(strstr(said, "no progress in ") != NULL && strstr(said, names[kind]) != NULL, "said: %s", said);
  ck_assert_msg(strstr(said, "on late for 1 s: a peer is stopped or dead") != NULL, "said: %s", said);
  mk_error_clear(&b->ctx);
  ck_assert_int_eq(call(comm, kind, t, b->stream), MK_ERR_COMM); /* the communicator takes no more */
  mk_error_clear(&b->ctx);
}

START_TEST(a_late_peer_is_a_timeout) {
  mt_comm *world = fx_comm(FX_WORLD), *comm = NULL;
  test_bench b;
  fx_bench_open(&b);
  mk_tensor t = fx_tensor(&b, "t", MK_F32, N, world->rank, 0);
  fx_ok(mt_comm_split(world, 0, world->rank, "late", &comm), "split");
  if (comm->rank == 0) {
    check_timeout(comm, _i, &t, &b);
  } else {
    usleep(LATE_US);
    fx_ok(answer(comm, _i, &t, b.stream), "answer");
  }
  if (comm->rank == 0) usleep(LATE_US - (useconds_t)(TIMEOUT_S * 1e6));
  mt_comm_destroy(comm); /* completes what was left in flight */
  fx_ok(mt_comm_barrier(world, b.stream), "other communicators live on");
  test_bench_close(&b);
}
END_TEST

static int timeouts(void) {
  Suite *suite = suite_create("comm_end");
  TCase *tc = test_case(suite, "timeout", 60);
  tcase_add_loop_test(tc, a_late_peer_is_a_timeout, 0, KINDS);
  SRunner *runner = srunner_create(suite);
  srunner_set_fork_status(runner, CK_NOFORK);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  if (failed > 0) mt_comm_abort(fx_comm(FX_WORLD), 1);
  fx_close();
  return failed > 0 || fx()->ctx.heap_live != 0;
}

/* The others wait in a barrier that never completes. */
static int end_last_rank(bool killed) {
  mt_comm *world = fx_comm(FX_WORLD);
  test_bench b;
  fx_bench_open(&b);
  if (world->rank == world->size - 1) {
    usleep(200000);
    if (killed) raise(SIGKILL);
    mt_comm_abort(world, 3);
  }
  mt_comm_barrier(world, b.stream);
  return 0; /* wrong, so mpirun's status would show it */
}

int main(int argc, char **argv) {
  const char *mode = argc == 2 ? argv[1] : "";
  bool timeout = strcmp(mode, "timeout") == 0;
  if (fx_open("mpi", "cpu", timeout ? TIMEOUT_S : 0) != MK_OK) {
    fprintf(stderr, "no world: %s\n", fx()->ctx.error.message);
    return 1;
  }
  fx()->guard = false; /* a broadcast that was given up is still received when it comes */
  return timeout ? timeouts() : end_last_rank(strcmp(mode, "killed") == 0);
}
