/* Row exchange: what put writes, get fetches and sum adds; dropped routes come back as zeros; rows that nobody names
 * stay untouched; cpu and reference kernels agree byte for byte, sums to rounding. The peers' buffers are two tensors
 * of one device. */
#include <math.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "tests/support/bench.h"
#include "tests/support/check_main.h"

enum { TOKENS = 7, TOP_K = 3, ROUTES = TOKENS * TOP_K, ROWS = 16, WIDTH = 33, PEERS = 2, OFFSET_ROWS = 2 };

/* Routes to distinct places; route 4 and the last one are dropped. */
static void make_routes(double rank[ROUTES], double row[ROUTES]) {
  for (int r = 0; r < ROUTES; r++) {
    bool dropped = r == 4 || r == ROUTES - 1;
    rank[r] = dropped ? -1 : r % PEERS;
    row[r] = dropped ? -1 : (r / PEERS * 5 + 3) % ROWS; /* 5 and 16 share no factor: all different */
  }
}

typedef struct result {
  float peer[PEERS][(ROWS + OFFSET_ROWS) * WIDTH];
  float out[ROUTES * WIDTH];
} result;

typedef enum mode { PER_TOKEN, PER_ROUTE, WEIGHTED, MODES } mode;

/* y[t] = sum over k of what get fetched, + add; y lies over add. */
static void check_sum(test_bench *b, const char *device, const mk_row_routes *routes, const float *out) {
  double before[TOKENS * WIDTH], after[TOKENS * WIDTH];
  mk_tensor y = test_random(b, "y", TEST_INOUT, mk_tensor_2d(MK_F32, TOKENS, WIDTH), 0, 1);
  test_read(b, &y, before);
  test_ok(b, mk_row_sum(b->stream, &(mk_row_sum_args){.routes = *routes, .add = y, .y = y}), "sum");
  test_read(b, &y, after);
  for (int i = 0; i < TOKENS * WIDTH; i++) {
    double expected = before[i];
    for (int k = 0; k < TOP_K; k++)
      expected += (double)out[(i / WIDTH * TOP_K + k) * WIDTH + i % WIDTH];
    ck_assert_msg(fabs(after[i] - expected) <= 1e-6, "row_sum %s f32 seed 3 token %d column %d: expected %g got %g",
                  device, i / WIDTH, i % WIDTH, expected, after[i]);
  }
}

