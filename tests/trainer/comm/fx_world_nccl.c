/* World of the NCCL backend over the mock, bootstrapped by MPI or, for one rank, by self; and the cases that need a
 * mock that fails to order. */
#include <string.h>

#include "tests/support/nccl_mock.h"
#include "tests/trainer/comm/comm_fixture.h"

static struct {
  mt_comm *bootstrap;
  mk_device *device; /* the communicators' own; those of the benches come and go */
} below;

mk_status fx_world_open(fixture *f, const char *backend, double timeout_s) {
  mt_comm_mpi_config config = {.threaded = strcmp(f->device, "cpu_async") == 0, .timeout_s = timeout_s};
  mk_device_config device = {.name = f->device, .threads = 1};
  MK_CHECK(&f->ctx, strcmp(backend, "nccl") == 0, MK_ERR_ARG, "no backend %s in this program", backend);
  MK_TRY(&f->ctx, mt_comm_mpi_launched() ? mt_comm_mpi_create(&f->ctx, &config, &below.bootstrap)
                                         : mt_comm_self_create(&f->ctx, &below.bootstrap));
  MK_TRY(&f->ctx, mk_device_create(&f->ctx, &device, &below.device));
  fx_world_adapt(below.device);
  return mt_nccl_open(&f->ctx, below.bootstrap, below.device, nccl_mock_map, &f->comm[FX_WORLD]);
}

mk_status fx_world_tune(fixture *f) {
  (void)f;
  return MK_OK;
}

void fx_world_close(fixture *f) {
  (void)f;
  mk_device_destroy(below.device);
  mt_comm_destroy(below.bootstrap);
}

void fx_world_adapt(mk_device *dev) { nccl_mock_adapt(dev); }

/* ---- faults of NCCL ---- */

static void expect_fault(mk_status st, const char *text) {
  fixture *f = fx();
  ck_assert_msg(st == MK_ERR_COMM, "expected a fault with '%s', got %s", text, mk_status_name(st));
  ck_assert_msg(strstr(f->ctx.error.message, text) != NULL, "expected '%s', said: %s", text, f->ctx.error.message);
  ck_assert_int_eq(nccl_mock_group_depth(), 0);
  mk_error_clear(&f->ctx);
}

START_TEST(asynchronous_fault_is_polled) {
  mt_comm *comm = fx_comm(FX_WORLD);
  fx_ok(mt_comm_poll(comm), "poll");
  nccl_mock_set_async(ncclInProgress);
  fx_ok(mt_comm_poll(comm), "poll while busy");
  nccl_mock_set_async(ncclRemoteError);
  expect_fault(mt_comm_poll(comm), "NCCL: remote error (as ordered) from world");
  nccl_mock_set_async(ncclSuccess);
  fx_ok(mt_comm_poll(comm), "poll");
}
END_TEST

/* The same call fails on every rank, so that nobody waits; afterwards the communicator works. */
START_TEST(refused_calls_are_faults) {
  mt_comm *comm = fx_comm(FX_WORLD);
  test_bench b;
  fx_bench_open(&b);
  mk_tensor a = fx_tensor(&b, "a", MK_F32, comm->size, comm->rank, 0);
  mk_tensor c = test_output(&b, "c", mk_tensor_1d(MK_F32, comm->size));
  nccl_mock_fail_next(ncclRemoteError);
  expect_fault(mt_comm_all_reduce(comm, &a, &c, MT_SUM, b.stream), "from ncclAllReduce");
  nccl_mock_fail_next(ncclRemoteError);
  expect_fault(mt_comm_all_to_all(comm, &a, &c, b.stream), "from ncclGroupEnd");
  nccl_mock_fail_next(ncclRemoteError);
  expect_fault(mt_comm_barrier(comm, b.stream), "from ncclAllReduce");
  fx_ok(mt_comm_all_reduce(comm, &a, &c, MT_SUM, b.stream), "all_reduce");
  for (int64_t i = 0; i < comm->size; i++) {
    fx_want()[i] = 0;
    for (int r = 0; r < comm->size; r++)
      fx_want()[i] += fx_value(r, i);
  }
  fx_expect(&b, &c, fx_want(), "all_reduce", FX_WORLD);
  test_bench_close(&b);
}
END_TEST

/* Every rank registers what the largest asks for, and the ledger has that. */
START_TEST(windows_take_the_largest_request) {
  mt_comm *comm = fx_comm(FX_WORLD);
  test_bench b;
  fx_bench_open(&b);
  mt_window *window = NULL;
  fx_ok(mt_window_create(comm, b.dev, (size_t)(1000 + comm->rank), &window), "window_create");
  ck_assert_uint_eq(window->bytes, (size_t)(1000 + comm->size - 1));
  ck_assert_uint_eq(b.dev->used_bytes[MK_MEM_COMM], window->bytes);
  for (size_t i = 0; i < window->bytes; i++)
    ck_assert_int_eq(((const unsigned char *)window->base)[i], 0);
  mt_window_destroy(window);
  ck_assert_uint_eq(b.dev->used_bytes[MK_MEM_COMM], 0);
  test_bench_close(&b);
}
END_TEST

START_TEST(a_device_that_is_no_gpu_is_refused) {
  fixture *f = fx();
  mt_comm *world = NULL;
  ck_assert_int_eq(mt_comm_nccl_create(&f->ctx, below.bootstrap, below.device, &world), MK_ERR_UNSUPPORTED);
  ck_assert_msg(strstr(f->ctx.error.message, "this rank's device is cpu") != NULL, "said: %s", f->ctx.error.message);
  ck_assert_ptr_null(world);
  mk_error_clear(&f->ctx);
}
END_TEST

TCase *fx_world_cases(void) {
  TCase *tc = tcase_create("nccl");
  tcase_add_test(tc, asynchronous_fault_is_polled);
  tcase_add_test(tc, refused_calls_are_faults);
  tcase_add_test(tc, windows_take_the_largest_request);
  tcase_add_test(tc, a_device_that_is_no_gpu_is_refused);
  return tc;
}
