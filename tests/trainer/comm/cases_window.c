/* Windows: stores into peers' memory, the ledger, refusal by budget on one rank. */
#include <stdio.h>
#include <string.h>

#include "tests/trainer/comm/comm_fixture.h"
#include "trainer/comm/shm.h"

enum { SLOT_BYTES = 4096 };

typedef struct put_args {
  mt_window *window;
  int rank, round;
} put_args;

static unsigned char stamp(int from, int to, int round) { return (unsigned char)(1 + from * 50 + to * 7 + round * 3); }

/* Writes the own slot of every peer. */
static mk_status put_call(mk_stream *s, const void *args) {
  const put_args *a = args;
  (void)s;
  for (int r = 0; r < a->window->comm->size; r++) {
    char *peer = a->window->peer_base[r];
    memset(peer + a->rank * SLOT_BYTES, stamp(a->rank, r, a->round), SLOT_BYTES);
  }
  return MK_OK;
}

/* Own memory holds what every rank stamped in this round. */
static mk_status check_call(mk_stream *s, const void *args) {
  const put_args *a = args;
  for (int r = 0; r < a->window->comm->size; r++) {
    const unsigned char *slot = (const unsigned char *)a->window->base + r * SLOT_BYTES;
    for (int i = 0; i < SLOT_BYTES; i++) {
      unsigned char want = stamp(r, a->rank, a->round);
      MK_CHECK(s->dev->ctx, slot[i] == want, MK_ERR_MISMATCH, "slot of rank %d byte %d: %d, expected %d", r, i, slot[i],
               want);
    }
  }
  return MK_OK;
}

START_TEST(stores_reach_the_peers) {
  mt_comm *comm = fx_comm(_i);
  test_bench b;
  fx_bench_open(&b);
  mt_window *window = NULL;
  size_t bytes = (size_t)comm->size * SLOT_BYTES;
  fx_ok(mt_window_create(comm, b.dev, bytes, &window), "window_create");
  ck_assert(mt_window_shared(window)); /* all ranks of a test are on one machine */
  ck_assert_ptr_eq(window->peer_base[comm->rank], window->base);
  ck_assert_uint_eq((uintptr_t)window->base % 64, 0);
  ck_assert_uint_eq(b.dev->used_bytes[MK_MEM_COMM], bytes);
  for (int round = 0; round < 10; round++) {
    put_args args = {.window = window, .rank = comm->rank, .round = round};
    test_ok(&b, mk_stream_call(b.stream, put_call, &args, sizeof args), "put");
    fx_ok(mt_comm_barrier(comm, b.stream), "barrier");
    test_ok(&b, mk_stream_call(b.stream, check_call, &args, sizeof args), "check");
    fx_ok(mt_comm_barrier(comm, b.stream), "barrier");
  }
  test_ok(&b, mk_stream_sync(b.stream, false), "windows");
  mt_window_destroy(window);
  mt_window_destroy(NULL);
  ck_assert_uint_eq(b.dev->used_bytes[MK_MEM_COMM], 0);
  test_bench_close(&b);
}
END_TEST

/* The budget of the last rank is too small: no rank gets a window, none hangs, nothing is lost. */
START_TEST(one_refusal_is_everyones) {
  mt_comm *comm = fx_comm(FX_WORLD);
  bool small = comm->rank == comm->size - 1;
  mk_context ctx = {.rank = comm->rank};
  mk_device *dev = NULL;
  mt_window *window = NULL;
  mk_device_config config = {.name = fx()->device, .threads = 1, .budget_bytes = small ? 1000 : 0};
  fx_ok(mk_device_create(&ctx, &config, &dev), "device");
  long long live = fx()->ctx.heap_live;
  ck_assert_int_eq(mt_window_create(comm, dev, 100000, &window), MK_ERR_MEMORY);
  ck_assert_ptr_null(window);
  ck_assert_int_eq(fx()->ctx.heap_live, live);
  ck_assert_uint_eq(dev->used_bytes[MK_MEM_COMM], 0);
  const char *message = small ? ctx.error.message : fx()->ctx.error.message;
  char other[32];
  snprintf(other, sizeof other, "rank %d could not", comm->size - 1); /* NCCL: "another rank could not" */
  if (strcmp(comm->ops->name, "mpi") != 0) snprintf(other, sizeof other, "rank could not");
  ck_assert_msg(strstr(message, small ? "budget" : other) != NULL, "said: %s", message);
  mk_error_clear(&fx()->ctx);
  mk_device_destroy(dev);
}
END_TEST

/* More than /dev/shm has: refused at creation with numbers and remedy, not by SIGBUS at the first store. */
START_TEST(shared_memory_shortage_is_refused) {
  mt_comm *comm = fx_comm(FX_WORLD);
  if (strcmp(comm->ops->name, "mpi") != 0) return;
  test_bench b;
  fx_bench_open(&b);
  mt_window *window = NULL;
  size_t bytes = mt_shm_free_bytes() / (size_t)comm->size + (64u << 20);
  ck_assert_int_eq(mt_window_create(comm, b.dev, bytes, &window), MK_ERR_MEMORY);
  ck_assert_msg(strstr(fx()->ctx.error.message, "--shm-size") != NULL, "said: %s", fx()->ctx.error.message);
  mk_error_clear(&fx()->ctx);
  ck_assert_uint_eq(b.dev->used_bytes[MK_MEM_COMM], 0);
  test_bench_close(&b);
}
END_TEST

START_TEST(an_empty_window_is_refused) {
  mt_window *window = NULL;
  ck_assert_int_eq(mt_window_create(fx_comm(FX_WORLD), NULL, 0, &window), MK_ERR_ARG);
  mk_error_clear(&fx()->ctx);
}
END_TEST

TCase *cases_window(void) {
  TCase *tc = tcase_create("window");
  tcase_add_loop_test(tc, stores_reach_the_peers, 0, FX_VARIANTS);
  tcase_add_test(tc, one_refusal_is_everyones);
  tcase_add_test(tc, shared_memory_shortage_is_refused);
  tcase_add_test(tc, an_empty_window_is_refused);
  return tc;
}
