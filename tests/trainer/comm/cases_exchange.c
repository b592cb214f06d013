/* all_to_all, all_to_all_v, send and recv. */
#include "tests/trainer/comm/comm_fixture.h"

START_TEST(all_to_alls) {
  static const int64_t counts[] = {0, 1, 7, 5000};
  mt_comm *comm = fx_comm(_i);
  for (int c = 0; c < 4; c++) {
    int64_t n = fx_count(_i, counts[c]);
    test_bench b;
    fx_bench_open(&b);
    mk_tensor send = fx_tensor(&b, "send", MK_F32, n * comm->size, comm->rank, 0);
    mk_tensor recv = test_output(&b, "recv", mk_tensor_1d(MK_F32, n * comm->size));
    fx_ok(mt_comm_all_to_all(comm, &send, &recv, b.stream), "all_to_all");
    for (int64_t i = 0; i < n * comm->size; i++)
      fx_want()[i] = fx_value((int)(i / n), comm->rank * n + i % n);
    fx_expect(&b, &recv, fx_want(), "all_to_all", _i);
    test_bench_close(&b);
  }
}
END_TEST

/* Rows from rank `from` to rank `to`: 0 = mixed with zeros, 1 = none at all, 2 = all to rank 0, 3 = only own. */
enum { PATTERNS = 4, WIDTH = 3, SPARE_ROWS = 2 };

static int64_t rows_between(int pattern, int from, int to) {
  switch (pattern) {
    case 0:
      return (from * 3 + to * 5 + 1) % 4;
    case 1:
      return 0;
    case 2:
      return to == 0 ? 100 + from : 0;
    default:
      return from == to ? 5 : 0;
  }
}

/* First row of the part of rank `from` that goes to rank `to`. */
static int64_t first_row(int pattern, int from, int to) {
  int64_t row = 0;
  for (int r = 0; r < to; r++)
    row += rows_between(pattern, from, r);
  return row;
}

static mk_tensor as_rows(const mk_tensor *t) { return mk_tensor_as_2d(t, mk_tensor_count(t) / WIDTH, WIDTH); }

/* The tensors have spare rows, which must stay as they are. */
static void check_all_to_all_v(int variant, int pattern) {
  mt_comm *comm = fx_comm(variant);
  int64_t send_rows[MT_MAX_RANKS], recv_rows[MT_MAX_RANKS], n_send = 0, n_recv = 0;
  for (int r = 0; r < comm->size; r++) {
    n_send += send_rows[r] = rows_between(pattern, comm->rank, r);
    n_recv += recv_rows[r] = rows_between(pattern, r, comm->rank);
  }
  test_bench b;
  fx_bench_open(&b);
  mk_tensor send = fx_tensor(&b, "send", MK_BF16, (n_send + SPARE_ROWS) * WIDTH, comm->rank, 0);
  mk_tensor recv = fx_tensor(&b, "recv", MK_BF16, (n_recv + SPARE_ROWS) * WIDTH, 0, 1);
  mk_tensor from = as_rows(&send), to = as_rows(&recv);
  double *want = fx_want();
  int64_t at = 0;
  for (int r = 0; r < comm->size; r++) {
    int64_t first = first_row(pattern, r, comm->rank) * WIDTH;
    for (int64_t i = 0; i < recv_rows[r] * WIDTH; i++)
      want[at++] = fx_value(r, first + i);
  }
  for (; at < mk_tensor_count(&recv); at++)
    want[at] = fx_value(0, 1 + at);
  fx_ok(mt_comm_all_to_all_v(comm, &from, send_rows, &to, recv_rows, b.stream), "all_to_all_v");
  for (int r = 0; r < comm->size; r++)
    send_rows[r] = recv_rows[r] = -1; /* counts were copied at the call */
  fx_expect(&b, &recv, want, "all_to_all_v", variant);
  test_bench_close(&b);
}

START_TEST(all_to_all_vs) {
  for (int pattern = 0; pattern < PATTERNS; pattern++)
    check_all_to_all_v(_i, pattern);
}
END_TEST

