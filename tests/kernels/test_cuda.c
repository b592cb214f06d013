/* The cuda device: refused with a reason where there is no GPU. On a GPU (MOEMARK_TEST_DEVICE=cuda, CK_FORK=no, see
 * tests/device/run_cuda.sh): memory, copies, order of streams, host functions, faults, facts, and sizes of the kernels
 * that the ops' own cases do not reach. */
#include <stdlib.h>

#include "tests/support/check_main.h"
#include "tests/support/conformance.h"

static const mk_device_config cuda = {.name = "cuda"};

/* Fails with this status and a message that has this text; then forgets it. */
static void expect(mk_context *ctx, mk_status got, mk_status want, const char *text) {
  ck_assert_msg(got == want, "expected %s, got %s: %s", mk_status_name(want), mk_status_name(got), ctx->error.message);
  ck_assert_msg(strstr(ctx->error.message, text) != NULL, "expected '%s', said: %s", text, ctx->error.message);
  mk_error_clear(ctx);
}

/* ---- where there is none ---- */

START_TEST(refused_without_a_gpu) {
  mk_context ctx = {0};
  mk_device *dev = NULL;
  mk_device_config beyond = {.name = "cuda", .ordinal = 1000};
  expect(&ctx, mk_device_create(&ctx, &beyond, &dev), MK_ERR_UNSUPPORTED, "no CUDA device");
  ck_assert_ptr_null(dev);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

/* ---- on a GPU ---- */

START_TEST(facts_and_refusals) {
  mk_device_info info;
  mk_context ctx = {0};
  mk_device *dev = NULL;
  mk_device_config widened = {.name = "cuda", .kernel = MK_KERNEL_WIDENED},
                   small = {.name = "cuda", .budget_bytes = 1000};
  test_bench b;
  test_bench_open(&b, &cuda, 1, false);
  mk_device_info_get(b.dev, &info);
  ck_assert_ptr_nonnull(strstr(info.isa, "sm_"));
  ck_assert_ptr_nonnull(strstr(info.library, "cuBLAS "));
  ck_assert_ptr_nonnull(strstr(info.text, info.library));
  mk_tensor x = test_random(&b, "x", TEST_IN, mk_tensor_1d(MK_F32, 8), 0, 1);
  expect(&b.ctx, mk_add(b.stream, &(mk_add_args){.a = x, .b = x, .y = x}), MK_ERR_UNSUPPORTED,
         "add: the cuda device has no kernel");
  mk_tensor wide = test_random(&b, "wide", TEST_IN, mk_tensor_2d(MK_F64, 2, 4), 0, 1);
  mk_tensor half = test_output(&b, "half", mk_tensor_2d(MK_F64, 2, 2));
  expect(&b.ctx, mk_swiglu_fwd(b.stream, &(mk_swiglu_fwd_args){.x = wide, .y = half}), MK_ERR_UNSUPPORTED, "not f64");
  void *block = NULL;
  expect(&b.ctx, mk_device_alloc(b.dev, MK_MEM_PARAMS, (size_t)1 << 50, &block), MK_ERR_MEMORY, "out of GPU memory");
  ck_assert_uint_eq(b.dev->used_bytes[MK_MEM_PARAMS], 0);
  test_bench_close(&b);
  expect(&ctx, mk_device_create(&ctx, &widened, &dev), MK_ERR_UNSUPPORTED, "kernel widened");
  test_ok(&b, mk_device_create(&ctx, &small, &dev), "small");
  mk_stream *stream = NULL;
  expect(&ctx, mk_stream_create(dev, "s", &stream), MK_ERR_MEMORY, "out of device memory: workspace");
  mk_device_destroy(dev);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

START_TEST(memory_copies_and_fills) {
  enum { N = 3000001 };
  static double values[N], back[N];
  test_bench b;
  test_bench_open(&b, &cuda, 1, false);
  void *block = NULL;
  test_ok(&b, mk_device_alloc(b.dev, MK_MEM_PARAMS, N * sizeof(float), &block), "alloc");
  mk_tensor y = mk_tensor_1d(MK_F32, N);
  y.data = block;
  test_read(&b, &y, back);
  for (int i = 0; i < N; i++)
    ck_assert_msg(back[i] == 0, "element %d of new memory is %g", i, back[i]);
  for (int i = 0; i < N; i++)
    values[i] = i % 1013;
  mk_tensor x = test_values(&b, "x", TEST_IN, mk_tensor_1d(MK_F32, N), values);
  mk_tensor tail = mk_tensor_slice(&y, N / 2, N - N / 2);
  test_ok(&b, mk_copy_d2d(b.stream, &y, &x), "copy");
  test_ok(&b, mk_fill(b.stream, &tail, 0), "fill");
  test_read(&b, &y, back);
  for (int i = 0; i < N; i++)
    ck_assert_msg(back[i] == (i < N / 2 ? values[i] : 0), "element %d is %g", i, back[i]);
  mk_device_free(b.dev, MK_MEM_PARAMS, block, N * sizeof(float));
  test_bench_close(&b);
}
END_TEST

/* The second stream reads what the first writes, after an event, in both directions, many times over. */
START_TEST(events_order_streams) {
  enum { N = 1 << 22, ROUNDS = 50 };
  test_bench b;
  test_bench_open(&b, &cuda, 1, false);
  mk_stream *second = NULL;
  mk_event *written = NULL, *read = NULL, *never = NULL;
  double elapsed_s = -1, one = 0;
  test_ok(&b, mk_stream_create(b.dev, "second", &second), "stream");
  test_ok(&b, mk_event_create(b.dev, &written), "event");
  test_ok(&b, mk_event_create(b.dev, &read), "event");
  test_ok(&b, mk_event_create(b.dev, &never), "event");
  mk_tensor a = test_output(&b, "a", mk_tensor_1d(MK_U8, N)), c = test_output(&b, "c", mk_tensor_1d(MK_U8, N));
  for (int round = 0; round < ROUNDS; round++) {
    test_ok(&b, mk_stream_wait(b.stream, read), "wait");
    test_ok(&b, mk_fill(b.stream, &a, round), "fill");
    test_ok(&b, mk_event_record(written, b.stream), "record");
    test_ok(&b, mk_stream_wait(second, written), "wait");
    test_ok(&b, mk_copy_d2d(second, &c, &a), "copy");
    test_ok(&b, mk_event_record(read, second), "record");
  }
  test_ok(&b, mk_event_sync(read, true), "sync");
  ck_assert_int_eq(b.dev->host_waits, 1);
  mk_tensor last = mk_tensor_slice(&c, N - 1, 1);
  test_read(&b, &last, &one);
  ck_assert(one == ROUNDS - 1);
  test_ok(&b, mk_event_elapsed_s(written, read, &elapsed_s), "elapsed");
  ck_assert_msg(elapsed_s > 0 && elapsed_s < 10, "%g s", elapsed_s);
  expect(&b.ctx, mk_event_elapsed_s(written, never, &elapsed_s), MK_ERR_ARG, "not recorded");
  mk_event_destroy(never);
  mk_event_destroy(read);
  mk_event_destroy(written);
  mk_stream_destroy(second);
  test_bench_close(&b);
}
END_TEST

typedef struct count_args {
  int *counter;
  int expected;
} count_args;

/* Counts, and is a fault when it comes out of order. */
static mk_status count_call(mk_stream *stream, const void *args) {
  const count_args *a = args;
  MK_CHECK(stream->dev->ctx, *a->counter == a->expected, MK_ERR_MISMATCH, "call %d came as number %d", a->expected,
           *a->counter);
  *a->counter += 1;
  return MK_OK;
}

/* More functions than the ring of a stream holds. */
START_TEST(host_functions_keep_the_order) {
  enum { CALLS = 500 };
  int counter = 0;
  test_bench b;
  test_bench_open(&b, &cuda, 1, false);
  for (int i = 0; i < CALLS; i++) {
    count_args args = {.counter = &counter, .expected = i};
    test_ok(&b, mk_stream_call(b.stream, count_call, &args, sizeof args), "call");
  }
  test_ok(&b, mk_stream_sync(b.stream, false), "sync");
  ck_assert_int_eq(counter, CALLS);
  test_ok(&b, mk_device_poll(b.dev), "poll");
  count_args wrong = {.counter = &counter, .expected = 7};
  test_ok(&b, mk_stream_call(b.stream, count_call, &wrong, sizeof wrong), "call");
  expect(&b.ctx, mk_stream_sync(b.stream, false), MK_ERR_MISMATCH, "call 7 came as number 500");
  expect(&b.ctx, mk_device_poll(b.dev), MK_ERR_MISMATCH, "stream 'test'");
  test_bench_close(&b);
}
END_TEST

START_TEST(profile_times_each_op) {
  const mk_device_config config = {.name = "cuda", .profile = true};
  test_bench b;
  test_bench_open(&b, &config, 1, false);
  mk_tensor x = test_random(&b, "x", TEST_IN, mk_tensor_2d(MK_BF16, 256, 1024), 0, 1);
  mk_swiglu_fwd_args a = {.x = x, .y = test_output(&b, "y", mk_tensor_2d(MK_BF16, 256, 512))};
  for (int i = 0; i < 10; i++)
    test_ok(&b, mk_swiglu_fwd(b.stream, &a), "swiglu");
  double seconds = b.dev->stats[MK_OP_swiglu_fwd].seconds;
  ck_assert_int_eq(b.dev->stats[MK_OP_swiglu_fwd].calls, 10);
  ck_assert_msg(seconds > 0 && seconds < 1, "10 launches took %g s", seconds);
  test_bench_close(&b);
}
END_TEST

/* ---- sizes beyond those of the ops' own cases: several rows a block, several pieces of scratch ---- */

static mk_tensor drawn(test_bench *b, const char *name, mk_dtype dtype, int64_t rows, int64_t cols) {
  return test_random(b, name, TEST_IN, mk_tensor_2d(dtype, rows, cols), 0.1, 1);
}

static mk_status norm_rows(test_bench *b, const conf_point *p) {
  mk_tensor rows = mk_tensor_2d(p->dtype, p->dim[0], p->dim[1]);
  mk_rmsnorm_bwd_args a = {.dy = test_random(b, "dy", TEST_IN, rows, 0.1, 1),
                           .x = test_random(b, "x", TEST_IN, rows, 0.2, 2),
                           .gain = test_random(b, "gain", TEST_IN, mk_tensor_1d(p->dtype, p->dim[1]), 1, 0.3),
                           .rstd = test_random(b, "rstd", TEST_IN, mk_tensor_1d(MK_F32, p->dim[0]), 0.5, 0.05),
                           .dgain = test_random(b, "dgain", TEST_INOUT, mk_tensor_1d(MK_F32, p->dim[1]), 0, 1),
                           .dx = test_output(b, "dx", rows)};
  return mk_rmsnorm_bwd(b->stream, &a);
}

/* x bf16, w f32, y f32: rows of x are widened. */
static mk_status widen_rows(test_bench *b, const conf_point *p) {
  mk_linear_fwd_args a = {.x = drawn(b, "x", MK_BF16, p->dim[0], p->dim[2]),
                          .w = drawn(b, "w", MK_F32, p->dim[1], p->dim[2]),
                          .y = test_output(b, "y", mk_tensor_2d(MK_F32, p->dim[0], p->dim[1]))};
  return mk_linear_fwd(b->stream, &a);
}

/* dy f32, w bf16, dx bf16: columns of w are widened, columns of dx rounded together with the addend. */
static mk_status widen_cols(test_bench *b, const conf_point *p) {
  mk_linear_dgrad_args a = {.dy = drawn(b, "dy", MK_F32, p->dim[0], p->dim[1]),
                            .w = drawn(b, "w", MK_BF16, p->dim[1], p->dim[2]),
                            .add = drawn(b, "add", MK_BF16, p->dim[0], p->dim[2]),
                            .dx = test_output(b, "dx", mk_tensor_2d(MK_BF16, p->dim[0], p->dim[2]))};
  return mk_linear_dgrad(b->stream, &a);
}

static const conf_case cases[] = {
    {.name = "rmsnorm_bwd, many rows",
     .launch = norm_rows,
     .shapes = {{2000, 72}, {1025, 7}},
     .n_shapes = 2,
     .nmse_f32 = 1e-11,
     .nmse_bf16 = CONF_ROUND_BF16},
    {.name = "linear_fwd, rows widened in pieces",
     .launch = widen_rows,
     .shapes = {{9000, 3, 1100}},
     .n_shapes = 1,
     .dtypes = 1u << MK_F32,
     .nmse_f32 = 1e-12},
    {.name = "linear_dgrad, columns widened in pieces",
     .launch = widen_cols,
     .shapes = {{2, 1100, 9000}},
     .n_shapes = 1,
     .dtypes = 1u << MK_BF16,
     .nmse_bf16 = CONF_ROUND_BF16},
};

CONF_TEST(cases)

int main(void) {
  Suite *suite = suite_create("cuda");
  TCase *tcase = tcase_create("cuda");
  const char *device = getenv("MOEMARK_TEST_DEVICE");
  tcase_set_timeout(tcase, 120);
  tcase_add_test(tcase, refused_without_a_gpu);
  if (device != NULL && strcmp(device, "cuda") == 0) {
    tcase_add_test(tcase, facts_and_refusals);
    tcase_add_test(tcase, memory_copies_and_fills);
    tcase_add_test(tcase, events_order_streams);
    tcase_add_test(tcase, host_functions_keep_the_order);
    tcase_add_test(tcase, profile_times_each_op);
    CONF_ADD(tcase, cases);
  }
  suite_add_tcase(suite, tcase);
  return test_main(suite);
}
