/* The NCCL backend on GPUs: every call once, exact values. `comm_nccl_gpu` on one GPU, or one rank a GPU of this
 * machine under mpirun. Not a ctest entry: it needs a GPU (tests/device/run_cuda.sh). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/bench.h"
#include "tests/trainer/comm/comm_fixture.h"

enum { N = 1000, RANKS = 64 };

static test_bench bench;
static mt_comm *world;

static mk_tensor values(const char *name, mk_dtype dtype, int64_t n, int rank, int64_t first) {
  static double value[N * RANKS];
  for (int64_t i = 0; i < n; i++)
    value[i] = fx_value(rank, first + i);
  return test_values(&bench, name, TEST_INOUT, mk_tensor_1d(dtype, n), value);
}

static void ok(mk_status st, const char *what) { test_ok(&bench, st, what); }

/* Element i of t is want(i / n, i % n). */
static void expect(const mk_tensor *t, int64_t n, double (*want)(int part, int64_t i), const char *what) {
  static double got[N * RANKS];
  test_read(&bench, t, got);
  for (int64_t i = 0; i < mk_tensor_count(t); i++) {
    double value = want((int)(i / n), i % n);
    ck_assert_msg(got[i] == value, "%s rank %d index %lld: %g, expected %g", what, world->rank, (long long)i, got[i],
                  value);
  }
}

static double sum_of(int part, int64_t i) {
  double sum = 0;
  (void)part;
  for (int r = 0; r < world->size; r++)
    sum += fx_value(r, i);
  return sum;
}

static double own_slice_of_sum(int part, int64_t i) { return sum_of(part, world->rank * N + i); }
static double value_of(int part, int64_t i) { return fx_value(part, i); }
static double for_me_of(int part, int64_t i) { return fx_value(part, world->rank * N + i); }
static double of_root(int part, int64_t i) { return fx_value(part, i); }
static double of_previous(int part, int64_t i) {
  (void)part;
  return fx_value((world->rank + world->size - 1) % world->size, i);
}

START_TEST(collectives) {
  int size = world->size;
  for (int d = 0; d < 2; d++) {
    mk_dtype dtype = d == 0 ? MK_F32 : MK_I64;
    mk_tensor one = values("one", dtype, N, world->rank, 0), all = values("all", dtype, N * size, world->rank, 0);
    mk_tensor small = test_output(&bench, "small", mk_tensor_1d(dtype, N));
    mk_tensor large = test_output(&bench, "large", mk_tensor_1d(dtype, N * size));
    ok(mt_comm_all_reduce(world, &one, &small, MT_SUM, bench.stream), "all_reduce");
    expect(&small, N, sum_of, "all_reduce");
    ok(mt_comm_reduce_scatter(world, &all, &small, MT_SUM, bench.stream), "reduce_scatter");
    expect(&small, N, own_slice_of_sum, "reduce_scatter");
    ok(mt_comm_all_gather(world, &one, &large, bench.stream), "all_gather");
    expect(&large, N, value_of, "all_gather");
    ok(mt_comm_all_to_all(world, &all, &large, bench.stream), "all_to_all");
    expect(&large, N, for_me_of, "all_to_all");
    ok(mt_comm_broadcast(world, &one, 0, bench.stream), "broadcast");
    expect(&one, N, of_root, "broadcast");
  }
}
END_TEST

START_TEST(ring_in_a_group) {
  int size = world->size;
  mk_tensor send = values("send", MK_BF16, N, world->rank, 0);
  mk_tensor recv = test_output(&bench, "recv", mk_tensor_1d(MK_BF16, N));
  ok(mt_comm_group_begin(world), "group_begin");
  ok(mt_comm_send(world, &send, (world->rank + 1) % size, bench.stream), "send");
  ok(mt_comm_recv(world, &recv, (world->rank + size - 1) % size, bench.stream), "recv");
  ok(mt_comm_group_end(world, bench.stream), "group_end");
  expect(&recv, N, of_previous, "ring");
}
END_TEST

