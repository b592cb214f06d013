/* The GEMM core of the cpu backends: offsets beyond 32 bits, task lists, results at size, memory of repeated calls,
 * threads. Conformance at small shapes is in test_linear.c and test_grouped_gemm.c. */
#include <math.h>

#include "kernels/base/heap.h"
#include "kernels/device/cpu/gemm_parts.h"
#include "kernels/ops/ref_access.h"
#include "tests/support/bench.h"
#include "tests/support/check_main.h"

/* ---- pure functions ---- */

START_TEST(offsets_are_64_bit) {
  ck_assert_int_eq(mk_gemm_row_offset(299593, 1024, 7168), INT64_C(2147483648));
  ck_assert_int_eq(mk_gemm_row_offset(299594, 0, 7168), INT64_C(2147489792));
  ck_assert_int_eq(mk_gemm_weight_offset(255, 3500, 4200, 0, 0), INT64_C(3748500000));
  mk_tensor t = {.data = (void *)64, .dtype = MK_F32};
  ck_assert_uint_eq((uintptr_t)mk_gemm_at(&t, INT64_C(2147483648)), 64 + 4 * UINT64_C(2147483648));
}
END_TEST

enum { GROUPS = 11 };

static const int32_t group_ends[][GROUPS + 1] = {
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {0, 700, 700, 700, 700, 700, 700, 700, 700, 700, 700, 700},
    {0, 0, 1, 257, 513, 1026, 1026, 1026, 1090, 1100, 1611, 1611},
};

/* Every output element belongs to exactly one task; full row tiles first, then tails from large to small. */
static void check_tasks(const mk_gemm_call *call, bool native) {
  mk_context ctx = {0};
  mk_gemm_tiles tiles = mk_gemm_choose_tiles(call, native);
  int64_t bound = mk_gemm_task_bound(call, &tiles), order[GROUPS], covered = 0, wanted = 0;
  mk_gemm_task *tasks = NULL;
  ck_assert_int_eq(mk_heap_array(&ctx, (size_t)bound, sizeof *tasks, &tasks), MK_OK);
  int64_t made = mk_gemm_make_tasks(call, &tiles, order, tasks);
  ck_assert_int_le(made, bound);
  for (int64_t i = 0; i < made; i++) {
    const mk_gemm_task *t = &tasks[i];
    const int32_t *offsets = call->offsets.data;
    ck_assert_int_ge(t->row, offsets[t->group]);
    ck_assert_int_le(t->row + t->rows, offsets[t->group + 1]);
    if (i > 0) ck_assert_int_ge(tasks[i - 1].rows, t->rows);
    covered += t->rows * t->cols * t->inners;
    for (int64_t j = 0; j < i; j++) {
      const mk_gemm_task *u = &tasks[j];
      bool apart = u->group != t->group || u->row + u->rows <= t->row || t->row + t->rows <= u->row ||
                   u->col + u->cols <= t->col || t->col + t->cols <= u->col || u->inner + u->inners <= t->inner ||
                   t->inner + t->inners <= u->inner;
      ck_assert_msg(apart, "tasks %lld and %lld overlap", (long long)j, (long long)i);
    }
  }
  wanted = (int64_t)((const int32_t *)call->offsets.data)[GROUPS] * mk_gemm_out_cols(call) *
           (call->kind == MK_GEMM_WGRAD ? call->k : 1);
  ck_assert_int_eq(covered, wanted);
  mk_heap_free(&ctx, tasks);
}

enum { WIDENED, NATIVE, ALL_FLOAT }; /* the last takes tall tiles: FP32 and many groups */

START_TEST(tasks_cover_the_output_once) {
  for (size_t p = 0; p < sizeof group_ends / sizeof group_ends[0]; p++) {
    for (int kind = MK_GEMM_FWD; kind <= MK_GEMM_WGRAD; kind++) {
      for (int how = WIDENED; how <= ALL_FLOAT; how++) {
        mk_dtype dtype = how == ALL_FLOAT ? MK_F32 : MK_BF16;
        mk_gemm_call call = {.kind = (mk_gemm_kind)kind, .groups = GROUPS, .n = 700, .k = 330};
        call.a = mk_tensor_2d(dtype, 1700, kind == MK_GEMM_FWD ? call.k : call.n);
        call.b = mk_tensor_3d(dtype, GROUPS, call.n, call.k);
        call.c = mk_tensor_2d(dtype, 1700, kind == MK_GEMM_FWD ? call.n : call.k);
        call.offsets = mk_tensor_1d(MK_I32, GROUPS + 1);
        call.offsets.data = (void *)group_ends[p];
        check_tasks(&call, how == NATIVE);
      }
    }
  }
}
END_TEST

/* ---- results at size: y v = x (w^T v) for a random v, which costs one matrix-vector product ---- */