/* More calls than there are lists in flight. */
START_TEST(many_calls_in_flight) {
  enum { CALLS = 300 };
  mt_comm *comm = fx_comm(_i);
  int64_t rows[MT_MAX_RANKS];
  for (int r = 0; r < comm->size; r++)
    rows[r] = 1;
  test_bench b;
  fx_bench_open(&b);
  mk_tensor send = fx_tensor(&b, "send", MK_I32, CALLS * comm->size, comm->rank, 0);
  mk_tensor recv = test_output(&b, "recv", mk_tensor_1d(MK_I32, CALLS * comm->size));
  for (int i = 0; i < CALLS; i++) {
    mk_tensor from = mk_tensor_slice(&send, i * comm->size, comm->size);
    mk_tensor to = mk_tensor_slice(&recv, i * comm->size, comm->size);
    fx_ok(mt_comm_all_to_all_v(comm, &from, rows, &to, rows, b.stream), "all_to_all_v");
  }
  for (int i = 0; i < CALLS * comm->size; i++) {
    fx_want()[i] = fx_value(i % comm->size, i / comm->size * comm->size + comm->rank);
  }
  fx_expect(&b, &recv, fx_want(), "all_to_all_v", _i);
  test_bench_close(&b);
}
END_TEST

/* Round the ring: everyone sends before it receives, which only a group can do with long messages. */
START_TEST(ring_in_a_group) {
  static const int64_t counts[] = {0, 1, 33, 60000};
  mt_comm *comm = fx_comm(_i);
  int next = (comm->rank + 1) % comm->size, previous = (comm->rank + comm->size - 1) % comm->size;
  for (int c = 0; c < 4; c++) {
    int64_t n = fx_count(_i, counts[c]);
    test_bench b;
    fx_bench_open(&b);
    mk_tensor send = fx_tensor(&b, "send", MK_F64, n, comm->rank, 0);
    mk_tensor recv = test_output(&b, "recv", mk_tensor_1d(MK_F64, n));
    fx_ok(mt_comm_group_begin(comm), "group_begin");
    fx_ok(mt_comm_send(comm, &send, next, b.stream), "send");
    fx_ok(mt_comm_recv(comm, &recv, previous, b.stream), "recv");
    fx_ok(mt_comm_group_end(comm, b.stream), "group_end");
    for (int64_t i = 0; i < n; i++)
      fx_want()[i] = fx_value(previous, i);
    fx_expect(&b, &recv, fx_want(), "ring", _i);
    test_bench_close(&b);
  }
}
END_TEST

/* Messages of one pair arrive in the order sent, whether an end groups them or not, and however they are cut. */
START_TEST(order_of_one_pair) {
  enum { MESSAGES = 5 };
  mt_comm *comm = fx_comm(_i);
  if (comm->size < 2 || comm->rank > 1) return;
  bool sender = comm->rank == 0;
  for (int grouped = 0; grouped < 4; grouped++) {
    bool in_group = sender ? (grouped & 1) != 0 : (grouped & 2) != 0;
    test_bench b;
    fx_bench_open(&b);
    mk_tensor t = fx_tensor(&b, "buffer", MK_F32, 100 * MESSAGES, comm->rank, 0);
    if (in_group) fx_ok(mt_comm_group_begin(comm), "group_begin");
    for (int m = 0; m < MESSAGES; m++) {
      int64_t first = m * (m - 1) / 2 * 20, n = m * 20; /* 0, 20, 40, ... elements */
      mk_tensor part = mk_tensor_slice(&t, first, n);
      fx_ok(sender ? mt_comm_send(comm, &part, 1, b.stream) : mt_comm_recv(comm, &part, 0, b.stream), "message");
    }
    if (in_group) fx_ok(mt_comm_group_end(comm, b.stream), "group_end");
    for (int64_t i = 0; i < 100 * MESSAGES; i++)
      fx_want()[i] = fx_value(i < 200 ? 0 : comm->rank, i);
    fx_expect(&b, &t, fx_want(), "messages", _i);
    test_bench_close(&b);
  }
}
END_TEST

TCase *cases_exchange(void) {
  TCase *tc = tcase_create("exchange");
  tcase_add_loop_test(tc, all_to_alls, 0, FX_VARIANTS);
  tcase_add_loop_test(tc, all_to_all_vs, 0, FX_VARIANTS);
  tcase_add_loop_test(tc, many_calls_in_flight, 0, FX_VARIANTS);
  tcase_add_loop_test(tc, ring_in_a_group, 0, FX_VARIANTS);
  tcase_add_loop_test(tc, order_of_one_pair, 0, FX_VARIANTS);
  return tc;
}
