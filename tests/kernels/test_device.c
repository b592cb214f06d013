/* The device front: ledger, budget, arenas, faults of every allocation, registry, counters, copies, guard mode. */
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <sys/resource.h>

#include "kernels/device/arena.h"
#include "kernels/device/backends.h"
#include "kernels/device/cpu/parallel.h"
#include "tests/support/bench.h"
#include "tests/support/check_main.h"

static const char *const cpu_devices[] = {"cpu", "ref", "cpu_async", "ref_async"};
enum { CPU_DEVICES = 4 };

static mk_device *open_device(mk_context *ctx, const mk_device_config *config) {
  mk_device *dev = NULL;
  ck_assert_msg(mk_device_create(ctx, config, &dev) == MK_OK, "%s: %s", config->name, ctx->error.message);
  return dev;
}

START_TEST(unknown_device_lists_the_known) {
  mk_context ctx = {0};
  mk_device *dev = NULL;
  mk_device_config config = {.name = "gpu"};
  ck_assert_int_eq(mk_device_create(&ctx, &config, &dev), MK_ERR_CONFIG);
  ck_assert_ptr_null(dev);
  ck_assert_ptr_nonnull(strstr(ctx.error.message, "'gpu'"));
  ck_assert_ptr_nonnull(strstr(ctx.error.message, "cpu, cpu_async, ref"));
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

/* Where streams are threads, MPI must be started for several of them. */
START_TEST(streams_that_are_threads_are_known) {
  ck_assert(mk_device_threaded("cpu_async") && mk_device_threaded("ref_async") && mk_device_threaded("cuda"));
  ck_assert(!mk_device_threaded("cpu") && !mk_device_threaded("ref") && !mk_device_threaded("sim"));
  ck_assert(!mk_device_threaded("gpu"));
}
END_TEST

/* A backend that this build or machine lacks says how to get it; sim says that there is none. */
START_TEST(absent_devices_say_how_to_get_them) {
  const char *const names[] = {"cuda", "sim"};
  for (int i = 0; i < 2; i++) {
    mk_context ctx = {0};
    mk_device *dev = NULL;
    mk_device_config config = {.name = names[i]};
    mk_status st = mk_device_create(&ctx, &config, &dev);
    if (st == MK_ERR_UNSUPPORTED) ck_assert_ptr_null(dev);
    if (st == MK_ERR_UNSUPPORTED) ck_assert_uint_gt(strlen(ctx.error.message), 20);
    if (i == 1) ck_assert_ptr_nonnull(strstr(ctx.error.message, "simulated time is not built yet"));
    if (dev != NULL) mk_device_destroy(dev);
  }
}
END_TEST

START_TEST(info_names_the_choices) {
  mk_device_info info;
  mk_context ctx = {0};
  mk_device_config config = {.name = "cpu", .threads = 3, .kernel = MK_KERNEL_WIDENED};
  mk_device *dev = open_device(&ctx, &config);
  mk_device_info_get(dev, &info);
  ck_assert_int_eq(info.threads, 3);
  ck_assert_str_eq(info.kernel, "widened");
  ck_assert_ptr_nonnull(strstr(info.text, "cpu: 3 threads, isa "));
  ck_assert_ptr_nonnull(strstr(info.library, "oneDNN 2."));
  mk_device_destroy(dev);
}
END_TEST

START_TEST(ledger_and_budget) {
  mk_context ctx = {0};
  mk_device_config config = {.name = "cpu", .threads = 1, .budget_bytes = 10000};
  mk_device *dev = open_device(&ctx, &config);
  void *params = NULL, *grads = NULL, *more = NULL;
  ck_assert_int_eq(mk_device_alloc(dev, MK_MEM_PARAMS, 4000, &params), MK_OK);
  ck_assert_int_eq(mk_device_alloc(dev, MK_MEM_GRADS, 5000, &grads), MK_OK);
  ck_assert_int_eq(mk_device_alloc(dev, MK_MEM_OPTIM, 1001, &more), MK_ERR_MEMORY);
  ck_assert_ptr_null(more);
  ck_assert_str_eq(ctx.error.message,
                   "out of device memory: optim needs 1001 bytes, but 9000 of the budget of 10000 are in use (params "
                   "4000, grads 5000); lower the batch, shard more, or raise the budget");
  mk_error_clear(&ctx);
  ck_assert_int_eq(mk_device_charge(dev, MK_MEM_COMM, 1000), MK_OK);
  ck_assert_int_eq(mk_device_charge(dev, MK_MEM_COMM, 1), MK_ERR_MEMORY);
  mk_error_clear(&ctx);
  ck_assert_uint_eq(dev->peak_total_bytes, 10000);
  mk_device_discharge(dev, MK_MEM_COMM, 1000);
  mk_device_free(dev, MK_MEM_GRADS, grads, 5000);
  ck_assert_int_eq(mk_device_alloc(dev, MK_MEM_OPTIM, 1001, &more), MK_OK);
  ck_assert_uint_eq(dev->used_bytes[MK_MEM_GRADS], 0);
  ck_assert_uint_eq(dev->peak_bytes[MK_MEM_GRADS], 5000);
  ck_assert_uint_eq(dev->peak_total_bytes, 10000);
  ck_assert_int_eq(dev->alloc_calls, 3);
  mk_device_free(dev, MK_MEM_OPTIM, more, 1001);
  mk_device_free(dev, MK_MEM_PARAMS, params, 4000);
  ck_assert_int_eq(ctx.error.status, MK_OK);
  mk_device_discharge(dev, MK_MEM_PARAMS, 1);
  ck_assert_int_eq(ctx.error.status, MK_ERR_ARG);
  mk_device_destroy(dev);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

START_TEST(memory_is_zeroed_aligned_and_resident) {
  const size_t sizes[] = {1, 100, 4096, 4097, (2 << 20) - 1, 2 << 20, (8 << 20) + 5};
  mk_context ctx = {0};
  mk_device_config config = {.name = "cpu", .threads = 1};
  mk_device *dev = open_device(&ctx, &config);
  for (int i = 0; i < 7; i++) {
    unsigned char *block = NULL;
    struct rusage before, after;
    ck_assert_int_eq(mk_device_alloc(dev, MK_MEM_PARAMS, sizes[i], (void **)&block), MK_OK);
    ck_assert_uint_eq((uintptr_t)block % 64, 0);
    getrusage(RUSAGE_SELF, &before);
    for (size_t at = 0; at < sizes[i]; at += 1) {
      if (block[at] != 0) ck_abort_msg("byte %zu of %zu is not zero", at, sizes[i]);
      block[at] = 1;
    }
    getrusage(RUSAGE_SELF, &after);
    ck_assert_int_le(after.ru_minflt - before.ru_minflt, 300); /* stack and the like; untouched 2 MiB would be 512 */
    mk_device_free(dev, MK_MEM_PARAMS, block, sizes[i]);
  }
  mk_device_destroy(dev);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

typedef struct buffers {
  mk_tensor a, b, scratch, after, absent;
} buffers;

static void lay_out(mk_arena *arena, buffers *t) {
  t->a = mk_tensor_1d(MK_F32, 3);
  t->b = mk_tensor_2d(MK_BF16, 5, 7);
  t->scratch = mk_tensor_1d(MK_F64, 1000);
  t->after = mk_tensor_1d(MK_F32, 10);
  mk_arena_place(arena, &t->a);
  mk_arena_place(arena, &t->b);
  size_t mark = mk_arena_mark(arena);
  mk_arena_place(arena, &t->scratch);
  mk_arena_reset(arena, mark);
  mk_arena_place(arena, &t->after);
  mk_arena_place(arena, &t->absent);
}

START_TEST(arena_two_passes) {
  mk_context ctx = {0};
  mk_device_config config = {.name = "cpu", .threads = 1};
  mk_device *dev = open_device(&ctx, &config);
  mk_arena arena = mk_arena_make(dev, MK_MEM_ACTIVATIONS);
  buffers t = {0};
  lay_out(&arena, &t);
  ck_assert_ptr_null(t.a.data);
  ck_assert_uint_eq(arena.peak_bytes, 64 + 128 + 8000); /* 12 and 70 bytes rounded up, scratch over `after` */
  ck_assert_int_eq(mk_arena_commit(&arena), MK_OK);
  lay_out(&arena, &t);
  ck_assert_ptr_eq(t.b.data, (char *)t.a.data + 64);
  ck_assert_ptr_eq(t.scratch.data, t.after.data);
  ck_assert_ptr_null(t.absent.data);
  ck_assert_uint_eq(dev->used_bytes[MK_MEM_ACTIVATIONS], arena.peak_bytes);
  mk_arena_release(&arena);
  mk_arena_release(&arena);
  ck_assert_uint_eq(dev->used_bytes[MK_MEM_ACTIVATIONS], 0);
  mk_device_destroy(dev);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

/* Sizes that no address reaches stay too large when more follows, in place of becoming small again. */
START_TEST(arena_sizes_do_not_wrap) {
  mk_arena arena = {0};
  mk_tensor most = mk_tensor_1d(MK_U8, INT64_MAX), small = mk_tensor_1d(MK_U8, 100);
  for (int i = 0; i < 4; i++) {
    mk_arena_place(&arena, &most);
    mk_arena_place(&arena, &small);
  }
  ck_assert_uint_ge(arena.peak_bytes, SIZE_MAX - MK_ARENA_ALIGN_BYTES);
  ck_assert_uint_eq(arena.used_bytes, arena.peak_bytes);
}
END_TEST

/* Device, stream, event, memory: what a program makes. */
static mk_status make_everything(mk_context *ctx, const mk_device_config *config, bool *complete) {
  mk_device *dev = NULL;
  mk_stream *stream = NULL;
  mk_event *event = NULL;
  void *block = NULL;
  mk_status st;
  MK_TRY_GOTO(ctx, mk_device_create(ctx, config, &dev), out);
  MK_TRY_GOTO(ctx, mk_stream_create(dev, "main", &stream), out);
  MK_TRY_GOTO(ctx, mk_event_create(dev, &event), out);
  MK_TRY_GOTO(ctx, mk_device_alloc(dev, MK_MEM_PARAMS, 1000, &block), out);
  *complete = true;
out:
  if (dev != NULL) mk_device_free(dev, MK_MEM_PARAMS, block, block != NULL ? 1000 : 0);
  mk_event_destroy(event);
  mk_stream_destroy(stream);
  mk_device_destroy(dev);
  return st;
}

START_TEST(every_allocation_may_fail) {
  for (int guard = 0; guard < 2; guard++) {
    mk_device_config config = {.name = cpu_devices[_i], .threads = 1, .guard = guard == 1};
    bool complete = false;
    int n = 1;
    for (; !complete && n < 100; n++) {
      mk_context ctx = {.heap_fail_at = n};
      mk_status st = make_everything(&ctx, &config, &complete);
      ck_assert_int_eq(st, complete ? MK_OK : MK_ERR_MEMORY);
      ck_assert_msg(ctx.heap_live == 0, "%s: %lld blocks leak when allocation %d fails", config.name, ctx.heap_live, n);
    }
    ck_assert(complete);
    ck_assert_int_gt(n, 4); /* device, memory list, stream, event, block */
  }
}
END_TEST

START_TEST(counters_and_profile) {
  mk_device_config config = {.name = "cpu", .threads = 1, .profile = true};
  test_bench b;
  test_bench_open(&b, &config, 1, false);
  mk_tensor x = test_random(&b, "x", TEST_IN, mk_tensor_1d(MK_F32, 100000), 0, 1);
  mk_add_args a = {.a = x, .b = x, .y = x};
  for (int i = 0; i < 100; i++)
    test_ok(&b, mk_add(b.stream, &a), "add");
  char names[64];
  ck_assert_int_eq(b.dev->launches, 100);
  ck_assert_int_eq(b.dev->stats[MK_OP_add].calls, 100);
  ck_assert_double_eq_tol(b.dev->stats[MK_OP_add].flops, 1e7, 1);
  ck_assert_double_eq_tol(b.dev->stats[MK_OP_add].bytes, 1.2e8, 1);
  ck_assert(b.dev->stats[MK_OP_add].seconds > 0);
  ck_assert_str_eq(mk_device_recent_ops(b.dev, 2, names, sizeof names), "add, add");
  b.dev->host_waits = 0;
  test_ok(&b, mk_stream_sync(b.stream, true), "sync");
  test_ok(&b, mk_stream_sync(b.stream, false), "sync");
  ck_assert_int_eq(b.dev->host_waits, 1);
  char big[MK_MAX_ARGS_BYTES + 1] = {0};
  ck_assert_int_eq(mk_stream_launch(b.stream, MK_OP_add, big, sizeof big), MK_ERR_ARG);
  ck_assert_str_eq(mk_op_name(MK_OP_swiglu_fwd), "swiglu_fwd");
  test_bench_close(&b);
}
END_TEST

/* Of a buffer of 8 rows 3 are in use, of 4 routes 3 are kept: work is that of the rows in use. Where the host cannot
 * read them, it is unknown; what the dims say is known everywhere. */
START_TEST(profile_counts_rows_in_use) {
  const mk_device_config config = {.name = "cpu", .threads = 1, .profile = true};
  const double ends[] = {0, 1, 3}, map[] = {0, 5, -1, 2};
  test_bench b;
  test_bench_open(&b, &config, 1, false);
  mk_grouped_gemm_fwd_args gemm = {.x = test_random(&b, "x", TEST_IN, mk_tensor_2d(MK_F32, 8, 5), 0, 1),
                                   .w = test_random(&b, "w", TEST_IN, mk_tensor_3d(MK_F32, 2, 7, 5), 0, 1),
                                   .offsets = test_values(&b, "offsets", TEST_IN, mk_tensor_1d(MK_I32, 3), ends),
                                   .y = test_output(&b, "y", mk_tensor_2d(MK_F32, 8, 7))};
  mk_swiglu_fwd_args swiglu = {.x = test_random(&b, "gates", TEST_IN, mk_tensor_2d(MK_F32, 8, 10), 0, 1),
                               .rows = mk_tensor_slice(&gemm.offsets, 2, 1),
                               .y = test_output(&b, "hidden", mk_tensor_2d(MK_F32, 8, 5))};
  mk_permute_fwd_args permute = {.x = test_random(&b, "tokens", TEST_IN, mk_tensor_2d(MK_F32, 2, 5), 0, 1),
                                 .map = test_values(&b, "map", TEST_IN, mk_tensor_2d(MK_I32, 2, 2), map),
                                 .out = test_output(&b, "out", mk_tensor_2d(MK_F32, 8, 5))};
  b.dev->roofline = (mk_roofline){.gemm_flops = 10, .other_flops = 1, .bytes_per_s = 1e9};
  test_ok(&b, mk_grouped_gemm_fwd(b.stream, &gemm), "grouped_gemm_fwd");
  test_ok(&b, mk_swiglu_fwd(b.stream, &swiglu), "swiglu_fwd");
  test_ok(&b, mk_permute_fwd(b.stream, &permute), "permute_fwd");
  mk_op_stats *stats = b.dev->stats, one = stats[MK_OP_grouped_gemm_fwd];
  ck_assert_double_eq(one.flops, 2 * 3 * 7 * 5);
  ck_assert_double_eq(one.bytes, 4 * (2 * 7 * 5 + 3 * 5 + 3 * 7));
  ck_assert_double_eq(one.bound_s, 2 * 3 * 7 * 5 / 10.0);
  ck_assert_double_eq(stats[MK_OP_swiglu_fwd].flops, mk_op_work(MK_OP_swiglu_fwd, &swiglu, 3).flops);
  ck_assert_double_eq(stats[MK_OP_permute_fwd].bytes, 4 * (3 * 5 + 4 + 2 * 5));
  swiglu.rows = (mk_tensor){0};
  mk_device_count_work(b.dev, MK_OP_grouped_gemm_fwd, &gemm, false);
  mk_device_count_work(b.dev, MK_OP_swiglu_fwd, &swiglu, false);
  ck_assert(isnan(stats[MK_OP_grouped_gemm_fwd].flops) && isnan(stats[MK_OP_grouped_gemm_fwd].bound_s));
  ck_assert_double_eq(stats[MK_OP_swiglu_fwd].bytes, 4 * (3 + 8) * 15);
  test_bench_close(&b);
}
END_TEST

/* Workers count no work, and say so instead of none. */
START_TEST(async_work_is_unknown) {
  const mk_device_config config = {.name = "cpu_async", .threads = 1, .profile = true};
  test_bench b;
  test_bench_open(&b, &config, 1, false);
  mk_cast_args cast = {.x = test_random(&b, "x", TEST_IN, mk_tensor_1d(MK_F32, 8), 0, 1),
                       .y = test_output(&b, "y", mk_tensor_1d(MK_BF16, 8))};
  test_ok(&b, mk_cast(b.stream, &cast), "cast");
  const mk_op_stats *stats = &b.dev->stats[MK_OP_cast];
  ck_assert(stats->calls == 1 && isnan(stats->flops) && isnan(stats->bytes) && isnan(stats->bound_s));
  test_bench_close(&b);
}
END_TEST

static mk_status note_threads(mk_stream *stream, const void *args) {
  (void)stream;
  **(int *const *)args = omp_get_max_threads();
  return MK_OK;
}

START_TEST(threads_are_those_asked_for) {
  for (int threads = 1; threads <= 3; threads++) {
    mk_device_config config = {.name = cpu_devices[_i], .threads = threads};
    test_bench b;
    int seen = 0, *where = &seen;
    test_bench_open(&b, &config, 1, false);
    test_ok(&b, mk_stream_call(b.stream, note_threads, &where, sizeof where), "call");
    test_ok(&b, mk_stream_sync(b.stream, false), "sync");
    ck_assert_int_eq(seen, threads);
    test_bench_close(&b);
  }
}
END_TEST

/* A loop without sums is shared between the threads as well. */
static void note_team(const void *args, int64_t first, int64_t count, float *partial) {
  (void)partial;
  for (int64_t i = first; i < first + count; i++)
    (*(int *const *)args)[i] = omp_get_num_threads();
}

START_TEST(ranges_of_width_0_use_the_team) {
  int seen[40] = {0}, *where = seen;
  omp_set_num_threads(2);
  mk_cpu_ranges_sum(40, 8, 0, note_team, &where, NULL);
  for (int i = 0; i < 40; i++)
    ck_assert_int_eq(seen[i], 2);
}
END_TEST

/* More than one piece of a copy; there, across, and back. */
START_TEST(copies_and_fills) {
  enum { N = 1200000 };
  mk_device_config config = {.name = cpu_devices[_i], .threads = 2};
  static double back[N];
  test_bench b;
  test_bench_open(&b, &config, 1, false);
  mk_tensor x = test_random(&b, "x", TEST_IN, mk_tensor_1d(MK_F32, N), 0, 1);
  mk_tensor y = test_output(&b, "y", mk_tensor_1d(MK_F32, N));
  test_ok(&b, mk_copy_d2d(b.stream, &y, &x), "copy");
  test_read(&b, &y, back);
  for (uint64_t i = 0; i < N; i += 1001)
    ck_assert(back[i] == (double)(float)back[i] && back[i] != 0);
  mk_tensor tail = mk_tensor_slice(&y, N / 2, N / 2);
  test_ok(&b, mk_fill(b.stream, &tail, 0), "fill");
  test_read(&b, &y, back);
  for (int i = N / 2; i < N; i++)
    ck_assert(back[i] == 0);
  ck_assert(back[N / 2 - 1] != 0);
  mk_tensor small = mk_tensor_slice(&y, 0, 4);
  ck_assert_int_eq(mk_copy_d2d(b.stream, &small, &x), MK_ERR_ARG);
  test_bench_close(&b);
}
END_TEST

/* Any look at device memory outside an op ends the process; run by Check in a child that must die of SIGSEGV. */
static void touch_guarded_memory(const char *name, bool guard) {
  mk_context ctx = {0};
  mk_device_config config = {.name = name, .threads = 1, .guard = guard};
  mk_device *dev = open_device(&ctx, &config);
  mk_stream *stream = NULL;
  ck_assert_int_eq(mk_stream_create(dev, "main", &stream), MK_OK);
  mk_tensor t = mk_tensor_1d(MK_F32, 4);
  ck_assert_int_eq(mk_device_alloc(dev, MK_MEM_PARAMS, 16, &t.data), MK_OK);
  ck_assert_int_eq(mk_fill(stream, &t, 0), MK_OK);
  ck_assert_int_eq(mk_stream_sync(stream, false), MK_OK);
  signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would exit instead */
  volatile float value = *(volatile float *)t.data;
  ck_assert(value == 0);
  mk_stream_destroy(stream);
  mk_device_free(dev, MK_MEM_PARAMS, t.data, 16);
  mk_device_destroy(dev);
  ck_assert_int_eq(ctx.heap_live, 0);
}

START_TEST(guarded_memory_is_unreadable) { touch_guarded_memory(cpu_devices[_i], true); }
END_TEST

START_TEST(unguarded_memory_is_readable) { touch_guarded_memory(cpu_devices[_i], false); }
END_TEST

/* A freed block is off the guard's list: its pages are gone, and protecting them would fail. */
START_TEST(guard_forgets_freed_blocks) {
  mk_context ctx = {0};
  mk_device_config config = {.name = cpu_devices[_i], .threads = 1, .guard = true};
  mk_device *dev = open_device(&ctx, &config);
  mk_stream *stream = NULL;
  mk_tensor kept = mk_tensor_1d(MK_F32, 4);
  void *freed = NULL;
  ck_assert_int_eq(mk_stream_create(dev, "main", &stream), MK_OK);
  ck_assert_int_eq(mk_device_alloc(dev, MK_MEM_PARAMS, 16, &kept.data), MK_OK);
  ck_assert_int_eq(mk_device_alloc(dev, MK_MEM_PARAMS, 9000000, &freed), MK_OK);
  mk_device_free(dev, MK_MEM_PARAMS, freed, 9000000);
  ck_assert_int_eq(mk_fill(stream, &kept, 0), MK_OK);
  ck_assert_int_eq(mk_stream_sync(stream, false), MK_OK);
  mk_stream_destroy(stream);
  mk_device_free(dev, MK_MEM_PARAMS, kept.data, 16);
  mk_device_destroy(dev);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("device");
  TCase *tcase = test_case(suite, "device", 60);
  tcase_add_test(tcase, unknown_device_lists_the_known);
  tcase_add_test(tcase, absent_devices_say_how_to_get_them);
  tcase_add_test(tcase, streams_that_are_threads_are_known);
  tcase_add_test(tcase, info_names_the_choices);
  tcase_add_test(tcase, ledger_and_budget);
  tcase_add_test(tcase, memory_is_zeroed_aligned_and_resident);
  tcase_add_test(tcase, arena_two_passes);
  tcase_add_test(tcase, arena_sizes_do_not_wrap);
  tcase_add_loop_test(tcase, every_allocation_may_fail, 0, CPU_DEVICES);
  tcase_add_test(tcase, counters_and_profile);
  tcase_add_test(tcase, profile_counts_rows_in_use);
  tcase_add_test(tcase, async_work_is_unknown);
  tcase_add_loop_test(tcase, threads_are_those_asked_for, 0, CPU_DEVICES);
  tcase_add_test(tcase, ranges_of_width_0_use_the_team);
  tcase_add_loop_test(tcase, copies_and_fills, 0, CPU_DEVICES);
  tcase_add_loop_test_raise_signal(tcase, guarded_memory_is_unreadable, SIGSEGV, 0, CPU_DEVICES);
  tcase_add_loop_test(tcase, unguarded_memory_is_readable, 0, CPU_DEVICES);
  tcase_add_loop_test(tcase, guard_forgets_freed_blocks, 0, CPU_DEVICES);
  return test_main(suite);
}