typedef struct matrix {
  double *at;
  int64_t rows, cols;
} matrix;

static matrix fetch(test_bench *b, const mk_tensor *t) {
  matrix m = {.rows = t->dim[0], .cols = t->dim[1]};
  test_ok(b, mk_heap_array(&b->ctx, (size_t)mk_tensor_count(t), sizeof *m.at, &m.at), "staging");
  test_read(b, t, m.at);
  return m;
}

/* out = m v, or m^T v. */
static void multiply(const matrix *m, bool transposed, const double *v, double *out) {
  for (int64_t i = 0; i < (transposed ? m->cols : m->rows); i++)
    out[i] = 0;
  for (int64_t r = 0; r < m->rows; r++) {
    for (int64_t c = 0; c < m->cols; c++)
      out[transposed ? c : r] += m->at[r * m->cols + c] * v[transposed ? r : c];
  }
}

enum { T = 1301, N = 709, K = 523, LONGEST = 1301 };

/* NMSE of y v against the product of the factors with v: y = left right, each possibly transposed. */
static double residual(test_bench *b, const mk_tensor *y, const mk_tensor *left, bool left_t, const mk_tensor *right,
                       bool right_t) {
  double v[LONGEST], middle[LONGEST], want[LONGEST], got[LONGEST], error = 0, norm = 0;
  matrix l = fetch(b, left), r = fetch(b, right), product = fetch(b, y);
  for (int64_t i = 0; i < LONGEST; i++)
    v[i] = test_normal(b->seed, 99, (uint64_t)i);
  multiply(&r, right_t, v, middle);
  multiply(&l, left_t, middle, want);
  multiply(&product, false, v, got);
  for (int64_t i = 0; i < product.rows; i++) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  mk_heap_free(&b->ctx, l.at);
  mk_heap_free(&b->ctx, r.at);
  mk_heap_free(&b->ctx, product.at);
  return error / norm;
}

static void check_residuals(mk_dtype dtype, mk_kernel kernel) {
  const mk_device_config config = {.name = "cpu", .threads = 2, .kernel = kernel};
  test_bench b;
  test_bench_open(&b, &config, 5, false);
  mk_tensor x = test_random(&b, "x", TEST_IN, mk_tensor_2d(dtype, T, K), 0, 1);
  mk_tensor w = test_random(&b, "w", TEST_IN, mk_tensor_2d(dtype, N, K), 0, 1);
  mk_tensor dy = test_random(&b, "dy", TEST_IN, mk_tensor_2d(dtype, T, N), 0, 1);
  mk_tensor y = test_output(&b, "y", mk_tensor_2d(MK_F32, T, N));
  mk_tensor dx = test_output(&b, "dx", mk_tensor_2d(MK_F32, T, K));
  mk_tensor dw = test_constant(&b, "dw", TEST_INOUT, mk_tensor_2d(MK_F32, N, K), 0);
  test_ok(&b, mk_linear_fwd(b.stream, &(mk_linear_fwd_args){.x = x, .w = w, .y = y}), "fwd");
  test_ok(&b, mk_linear_dgrad(b.stream, &(mk_linear_dgrad_args){.dy = dy, .w = w, .dx = dx}), "dgrad");
  test_ok(&b, mk_linear_wgrad(b.stream, &(mk_linear_wgrad_args){.dy = dy, .x = x, .dw = dw}), "wgrad");
  const double errors[] = {residual(&b, &y, &x, false, &w, true), residual(&b, &dx, &dy, false, &w, false),
                           residual(&b, &dw, &dy, true, &x, false)};
  for (int i = 0; i < 3; i++) {
    ck_assert_msg(errors[i] < 1e-12, "%s, kernel %d: %s has a residual of %.3g", mk_dtype_name(dtype), (int)kernel,
                  (const char *const[]){"fwd", "dgrad", "wgrad"}[i], errors[i]);
  }
  test_bench_close(&b);
}

START_TEST(residual_at_size) {
  check_residuals(MK_F32, MK_KERNEL_WIDENED);
  check_residuals(MK_BF16, MK_KERNEL_WIDENED);
  if (mk_cpu_gemm_may_use(MK_GEMM_ISA_AVX512)) check_residuals(MK_BF16, MK_KERNEL_NATIVE);
}
END_TEST

/* ---- repeated calls ---- */

enum { E = 9, ROWS = 900 };

