/* all_reduce, all_gather, reduce_scatter, broadcast, barrier: exact values, bits, zero counts, in place and not. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "kernels/base/rng.h"
#include "tests/trainer/comm/comm_fixture.h"

static const mk_dtype dtypes[] = {MK_F32, MK_BF16, MK_F64, MK_I32, MK_I64};
static const int64_t counts[] = {0, 1, 5, 1000, 20000};

enum { N_DTYPES = 5, N_COUNTS = 5 };

/* Elements [first, first + n) of the reduction over ranks. */
static double *reduced(const mt_comm *comm, mt_reduce op, int64_t first, int64_t n) {
  double *want = fx_want();
  for (int64_t i = 0; i < n; i++) {
    want[i] = fx_value(0, first + i);
    for (int r = 1; r < comm->size; r++) {
      double x = fx_value(r, first + i);
      want[i] = op == MT_SUM ? want[i] + x : fmax(want[i], x);
    }
  }
  return want;
}

static void check_all_reduce(int variant, mk_dtype dtype, mt_reduce op, int64_t n) {
  mt_comm *comm = fx_comm(variant);
  test_bench b;
  fx_bench_open(&b);
  mk_tensor send = fx_tensor(&b, "send", dtype, n, comm->rank, 0);
  mk_tensor recv = test_output(&b, "recv", mk_tensor_1d(dtype, n));
  fx_ok(mt_comm_all_reduce(comm, &send, &recv, op, b.stream), "all_reduce");
  fx_expect(&b, &recv, reduced(comm, op, 0, n), "all_reduce", variant);
  fx_ok(mt_comm_all_reduce(comm, &send, &send, op, b.stream), "all_reduce in place");
  fx_expect(&b, &send, reduced(comm, op, 0, n), "all_reduce in place", variant);
  test_bench_close(&b);
}

static void check_reduce_scatter(int variant, mk_dtype dtype, mt_reduce op, int64_t n) {
  mt_comm *comm = fx_comm(variant);
  test_bench b;
  fx_bench_open(&b);
  int64_t first = comm->rank * n;
  mk_tensor send = fx_tensor(&b, "send", dtype, comm->size * n, comm->rank, 0);
  mk_tensor recv = test_output(&b, "recv", mk_tensor_1d(dtype, n));
  fx_ok(mt_comm_reduce_scatter(comm, &send, &recv, op, b.stream), "reduce_scatter");
  fx_expect(&b, &recv, reduced(comm, op, first, n), "reduce_scatter", variant);
  mk_tensor own = mk_tensor_slice(&send, first, n);
  fx_ok(mt_comm_reduce_scatter(comm, &send, &own, op, b.stream), "reduce_scatter in place");
  fx_expect(&b, &own, reduced(comm, op, first, n), "reduce_scatter in place", variant);
  test_bench_close(&b);
}

static void check_all_gather(int variant, mk_dtype dtype, int64_t n) {
  mt_comm *comm = fx_comm(variant);
  test_bench b;
  fx_bench_open(&b);
  mk_tensor send = fx_tensor(&b, "send", dtype, n, comm->rank, 0);
  mk_tensor recv = test_output(&b, "recv", mk_tensor_1d(dtype, n * comm->size));
  mk_tensor inplace = fx_tensor(&b, "inplace", dtype, n * comm->size, comm->rank, -comm->rank * n + 11 * 10000);
  double *want = fx_want();
  fx_ok(mt_comm_all_gather(comm, &send, &recv, b.stream), "all_gather");
  for (int64_t i = 0; i < n * comm->size; i++)
    want[i] = fx_value((int)(i / n), i % n);
  fx_expect(&b, &recv, want, "all_gather", variant);
  mk_tensor own = mk_tensor_slice(&inplace, comm->rank * n, n);
  fx_ok(mt_comm_all_gather(comm, &own, &inplace, b.stream), "all_gather in place");
  for (int64_t i = 0; i < n * comm->size; i++)
    want[i] = fx_value((int)(i / n), i % n + 11 * 10000);
  fx_expect(&b, &inplace, want, "all_gather in place", variant);
  test_bench_close(&b);
}

