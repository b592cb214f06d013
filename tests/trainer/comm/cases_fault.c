/* Refused shapes, counters, injected faults, host memory failures, counts on which two ranks disagree. */
#include <stdio.h>
#include <string.h>

#include "tests/trainer/comm/comm_fixture.h"
#include "trainer/comm/comm_mpi_testing.h"
#include "trainer/comm/mesh.h"

static void expect_refused(mk_status st, const char *text) {
  fixture *f = fx();
  ck_assert_msg(st == MK_ERR_ARG, "expected a refusal with '%s', got %s", text, mk_status_name(st));
  ck_assert_msg(strstr(f->ctx.error.message, text) != NULL, "expected '%s', said: %s", text, f->ctx.error.message);
  mk_error_clear(&f->ctx);
}

/* Checked on shapes before anything is sent, so no peer has to take part. */
START_TEST(wrong_shapes_are_refused) {
  mt_comm *comm = fx_comm(FX_WORLD);
  int size = comm->size;
  mk_tensor absent = {0}, u8 = mk_tensor_1d(MK_U8, size), one = mk_tensor_1d(MK_F32, 1);
  mk_tensor all = mk_tensor_1d(MK_F32, size), more = mk_tensor_1d(MK_F32, size + 1), wide = mk_tensor_2d(MK_F32, 9, 2);
  mk_tensor half = mk_tensor_1d(MK_BF16, size), narrow = mk_tensor_2d(MK_F32, 9, 1);
  int64_t rows[MT_MAX_RANKS] = {0}, ten[MT_MAX_RANKS] = {10}, negative[MT_MAX_RANKS] = {-1};
  int64_t own[MT_MAX_RANKS] = {0};
  own[comm->rank] = 1;
  int64_t calls = comm->calls;
  expect_refused(mt_comm_all_reduce(comm, &absent, &one, MT_SUM, NULL), "absent");
  expect_refused(mt_comm_all_reduce(comm, &all, &half, MT_SUM, NULL), "sends f32 but receives bf16");
  expect_refused(mt_comm_all_reduce(comm, &all, &more, MT_SUM, NULL), "elements but receives");
  expect_refused(mt_comm_all_reduce(comm, &u8, &u8, MT_SUM, NULL), "no reduction of u8");
  expect_refused(mt_comm_all_reduce(comm, &all, &all, (mt_reduce)7, NULL), "unknown reduction");
  expect_refused(mt_comm_all_gather(comm, &one, &more, NULL), "all_gather");
  expect_refused(mt_comm_reduce_scatter(comm, &more, &one, MT_SUM, NULL), "reduce_scatter");
  if (size > 1) expect_refused(mt_comm_all_to_all(comm, &more, &more, NULL), "do not divide");
  expect_refused(mt_comm_all_to_all_v(comm, &wide, rows, &narrow, rows, NULL), "rows of 2 f32");
  expect_refused(mt_comm_all_to_all_v(comm, &wide, ten, &wide, ten, NULL), "10 rows to send");
  expect_refused(mt_comm_all_to_all_v(comm, &wide, rows, &wide, negative, NULL), "-1 rows to receive");
  expect_refused(mt_comm_all_to_all_v(comm, &wide, own, &wide, rows, NULL), "keeps 1 rows but takes 0");
  expect_refused(mt_comm_broadcast(comm, &one, size, NULL), "root");
  expect_refused(mt_comm_send(comm, &one, -1, NULL), "peer -1");
  expect_refused(mt_comm_recv(comm, &absent, 0, NULL), "absent");
  expect_refused(mt_comm_send(comm, &one, comm->rank, NULL), "wait for itself");
  expect_refused(mt_comm_group_end(comm, NULL), "no group is open");
  mt_comm *part = NULL;
  expect_refused(mt_comm_split(comm, -1, 0, "x", &part), "color -1 is negative");
  ck_assert_int_eq(comm->calls, calls + 1); /* only the send to itself came past the shape checks */
}
END_TEST

