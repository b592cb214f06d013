/* cpu_async: order within a stream, events across streams, faults that arrive later, a full ring, a missing wait. */
#include "kernels/base/heap.h"
#include "tests/support/bench.h"
#include "tests/support/check_main.h"

typedef struct pair {
  test_bench b;
  mk_stream *second;
  mk_event *event;
  mk_tensor x, y;
} pair;

static void open_pair(pair *p, uint64_t seed) {
  mk_device_config config = {.name = "cpu_async", .threads = 1, .seed = seed};
  test_bench_open(&p->b, &config, seed, false);
  test_ok(&p->b, mk_stream_create(p->b.dev, "second", &p->second), "stream");
  test_ok(&p->b, mk_event_create(p->b.dev, &p->event), "event");
  p->x = test_constant(&p->b, "x", TEST_INOUT, mk_tensor_1d(MK_F32, 16), 0);
  p->y = test_output(&p->b, "y", mk_tensor_1d(MK_F32, 16));
}

static void close_pair(pair *p) {
  mk_event_destroy(p->event);
  mk_stream_destroy(p->second);
  test_bench_close(&p->b);
}

static double first_of(pair *p, const mk_tensor *t) {
  double value[16];
  test_read(&p->b, t, value);
  return value[0];
}

/* x = x + 1 on the first stream, y = x on the second; with the event y is what x became, whatever the delays. */
static int stale_reads(bool wait, int rounds) {
  pair p;
  int stale = 0;
  open_pair(&p, 11);
  const double one[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  mk_tensor ones = test_values(&p.b, "ones", TEST_IN, mk_tensor_1d(MK_F32, 16), one);
  for (int i = 1; i <= rounds; i++) {
    mk_add_args add = {.a = p.x, .b = ones, .y = p.x};
    test_ok(&p.b, mk_add(p.b.stream, &add), "add");
    test_ok(&p.b, mk_event_record(p.event, p.b.stream), "record");
    if (wait) test_ok(&p.b, mk_stream_wait(p.second, p.event), "wait");
    test_ok(&p.b, mk_copy_d2d(p.second, &p.y, &p.x), "copy");
    test_ok(&p.b, mk_stream_sync(p.second, false), "sync");
    test_ok(&p.b, mk_stream_sync(p.b.stream, false), "sync");
    stale += first_of(&p, &p.y) != i;
  }
  close_pair(&p);
  return stale;
}

START_TEST(a_wait_orders_streams) { ck_assert_int_eq(stale_reads(true, 40), 0); }
END_TEST

START_TEST(a_missing_wait_shows) { ck_assert_int_gt(stale_reads(false, 40), 0); }
END_TEST

typedef struct append_args {
  int *list, *count;
  int value;
} append_args;

static mk_status append(mk_stream *stream, const void *args) {
  const append_args *a = args;
  (void)stream;
  a->list[(*a->count)++] = a->value;
  return MK_OK;
}

/* Far more items than the ring holds: the host blocks, nothing is lost or changes places. */
START_TEST(a_full_ring_blocks) {
  enum { ITEMS = 300 };
  pair p;
  int list[ITEMS], count = 0;
  open_pair(&p, 3);
  for (int i = 0; i < ITEMS; i++) {
    append_args args = {list, &count, i};
    test_ok(&p.b, mk_stream_call(p.b.stream, append, &args, sizeof args), "call");
  }
  test_ok(&p.b, mk_stream_sync(p.b.stream, false), "sync");
  ck_assert_int_eq(count, ITEMS);
  for (int i = 0; i < ITEMS; i++)
    ck_assert_int_eq(list[i], i);
  close_pair(&p);
}
END_TEST

/* The launch succeeds; poll names the op; later items are skipped, but events pass, so that nobody hangs. */
START_TEST(faults_arrive_later) {
  pair p;
  const double ids[] = {0, 99};
  open_pair(&p, 5);
  mk_embedding_fwd_args bad = {.ids = test_values(&p.b, "ids", TEST_IN, mk_tensor_1d(MK_I32, 2), ids),
                               .table = test_random(&p.b, "table", TEST_IN, mk_tensor_2d(MK_F32, 3, 4), 0, 1),
                               .y = test_output(&p.b, "rows", mk_tensor_2d(MK_F32, 2, 4)),
                               .scale = 1};
  int list[1], count = 0;
  append_args later = {list, &count, 1};
  test_ok(&p.b, mk_device_poll(p.b.dev), "poll");
  test_ok(&p.b, mk_embedding_fwd(p.b.stream, &bad), "launch");
  test_ok(&p.b, mk_stream_call(p.b.stream, append, &later, sizeof later), "call");
  test_ok(&p.b, mk_event_record(p.event, p.b.stream), "record");
  test_ok(&p.b, mk_stream_wait(p.second, p.event), "wait");
  test_ok(&p.b, mk_stream_sync(p.second, false), "the second stream is healthy");
  test_ok(&p.b, mk_event_sync(p.event, false), "event");
  ck_assert_int_eq(count, 0);
  ck_assert_int_eq(mk_device_poll(p.b.dev), MK_ERR_ARG);
  ck_assert_ptr_nonnull(strstr(p.b.ctx.error.message, "embedding_fwd on stream 'test' failed"));
  ck_assert_ptr_nonnull(strstr(p.b.ctx.error.message, "id 99"));
  ck_assert_int_eq(mk_stream_sync(p.b.stream, false), MK_ERR_ARG);
  mk_error_clear(&p.b.ctx);
  mk_event_destroy(p.event); /* the stream is lost, so are canaries and values: only the leaks are checked */
  mk_stream_destroy(p.second);
  for (int i = 0; i < p.b.n_tensors; i++) {
    mk_device_free(p.b.dev, MK_MEM_WORKSPACE, p.b.tensors[i].block, p.b.tensors[i].block_bytes);
  }
  mk_stream_destroy(p.b.stream);
  mk_device_destroy(p.b.dev);
  ck_assert_int_eq(p.b.ctx.heap_live, 0);
}
END_TEST

/* A wait takes the record issued before it; a later record on a blocked stream must not hold it back. */
START_TEST(a_wait_ignores_later_records) {
  pair p;
  open_pair(&p, 7);
  test_ok(&p.b, mk_event_record(p.event, p.b.stream), "record 1");
  test_ok(&p.b, mk_stream_wait(p.second, p.event), "wait for record 1");
  test_ok(&p.b, mk_event_record(p.event, p.second), "record 2, behind the wait");
  test_ok(&p.b, mk_stream_sync(p.second, false), "sync");
  mk_event *never = NULL;
  test_ok(&p.b, mk_event_create(p.b.dev, &never), "event");
  test_ok(&p.b, mk_stream_wait(p.second, never), "wait for nothing");
  test_ok(&p.b, mk_stream_sync(p.second, false), "sync");
  mk_event_destroy(never);
  close_pair(&p);
}
END_TEST

START_TEST(elapsed_time) {
  pair p;
  mk_event *begin = NULL;
  double seconds = -1;
  open_pair(&p, 9);
  test_ok(&p.b, mk_event_create(p.b.dev, &begin), "event");
  ck_assert_int_eq(mk_event_elapsed_s(begin, p.event, &seconds), MK_ERR_ARG);
  mk_error_clear(&p.b.ctx);
  test_ok(&p.b, mk_event_record(begin, p.b.stream), "record");
  for (int i = 0; i < 5; i++)
    test_ok(&p.b, mk_fill(p.b.stream, &p.x, 0), "fill");
  test_ok(&p.b, mk_event_record(p.event, p.b.stream), "record");
  test_ok(&p.b, mk_event_elapsed_s(begin, p.event, &seconds), "elapsed");
  ck_assert(seconds > 0 && seconds < 10);
  mk_event_destroy(begin);
  close_pair(&p);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("cpu_async");
  TCase *tcase = test_case(suite, "cpu_async", 60);
  tcase_add_test(tcase, a_wait_orders_streams);
  tcase_add_test(tcase, a_missing_wait_shows);
  tcase_add_test(tcase, a_full_ring_blocks);
  tcase_add_test(tcase, faults_arrive_later);
  tcase_add_test(tcase, a_wait_ignores_later_records);
  tcase_add_test(tcase, elapsed_time);
  return test_main(suite);
}