START_TEST(reductions) {
  int variant = _i / N_DTYPES;
  mk_dtype dtype = dtypes[_i % N_DTYPES];
  for (int c = 0; c < N_COUNTS; c++) {
    int64_t n = fx_count(variant, counts[c]);
    check_all_reduce(variant, dtype, MT_SUM, n);
    check_all_reduce(variant, dtype, MT_MAX, n);
    check_reduce_scatter(variant, dtype, MT_SUM, n);
    check_reduce_scatter(variant, dtype, MT_MAX, n);
  }
}
END_TEST

START_TEST(gathers) {
  int variant = _i / N_DTYPES;
  for (int c = 0; c < N_COUNTS; c++)
    check_all_gather(variant, dtypes[_i % N_DTYPES], counts[c]);
}
END_TEST

START_TEST(broadcasts) {
  mt_comm *comm = fx_comm(_i);
  for (int root = 0; root < comm->size; root++) {
    for (int c = 0; c < N_COUNTS; c++) {
      test_bench b;
      fx_bench_open(&b);
      int64_t n = fx_count(_i, counts[c]);
      mk_tensor t = fx_tensor(&b, "buffer", MK_BF16, n, comm->rank, 0);
      fx_ok(mt_comm_broadcast(comm, &t, root, b.stream), "broadcast");
      for (int64_t i = 0; i < counts[c]; i++)
        fx_want()[i] = fx_value(root, i);
      fx_expect(&b, &t, fx_want(), "broadcast", _i);
      test_bench_close(&b);
    }
  }
}
END_TEST

/* Values whose sum depends on the order: sizes over ten powers of two. */
static float rough(int rank, int64_t i) {
  mk_rng_block draw = mk_rng_draw(7, MK_RNG_TEST, (uint32_t)rank, (uint64_t)i);
  return ldexpf(mk_rng_unit(draw.word[0]) - 0.5f, (int)(draw.word[1] % 10));
}

static void expect_bits(test_bench *b, const mk_tensor *t, const float *want, const char *what) {
  static float got[FX_MAX_ELEMENTS];
  int64_t n = mk_tensor_count(t);
  test_read_bytes(b, t, got);
  for (int64_t i = 0; i < n; i++) {
    ck_assert_msg(memcmp(&got[i], &want[i], sizeof got[i]) == 0, "%s n %lld rank %d index %lld: %a, expected %a", what,
                  (long long)n, fx()->ctx.rank, (long long)i, (double)got[i], (double)want[i]);
  }
}

/* The bits are those of the sum in rank order: in every rerun, for small and large calls, whole or cut, in place, and
 * for all_reduce as for reduce_scatter + all_gather. */
START_TEST(bits_are_those_of_rank_order) {
  static float want[FX_MAX_ELEMENTS], mine[FX_MAX_ELEMENTS];
  mt_comm *comm = fx_comm(_i);
  for (int64_t n = 8 * comm->size; n <= fx_count(_i, FX_MAX_ELEMENTS); n *= 9) {
    test_bench b;
    fx_bench_open(&b);
    for (int64_t i = 0; i < n; i++) {
      mine[i] = rough(comm->rank, i);
      want[i] = rough(0, i);
      for (int r = 1; r < comm->size; r++)
        want[i] += rough(r, i);
    }
    mk_tensor send = test_bytes(&b, "send", TEST_IN, mk_tensor_1d(MK_F32, n), mine);
    mk_tensor recv = test_output(&b, "recv", mk_tensor_1d(MK_F32, n));
    mk_tensor own = test_output(&b, "own", mk_tensor_1d(MK_F32, n / comm->size));
    for (int rerun = 0; rerun < 3; rerun++) {
      fx_ok(mt_comm_all_reduce(comm, &send, &recv, MT_SUM, b.stream), "all_reduce");
      expect_bits(&b, &recv, want, "all_reduce");
    }
    fx_ok(mt_comm_reduce_scatter(comm, &send, &own, MT_SUM, b.stream), "reduce_scatter");
    expect_bits(&b, &own, want + comm->rank * (n / comm->size), "reduce_scatter");
    fx_ok(mt_comm_all_gather(comm, &own, &recv, b.stream), "all_gather");
    expect_bits(&b, &recv, want, "reduce_scatter + all_gather");
    fx_ok(mt_comm_all_reduce(comm, &send, &send, MT_SUM, b.stream), "all_reduce in place");
    expect_bits(&b, &send, want, "all_reduce in place");
    test_bench_close(&b);
  }
}
END_TEST