START_TEST(calls_and_payload_are_counted) {
  mt_comm *world = fx_comm(FX_WORLD), *comm = NULL;
  fx_ok(mt_comm_split(world, 0, world->rank, "count", &comm), "split");
  int64_t size = comm->size;
  test_bench b;
  fx_bench_open(&b);
  mk_tensor a = fx_tensor(&b, "a", MK_F32, 4 * size, comm->rank, 0);
  mk_tensor c = test_output(&b, "c", mk_tensor_1d(MK_F32, 4 * size));
  mk_tensor quarter = mk_tensor_slice(&c, 0, 4);
  int64_t ones[MT_MAX_RANKS];
  for (int r = 0; r < size; r++)
    ones[r] = 1;
  fx_ok(mt_comm_all_reduce(comm, &a, &c, MT_SUM, b.stream), "all_reduce");               /* 16 size */
  fx_ok(mt_comm_reduce_scatter(comm, &a, &quarter, MT_SUM, b.stream), "reduce_scatter"); /* 16 size */
  fx_ok(mt_comm_all_gather(comm, &quarter, &a, b.stream), "all_gather");                 /* 16 */
  fx_ok(mt_comm_all_to_all(comm, &a, &c, b.stream), "all_to_all");                       /* 16 size */
  fx_ok(mt_comm_all_to_all_v(comm, &a, ones, &c, ones, b.stream), "all_to_all_v");       /* 4 size */
  fx_ok(mt_comm_broadcast(comm, &a, 0, b.stream), "broadcast");                          /* 16 size at the root */
  fx_ok(mt_comm_barrier(comm, b.stream), "barrier");
  ck_assert_int_eq(comm->calls, 7);
  ck_assert_int_eq(comm->payload_bytes, 16 + 52 * size + (comm->rank == 0 ? 16 * size : 0));
  test_bench_close(&b);
  mt_comm_destroy(comm);
}
END_TEST

/* Counted over the wrapped communicator and what is split from it; nothing reaches a peer, so all stay usable. */
START_TEST(the_chosen_call_fails) {
  mt_comm *world = fx_comm(FX_WORLD), *inner = NULL, *comm = NULL, *part = NULL;
  char said[96];
  fx_ok(mt_comm_split(world, 0, world->rank, "inject", &inner), "split");
  fx_ok(mt_comm_fault_create(&fx()->ctx, inner, 4, &comm), "wrap");
  test_bench b;
  fx_bench_open(&b);
  mk_tensor a = fx_tensor(&b, "a", MK_F32, 3, comm->rank, 0);
  fx_ok(mt_comm_all_reduce(comm, &a, &a, MT_SUM, b.stream), "first");
  fx_ok(mt_comm_split(comm, 0, comm->rank, "part", &part), "second");
  fx_ok(mt_comm_barrier(comm, b.stream), "third");
  ck_assert_int_eq(mt_comm_all_reduce(part, &a, &a, MT_SUM, b.stream), MK_ERR_COMM);
  snprintf(said, sizeof said, "all_reduce on part: communication call 4 of rank %d fails", fx()->ctx.rank);
  ck_assert_msg(strstr(fx()->ctx.error.message, said) != NULL, "said: %s", fx()->ctx.error.message);
  mk_error_clear(&fx()->ctx);
  fx_ok(mt_comm_all_reduce(part, &a, &a, MT_SUM, b.stream), "fifth");
  test_bench_close(&b);
  mt_comm_destroy(part);
  mt_comm_destroy(comm);
}
END_TEST

/* Every heap call of a mesh's creation fails once, on all ranks alike: reported, nothing left, next attempt works. */
START_TEST(host_memory_failures_unwind) {
  fixture *f = fx();
  mt_comm *world = fx_comm(FX_WORLD);
  mt_mesh_config config = {.ep = world->size, .pp = 1, .experts = world->size};
  long long live = f->ctx.heap_live;
  mk_status st = MK_ERR_MEMORY;
  int n = 1;
  for (; st == MK_ERR_MEMORY; n++) {
    mt_mesh *mesh = NULL;
    f->ctx.heap_fail_at = f->ctx.heap_calls + n;
    st = mt_mesh_create(&f->ctx, world, &config, &mesh);
    f->ctx.heap_fail_at = 0;
    if (st == MK_OK) {
      ck_assert_int_eq(mesh->ep->rank, world->rank);
      ck_assert_int_eq(mesh->ep->size, world->size);
      ck_assert_int_eq(mesh->expert->size, 1);
      ck_assert_int_eq(mesh->dense->size, world->size);
      mt_mesh_destroy(mesh);
    }
    mk_error_clear(&f->ctx);
    ck_assert_msg(f->ctx.heap_live == live, "failure %d: %lld blocks left", n, f->ctx.heap_live - live);
  }
  ck_assert_int_eq(st, MK_OK);
  ck_assert_int_gt(n, 6);
}
END_TEST

/* Rank 0 sends three rows where rank 1 expects two. On a stream of its own, because an asynchronous one ends with it.
 */
