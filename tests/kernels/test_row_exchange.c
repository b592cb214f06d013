/* Row exchange: conformance in every dtype; what put writes, get fetches and sum adds; dropped routes come back as
 * zeros; rows that nobody names stay untouched; refused routes. The peers' buffers are two tensors of one device. */
#include <math.h>
#include <string.h>

#include "tests/kernels/route_rows.h"
#include "tests/kernels/step_tensors.h"
#include "tests/support/check_main.h"
#include "tests/support/conformance.h"

enum { TOKENS = 7, TOP_K = 3, ROUTES = TOKENS * TOP_K, ROWS = 16, WIDTH = 33, PEERS = 2, OFFSET_ROWS = 2 };

typedef enum mode { PER_TOKEN, PER_ROUTE, WEIGHTED, MODES } mode;

/* ---- conformance ---- */

static int64_t peer_rows(const conf_point *p) { return p->dim[0] * p->dim[1] / PEERS + 4; }

/* Floats, or bytes of any value. */
static mk_tensor data_of(test_bench *b, const char *name, const conf_point *p, int64_t rows) {
  mk_tensor shape = mk_tensor_2d(p->dtype, rows, p->dim[2]);
  return p->dtype == MK_U8 ? test_integers(b, name, TEST_IN, shape, 0, 255)
                           : test_random(b, name, TEST_IN, shape, 0, 1);
}

/* Routes that alternate between the peers and are spread over their rows; some are dropped. */
static mk_row_routes routes_to(test_bench *b, const conf_point *p, const mk_tensor peer[PEERS]) {
  int64_t n = p->dim[0] * p->dim[1], rows = peer_rows(p), stride = rows % 7 == 0 ? 1 : 7, bases[PEERS];
  int32_t *rank = NULL, *row = NULL;
  test_ok(b, mk_heap_array(&b->ctx, (size_t)n, sizeof *rank, &rank), "staging");
  test_ok(b, mk_heap_array(&b->ctx, (size_t)n, sizeof *row, &row), "staging");
  for (int64_t r = 0; r < n; r++) {
    bool dropped = r % 5 == 1 || r % 11 == 0;
    rank[r] = dropped ? -1 : (int32_t)(r % PEERS);
    row[r] = dropped ? -1 : (int32_t)((r / PEERS * stride + 2) % rows);
  }
  for (int i = 0; i < PEERS; i++)
    bases[i] = (int64_t)(intptr_t)peer[i].data;
  size_t row_bytes = (size_t)p->dim[2] * mk_dtype_bytes(peer[0].dtype);
  mk_row_routes routes = {.rank = test_bytes(b, "rank", TEST_IN, mk_tensor_2d(MK_I32, p->dim[0], p->dim[1]), rank),
                          .row = test_bytes(b, "row", TEST_IN, mk_tensor_2d(MK_I32, p->dim[0], p->dim[1]), row),
                          .peers = test_bytes(b, "peers", TEST_IN, mk_tensor_1d(MK_I64, PEERS), bases),
                          .offset = (int64_t)(OFFSET_ROWS * row_bytes),
                          .rows = rows};
  mk_heap_free(&b->ctx, row);
  mk_heap_free(&b->ctx, rank);
  return routes;
}

/* Routes into buffers that hold data, or nothing yet. */
static mk_row_routes routes_over(test_bench *b, const conf_point *p, bool filled) {
  static const char *const names[PEERS] = {"peer0", "peer1"};
  mk_tensor peer[PEERS];
  int64_t rows = peer_rows(p) + OFFSET_ROWS;
  for (int i = 0; i < PEERS; i++)
    peer[i] =
        filled ? data_of(b, names[i], p, rows) : test_output(b, names[i], mk_tensor_2d(p->dtype, rows, p->dim[2]));
  return routes_to(b, p, peer);
}

/* dim: tokens, top-k, width; variant: PER_TOKEN or PER_ROUTE */
static mk_status launch_put(test_bench *b, const conf_point *p) {
  int64_t rows = p->variant == PER_ROUTE ? p->dim[0] * p->dim[1] : p->dim[0];
  mk_row_put_args a = {.x = data_of(b, "x", p, rows), .routes = routes_over(b, p, false)};
  return mk_row_put(b->stream, &a);
}

/* Weights that BF16 holds exactly: they are rounded to the rows' dtype, which the FP64 run must share. */
static mk_status launch_put_weighted(test_bench *b, const conf_point *p) {
  mk_row_put_args a = {.x = data_of(b, "x", p, p->dim[0]), .routes = routes_over(b, p, false)};
  a.weights = test_integers(b, "weights", TEST_IN, mk_tensor_2d(MK_F32, p->dim[0], p->dim[1]), 1, 255);
  return mk_row_put(b->stream, &a);
}

static mk_status launch_get(test_bench *b, const conf_point *p) {
  mk_row_get_args a = {.routes = routes_over(b, p, true)};
  a.out = test_output(b, "out", mk_tensor_2d(p->dtype, p->dim[0] * p->dim[1], p->dim[2]));
  return mk_row_get(b->stream, &a);
}