static void exchange(const char *device, mode how, result *got) {
  bool per_route = how == PER_ROUTE;
  const mk_device_config config = {.name = device, .threads = 2};
  double rank[ROUTES], row[ROUTES], bases[PEERS];
  test_bench b;
  mk_tensor peer[PEERS];
  make_routes(rank, row);
  test_bench_open(&b, &config, 3, false);
  for (int p = 0; p < PEERS; p++) {
    peer[p] = test_constant(&b, p == 0 ? "peer0" : "peer1", TEST_INOUT, mk_tensor_2d(MK_F32, ROWS + OFFSET_ROWS, WIDTH),
                            -1.0);
    bases[p] = (double)(intptr_t)peer[p].data; /* below 2^53 on this platform */
  }
  mk_row_routes routes = {.rank = test_values(&b, "rank", TEST_IN, mk_tensor_2d(MK_I32, TOKENS, TOP_K), rank),
                          .row = test_values(&b, "row", TEST_IN, mk_tensor_2d(MK_I32, TOKENS, TOP_K), row),
                          .peers = test_values(&b, "peers", TEST_IN, mk_tensor_1d(MK_I64, PEERS), bases),
                          .offset = (int64_t)(OFFSET_ROWS * WIDTH * sizeof(float)),
                          .rows = ROWS};
  mk_tensor x = test_random(&b, "x", TEST_IN, mk_tensor_2d(MK_F32, per_route ? ROUTES : TOKENS, WIDTH), 0, 1);
  mk_tensor out = test_output(&b, "out", mk_tensor_2d(MK_F32, ROUTES, WIDTH));
  mk_tensor weights = test_random(&b, "weights", TEST_IN, mk_tensor_2d(MK_F32, TOKENS, TOP_K), 0, 1);
  mk_row_put_args put = {.x = x, .routes = routes};
  if (how == WEIGHTED) put.weights = weights;
  test_ok(&b, mk_row_put(b.stream, &put), "put");
  test_ok(&b, mk_row_get(b.stream, &(mk_row_get_args){.routes = routes, .out = out}), "get");
  for (int p = 0; p < PEERS; p++)
    test_read_bytes(&b, &peer[p], got->peer[p]);
  test_read_bytes(&b, &out, got->out);
  double values[ROUTES * WIDTH], weight[ROUTES];
  test_read(&b, &x, values);
  test_read(&b, &weights, weight);
  for (int r = 0; r < ROUTES; r++) {
    for (int c = 0; c < WIDTH; c++) {
      double expected = rank[r] < 0 ? 0 : values[(per_route ? r : r / TOP_K) * WIDTH + c];
      if (how == WEIGHTED) expected *= weight[r];
      ck_assert_msg(got->out[r * WIDTH + c] == (float)expected,
                    "row_get %s f32 seed 3 route %d column %d: expected %g got %g", device, r, c, expected,
                    (double)got->out[r * WIDTH + c]);
    }
  }
  for (int p = 0; p < PEERS; p++) { /* rows before the offset belong to something else */
    for (int i = 0; i < OFFSET_ROWS * WIDTH; i++)
      ck_assert(got->peer[p][i] == -1.0f);
  }
  check_sum(&b, device, &routes, got->out);
  test_bench_close(&b);
}

START_TEST(rows_arrive_and_come_back) {
  result *cpu = NULL, *ref = NULL;
  mk_context ctx = {0};
  ck_assert_int_eq(mk_heap_alloc(&ctx, sizeof *cpu, &cpu), MK_OK);
  ck_assert_int_eq(mk_heap_alloc(&ctx, sizeof *ref, &ref), MK_OK);
  exchange("cpu", (mode)_i, cpu);
  exchange("ref", (mode)_i, ref);
  ck_assert(memcmp(cpu, ref, sizeof *cpu) == 0);
  mk_heap_free(&ctx, ref);
  mk_heap_free(&ctx, cpu);
}
END_TEST

START_TEST(a_row_outside_the_buffer_is_refused) {
  const mk_device_config config = {.name = "cpu", .threads = 1};
  double rank = 0, row = ROWS, base = 0;
  test_bench b;
  test_bench_open(&b, &config, 3, false);
  mk_row_routes routes = {.rank = test_values(&b, "rank", TEST_IN, mk_tensor_2d(MK_I32, 1, 1), &rank),
                          .row = test_values(&b, "row", TEST_IN, mk_tensor_2d(MK_I32, 1, 1), &row),
                          .peers = test_values(&b, "peers", TEST_IN, mk_tensor_1d(MK_I64, 1), &base),
                          .rows = ROWS};
  mk_tensor x = test_random(&b, "x", TEST_IN, mk_tensor_2d(MK_F32, 1, WIDTH), 0, 1);
  ck_assert_int_eq(mk_row_put(b.stream, &(mk_row_put_args){.x = x, .routes = routes}), MK_ERR_ARG);
  ck_assert_ptr_nonnull(strstr(b.ctx.error.message, "entry 0 of row is 16"));
  mk_error_clear(&b.ctx);
  test_bench_close(&b);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("row_exchange");
  TCase *tc = tcase_create("two peers");
  tcase_add_loop_test(tc, rows_arrive_and_come_back, 0, MODES);
  tcase_add_test(tc, a_row_outside_the_buffer_is_refused);
  suite_add_tcase(s, tc);
  return s;
}

int main(void) { return test_main(suite()); }