START_TEST(barriers) {
  test_bench b;
  fx_bench_open(&b);
  for (int i = 0; i < 20; i++)
    fx_ok(mt_comm_barrier(fx_comm(_i), b.stream), "barrier");
  fx_ok(mk_stream_sync(b.stream, false), "barrier");
  fx_ok(mt_comm_poll(fx_comm(_i)), "poll");
  test_bench_close(&b);
}
END_TEST

/* A host that is up to 5 ms late, each rank at its own times. */
static void linger(int rank, int64_t i) {
  mk_rng_block draw = mk_rng_draw(9, MK_RNG_TEST, (uint32_t)rank, (uint64_t)i);
  struct timespec pause = {.tv_nsec = (long)(mk_rng_unit(draw.word[0]) * 5e6F)};
  nanosleep(&pause, NULL);
}

/* Two communicators on two streams (E-09): calls overlap in any way the delays of streams and hosts make, each
 * communicator keeps its order, and every call finds what its peers put in the same place of the order: neighbours hold
 * other values, so that two that changed places on one rank would give another sum. */
START_TEST(overlapping_streams_keep_their_order) {
  enum { CALLS = 1000, EVERY = 16 };
  mt_comm *one = fx_comm(FX_WORLD), *two = fx_comm(FX_REVERSED);
  test_bench b;
  fx_bench_open(&b);
  mk_stream *second = NULL;
  fx_ok(mk_stream_create(b.dev, "second", &second), "stream");
  mk_tensor a = fx_tensor(&b, "a", MK_I64, CALLS, one->rank, 0);
  mk_tensor c = fx_tensor(&b, "c", MK_I64, CALLS, two->rank, 0);
  for (int i = 0; i < CALLS; i++) {
    if (i % EVERY == 0) linger(one->rank, i);
    mk_tensor at_a = mk_tensor_slice(&a, i, 1), at_c = mk_tensor_slice(&c, i, 1);
    fx_ok(mt_comm_all_reduce(one, &at_a, &at_a, MT_SUM, b.stream), "first");
    fx_ok(mt_comm_all_reduce(two, &at_c, &at_c, MT_MAX, second), "second");
  }
  fx_ok(mk_stream_sync(b.stream, false), "first");
  fx_ok(mk_stream_sync(second, false), "second");
  fx_expect(&b, &a, reduced(one, MT_SUM, 0, CALLS), "first", FX_WORLD);
  fx_expect(&b, &c, reduced(two, MT_MAX, 0, CALLS), "second", FX_REVERSED);
  mk_stream_destroy(second);
  test_bench_close(&b);
}
END_TEST

TCase *cases_collective(void) {
  TCase *tc = tcase_create("collective");
  tcase_add_loop_test(tc, reductions, 0, FX_VARIANTS * N_DTYPES);
  tcase_add_loop_test(tc, gathers, 0, FX_VARIANTS * N_DTYPES);
  tcase_add_loop_test(tc, broadcasts, 0, FX_VARIANTS);
  tcase_add_loop_test(tc, bits_are_those_of_rank_order, 0, FX_VARIANTS);
  tcase_add_loop_test(tc, barriers, 0, FX_VARIANTS);
  tcase_add_test(tc, overlapping_streams_keep_their_order);
  return tc;
}