/* Forward, both gradients, with groups that end at `ends`. */
static void step(test_bench *b, const mk_tensor *x, const mk_tensor *w, const mk_tensor *y, const mk_tensor *dw,
                 const double *ends) {
  mk_tensor offsets = test_values(b, "offsets", TEST_IN, mk_tensor_1d(MK_I32, E + 1), ends);
  test_ok(b, mk_grouped_gemm_fwd(b->stream, &(mk_grouped_gemm_fwd_args){.x = *x, .w = *w, .offsets = offsets, .y = *y}),
          "fwd");
  test_ok(
      b,
      mk_grouped_gemm_dgrad(b->stream, &(mk_grouped_gemm_dgrad_args){.dy = *y, .w = *w, .offsets = offsets, .dx = *x}),
      "dgrad");
  test_ok(
      b,
      mk_grouped_gemm_wgrad(b->stream, &(mk_grouped_gemm_wgrad_args){.dy = *y, .x = *x, .offsets = offsets, .dw = *dw}),
      "wgrad");
}

static const double spread[E + 1] = {0, 100, 200, 300, 400, 500, 600, 700, 800, 900};
static const double skewed[E + 1] = {0, 0, 1, 34, 35, 35, 301, 333, 890, 900};

static void check_memory(mk_kernel kernel) {
  const mk_device_config config = {.name = "cpu", .threads = 2, .kernel = kernel};
  test_bench b;
  test_bench_open(&b, &config, 6, false);
  mk_tensor x = test_random(&b, "x", TEST_INOUT, mk_tensor_2d(MK_BF16, ROWS, 40), 0, 1);
  mk_tensor w = test_random(&b, "w", TEST_IN, mk_tensor_3d(MK_BF16, E, 70, 40), 0, 1);
  mk_tensor y = test_output(&b, "y", mk_tensor_2d(MK_BF16, ROWS, 70));
  mk_tensor dw = test_constant(&b, "dw", TEST_INOUT, mk_tensor_3d(MK_F32, E, 70, 40), 0);
  step(&b, &x, &w, &y, &dw, spread);
  mk_tensor offsets = test_values(&b, "skewed", TEST_IN, mk_tensor_1d(MK_I32, E + 1), skewed);
  long long calls = b.ctx.heap_calls;
  mk_grouped_gemm_fwd_args again = {.x = x, .w = w, .offsets = offsets, .y = y};
  mk_grouped_gemm_wgrad_args again_w = {.dy = y, .x = x, .offsets = offsets, .dw = dw};
  test_ok(&b, mk_grouped_gemm_fwd(b.stream, &again), "fwd");
  test_ok(&b, mk_grouped_gemm_wgrad(b.stream, &again_w), "wgrad");
  ck_assert_msg(b.ctx.heap_calls == calls, "kernel %d: other offsets took %lld more heap blocks", (int)kernel,
                b.ctx.heap_calls - calls);
  test_bench_close(&b);
}

START_TEST(other_offsets_take_no_memory) {
  check_memory(MK_KERNEL_WIDENED);
  if (mk_cpu_gemm_may_use(MK_GEMM_ISA_AVX512)) check_memory(MK_KERNEL_NATIVE);
}
END_TEST

/* The bytes of dw after a step with the native kernel on `threads` threads; dw depends on all three GEMMs. */
static void native_step(int threads, void *out, size_t bytes) {
  const mk_device_config config = {.name = "cpu", .threads = threads, .kernel = MK_KERNEL_NATIVE};
  test_bench b;
  test_bench_open(&b, &config, 7, false);
  mk_tensor x = test_random(&b, "x", TEST_INOUT, mk_tensor_2d(MK_BF16, ROWS, 40), 0, 1);
  mk_tensor w = test_random(&b, "w", TEST_IN, mk_tensor_3d(MK_BF16, E, 70, 40), 0, 1);
  mk_tensor y = test_output(&b, "y", mk_tensor_2d(MK_BF16, ROWS, 70));
  mk_tensor dw = test_constant(&b, "dw", TEST_INOUT, mk_tensor_3d(MK_F32, E, 70, 40), 0);
  step(&b, &x, &w, &y, &dw, skewed);
  ck_assert_uint_eq(mk_tensor_bytes(&dw), bytes);
  test_read_bytes(&b, &dw, out);
  test_bench_close(&b);
}

START_TEST(native_does_not_depend_on_threads) {
  float one[E * 70 * 40], many[E * 70 * 40];
  if (!mk_cpu_gemm_may_use(MK_GEMM_ISA_AVX512)) return;
  native_step(1, one, sizeof one);
  for (int threads = 2; threads <= 3; threads++) {
    native_step(threads, many, sizeof many);
    for (int i = 0; i < E * 70 * 40; i++)
      ck_assert_msg(one[i] == many[i], "dw[%d]: %.9g with 1 thread, %.9g with %d", i, one[i], many[i], threads);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("gemm");
  TCase *tcase = test_case(suite, "gemm", 120);
  tcase_add_test(tcase, offsets_are_64_bit);
  tcase_add_test(tcase, tasks_cover_the_output_once);
  tcase_add_test(tcase, residual_at_size);
  tcase_add_test(tcase, other_offsets_take_no_memory);
  tcase_add_test(tcase, native_does_not_depend_on_threads);
  return test_main(suite);
}