/* Every rank writes its own value into all peers that it reaches; after the barrier each finds them. */
START_TEST(windows) {
  mt_window *window = NULL;
  ok(mt_window_create(world, bench.dev, N * (size_t)world->size * sizeof(float), &window), "window_create");
  ck_assert_ptr_eq(window->peer_base[world->rank], window->base);
  printf("rank %d: window %s\n", world->rank, mt_window_shared(window) ? "shared by all" : "not shared");
  mk_tensor one = values("one", MK_F32, N, world->rank, 0), all = mk_tensor_1d(MK_F32, (int64_t)N * world->size);
  all.data = window->base;
  for (int r = 0; r < world->size; r++) {
    mk_tensor peer = mk_tensor_1d(MK_F32, N);
    if (window->peer_base[r] == NULL) continue;
    peer.data = (char *)window->peer_base[r] + (size_t)world->rank * N * sizeof(float);
    ok(mk_copy_d2d(bench.stream, &peer, &one), "copy into a peer");
  }
  ok(mt_comm_barrier(world, bench.stream), "barrier");
  if (mt_window_shared(window)) expect(&all, N, value_of, "window");
  ok(mt_comm_barrier(world, bench.stream), "barrier");
  ok(mk_stream_sync(bench.stream, false), "sync");
  mt_window_destroy(window);
  ck_assert_uint_eq(bench.dev->used_bytes[MK_MEM_COMM], sizeof(int32_t)); /* the world's token */
}
END_TEST

START_TEST(splits) {
  mt_comm *part = NULL;
  ok(mt_comm_split(world, world->rank % 2, -world->rank, "parity", &part), "split");
  ck_assert_int_eq(part->size, (world->size + 1 - world->rank % 2) / 2);
  ck_assert_int_eq(part->rank, part->size - 1 - world->rank / 2);
  ok(mt_comm_barrier(part, bench.stream), "barrier");
  ok(mk_stream_sync(bench.stream, false), "sync");
  ok(mt_comm_poll(part), "poll");
  mt_comm_destroy(part);
}
END_TEST

static int run(void) {
  Suite *suite = suite_create("nccl on GPUs");
  TCase *tc = tcase_create("nccl");
  tcase_add_test(tc, collectives);
  tcase_add_test(tc, ring_in_a_group);
  tcase_add_test(tc, windows);
  tcase_add_test(tc, splits);
  suite_add_tcase(suite, tc);
  SRunner *runner = srunner_create(suite);
  srunner_set_fork_status(runner, CK_NOFORK);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed;
}

/* A world over self or MPI on the GPU of this rank; the reason why not in ctx. */
static mk_status open_world(mk_context *ctx, const mk_device_config *device, mt_comm **bootstrap) {
  mt_comm_mpi_config mpi = {.timeout_s = 60};
  mk_device *probe = NULL;
  MK_TRY(ctx, mk_device_create(ctx, device, &probe));
  mk_device_destroy(probe);
  test_bench_open(&bench, device, 1, false);
  MK_TRY(ctx, mt_comm_mpi_launched() ? mt_comm_mpi_create(ctx, &mpi, bootstrap) : mt_comm_self_create(ctx, bootstrap));
  MK_TRY(ctx, mt_comm_nccl_create(ctx, *bootstrap, bench.dev, &world));
  MK_CHECK(ctx, world->size <= RANKS, MK_ERR_CONFIG, "at most %d ranks", (int)RANKS);
  return MK_OK;
}

int main(void) {
  static mk_context ctx;
  mt_comm *bootstrap = NULL;
  const char *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  const mk_device_config device = {.name = "cuda", .ordinal = local != NULL ? atoi(local) : 0};
  if (open_world(&ctx, &device, &bootstrap) != MK_OK) {
    fprintf(stderr, "no world: %s\n", ctx.error.message);
    return 1;
  }
  if (run() > 0) {
    mt_comm_abort(world, 1);
    return 1;
  }
  mt_comm_destroy(world);
  mt_comm_destroy(bootstrap);
  test_bench_close(&bench);
  return ctx.heap_live == 0 ? 0 : 1;
}