static void disagree(mt_comm *comm, test_bench *b, mk_stream *stream) {
  int64_t send[MT_MAX_RANKS] = {0}, recv[MT_MAX_RANKS] = {0};
  mk_tensor from = fx_tensor(b, "from", MK_F32, 3, comm->rank, 0);
  mk_tensor to = test_output(b, "to", mk_tensor_1d(MK_F32, 3));
  if (comm->rank == 0) send[1] = 3;
  if (comm->rank == 1) recv[0] = 2;
  mk_status st = mt_comm_all_to_all_v(comm, &from, send, &to, recv, stream);
  if (st == MK_OK) st = mk_stream_sync(stream, false);
  if (comm->rank != 1) return;
  ck_assert_msg(st == MK_ERR_COMM, "got %s", mk_status_name(st));
  const char *said = b->ctx.error.message;
  ck_assert_msg(
      strstr(said, "all_to_all_v on disagree: receive from rank 0, 8 bytes, failed: MPI_ERR_TRUNCATE") != NULL,
      "said: %s", said);
  mk_error_clear(&b->ctx);
  ck_assert_int_eq(mt_comm_poll(comm), MK_ERR_COMM);
  mk_error_clear(&fx()->ctx);
}

/* MPI only: NCCL leaves it undefined. */
START_TEST(different_row_counts_are_an_error_not_a_hang) {
  mt_comm *world = fx_comm(FX_WORLD), *comm = NULL;
  if (world->size < 2 || strcmp(world->ops->name, "mpi") != 0) return;
  fx_ok(mt_comm_split(world, 0, world->rank, "disagree", &comm), "split");
  test_bench b;
  fx_bench_open(&b);
  mk_stream *stream = NULL;
  test_ok(&b, mk_stream_create(b.dev, "disagree", &stream), "stream");
  disagree(comm, &b, stream);
  mk_stream_destroy(stream);
  test_bench_close(&b);
  mt_comm_destroy(comm);
}
END_TEST

/* A broadcast on `comm` that MPI refuses to start, on all ranks alike: a message of a negative size. */
static void refuse_start(mt_comm *comm) {
  test_bench b;
  fx_bench_open(&b);
  mk_stream *stream = NULL;
  test_ok(&b, mk_stream_create(b.dev, "refuse", &stream), "stream");
  mk_tensor a = fx_tensor(&b, "a", MK_F32, 3, comm->rank, 0);
  mt_comm_mpi_set_piece_bytes(comm, -8);
  mk_status st = mt_comm_broadcast(comm, &a, 0, stream);
  if (st == MK_OK) st = mk_stream_sync(stream, false);
  ck_assert_msg(st == MK_ERR_COMM, "got %s", mk_status_name(st));
  const char *said = b.ctx.error.message;
  ck_assert_msg(strstr(said, "broadcast on ep failed: MPI_ERR_COUNT") != NULL, "said: %s", said);
  mk_error_clear(&b.ctx);
  mk_stream_destroy(stream);
  test_bench_close(&b);
}

/* MPI only. The other communicators of the mesh are healthy; the mesh as a whole is not. */
START_TEST(a_call_that_does_not_start_closes_its_communicator) {
  fixture *f = fx();
  mt_comm *world = fx_comm(FX_WORLD);
  mt_mesh_config config = {.ep = world->size, .pp = 1, .experts = world->size};
  mt_mesh *mesh = NULL;
  if (strcmp(world->ops->name, "mpi") != 0) return;
  fx_ok(mt_mesh_create(&f->ctx, world, &config, &mesh), "mesh");
  fx_ok(mt_mesh_poll(mesh), "a healthy mesh");
  refuse_start(mesh->ep);
  fx_ok(mt_comm_poll(mesh->dense), "another communicator");
  ck_assert_int_eq(mt_comm_poll(mesh->ep), MK_ERR_COMM);
  mk_error_clear(&f->ctx);
  ck_assert_int_eq(mt_mesh_poll(mesh), MK_ERR_COMM);
  ck_assert_msg(strstr(f->ctx.error.message, "on ep: an earlier call on it failed") != NULL, "said: %s",
                f->ctx.error.message);
  mk_error_clear(&f->ctx);
  mt_mesh_destroy(mesh);
}
END_TEST

TCase *cases_fault(void) {
  TCase *tc = tcase_create("fault");
  tcase_add_test(tc, wrong_shapes_are_refused);
  tcase_add_test(tc, calls_and_payload_are_counted);
  tcase_add_test(tc, the_chosen_call_fails);
  tcase_add_test(tc, host_memory_failures_unwind);
  tcase_add_test(tc, different_row_counts_are_an_error_not_a_hang);
  tcase_add_test(tc, a_call_that_does_not_start_closes_its_communicator);
  return tc;
}