/* variant: add_rule */
static mk_status launch_sum(test_bench *b, const conf_point *p) {
  mk_row_sum_args a = {.routes = routes_over(b, p, true)};
  a.y = sum_output(b, "y", (add_rule)p->variant, data_of(b, "add", p, p->dim[0]), &a.add);
  return mk_row_sum(b->stream, &a);
}

/* No token, one, and more routes than three threads have pieces of work for. */
#define SHAPES {{0, 2, 8}, {1, 1, 1}, {7, 3, 33}, {750, 3, 33}, {5, 6, 2500}}, .n_shapes = 5
#define COPIED ((1u << MK_F32) | (1u << MK_BF16) | (1u << MK_U8)) /* byte for byte: the bounds are 0 */

static const conf_case cases[] = {
    {.name = "row_put", .launch = launch_put, .shapes = SHAPES, .variants = 2, .dtypes = COPIED},
    {.name = "row_put weighted",
     .launch = launch_put_weighted,
     .shapes = SHAPES,
     .nmse_f32 = CONF_ROUND_F32,
     .nmse_bf16 = CONF_ROUND_BF16},
    {.name = "row_get", .launch = launch_get, .shapes = SHAPES, .dtypes = COPIED},
    {.name = "row_sum",
     .launch = launch_sum,
     .shapes = SHAPES,
     .variants = ADDS,
     .nmse_f32 = 1e-14,
     .nmse_bf16 = CONF_ROUND_BF16},
};

CONF_TEST(cases)

/* ---- worked values ---- */

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

/* BF16: the weight 1 + 2^-8 is a tie and becomes 1, so the row stays 1.5; with the weight as it is, 1.505859375 would
 * become 1.5078125. */
START_TEST(put_rounds_the_weight_first) {
  const double x = 1.5, weight = 1 + 0x1p-8;
  const int32_t zero = 0;
  mk_device_config config = case_device(_i);
  test_bench b;
  double got = 0;
  test_bench_open(&b, &config, 3, false);
  mk_tensor one = mk_tensor_2d(MK_BF16, 1, 1), route = mk_tensor_2d(MK_I32, 1, 1);
  mk_tensor peer = test_output(&b, "peer", one);
  const int64_t base = (int64_t)(intptr_t)peer.data;
  mk_row_put_args a = {.x = test_values(&b, "x", TEST_IN, one, &x),
                       .routes = {.rank = test_bytes(&b, "rank", TEST_IN, route, &zero),
                                  .row = test_bytes(&b, "row", TEST_IN, route, &zero),
                                  .peers = test_bytes(&b, "peers", TEST_IN, mk_tensor_1d(MK_I64, 1), &base),
                                  .rows = 1},
                       .weights = test_values(&b, "weights", TEST_IN, mk_tensor_2d(MK_F32, 1, 1), &weight)};
  test_ok(&b, mk_row_put(b.stream, &a), "row_put");
  test_read(&b, &peer, &got);
  ck_assert_double_eq(got, 1.5);
  test_bench_close(&b);
}
END_TEST

static void expect_refused(double row, const char *message) {
  const mk_device_config config = {.name = "cpu", .threads = 1};
  double rank = 0, base = 0;
  test_bench b;
  test_bench_open(&b, &config, 3, false);
  mk_row_routes routes = {.rank = test_values(&b, "rank", TEST_IN, mk_tensor_2d(MK_I32, 1, 1), &rank),
                          .row = test_values(&b, "row", TEST_IN, mk_tensor_2d(MK_I32, 1, 1), &row),
                          .peers = test_values(&b, "peers", TEST_IN, mk_tensor_1d(MK_I64, 1), &base),
                          .rows = ROWS};
  mk_tensor x = test_random(&b, "x", TEST_IN, mk_tensor_2d(MK_F32, 1, WIDTH), 0, 1);
  ck_assert_int_eq(mk_row_put(b.stream, &(mk_row_put_args){.x = x, .routes = routes}), MK_ERR_ARG);
  ck_assert_str_eq(b.ctx.error.message, message);
  mk_error_clear(&b.ctx);
  test_bench_close(&b);
}

START_TEST(rows_outside_the_buffer_are_refused) {
  expect_refused(ROWS, "row_put: entry 0 of row is 16, expected in [-1, 16)");
  expect_refused(-1, "row_put: route 0 goes to rank 0, but its row is -1; give dropped routes rank -1");
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("row_exchange");
  TCase *tcase = test_case(s, "two peers", 120);
  CONF_ADD(tcase, cases);
  tcase_add_loop_test(tcase, rows_arrive_and_come_back, 0, MODES);
  tcase_add_loop_test(tcase, put_rounds_the_weight_first, 0, CASE_DEVICES);
  tcase_add_test(tcase, rows_outside_the_buffer_are_refused);
  return s;
}

int main(void) { return test_main(suite()); }
