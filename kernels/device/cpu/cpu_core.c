/* What cpu and cpu_async share: set-up, memory, clock, and running one item of a stream on the calling thread. */
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kernels/device/cpu/cpu_device.h"
#include "kernels/device/cpu/isa.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/ops/ops.h"

enum { COPY_GRAIN_BYTES = 1 << 20 };

mk_status mk_cpu_device_init(mk_cpu_device *dev, mk_context *ctx, const mk_device_config *config,
                             const mk_device_ops *ops, const mk_op_fn *table) {
  mk_device_init(&dev->base, ctx, config, ops, table);
  dev->threads = config->threads > 0 ? config->threads : omp_get_max_threads();
  dev->kernel = mk_cpu_choose_kernel(config->kernel);
  MK_TRY(ctx, mk_cpu_memory_create(ctx, config->guard, &dev->memory));
  MK_TRY(ctx, mk_cpu_gemm_create(dev, &dev->gemm));
  return MK_OK;
}

void mk_cpu_device_fini(mk_cpu_device *dev) {
  mk_cpu_gemm_destroy(dev->base.ctx, dev->gemm);
  mk_cpu_memory_destroy(dev->base.ctx, dev->memory);
}

mk_status mk_cpu_alloc(mk_device *dev, size_t bytes, void **out) {
  return mk_cpu_memory_alloc(dev->ctx, ((mk_cpu_device *)dev)->memory, bytes, out);
}

void mk_cpu_free(mk_device *dev, void *block, size_t bytes) {
  mk_cpu_memory_free(dev->ctx, ((mk_cpu_device *)dev)->memory, block, bytes);
}

double mk_cpu_now_s(mk_device *dev) {
  (void)dev;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void mk_cpu_info(mk_device *dev, mk_device_info *out) {
  const mk_cpu_device *cpu = (const mk_cpu_device *)dev;
  char version[32];
  out->threads = cpu->threads;
  snprintf(out->isa, sizeof out->isa, "%s", mk_cpu_isa_name());
  snprintf(out->kernel, sizeof out->kernel, "%s", mk_kernel_name(cpu->kernel));
  snprintf(out->library, sizeof out->library, "oneDNN %s", mk_cpu_library_version(version, sizeof version));
  snprintf(out->text, sizeof out->text, "%s: %d threads, isa %s, bf16 gemm %s, %s", dev->config.name, out->threads,
           out->isa, out->kernel, out->library);
}

mk_status mk_cpu_check_float(mk_stream *stream, mk_op_id op, mk_dtype dtype) {
  MK_CHECK(stream->dev->ctx, dtype == MK_F32 || dtype == MK_BF16, MK_ERR_UNSUPPORTED,
           "%s: the cpu kernel takes f32 and bf16, not %s; use the ref device", mk_op_name(op), mk_dtype_name(dtype));
  return MK_OK;
}

/* Leaves the guard whatever happened inside; the first error wins. */
static mk_status leave(mk_stream *stream, mk_status st) {
  mk_status left = mk_cpu_memory_leave(stream->dev->ctx, mk_cpu_device_of(stream)->memory);
  return st != MK_OK ? st : left;
}

static mk_status enter(mk_stream *stream) {
  mk_cpu_device *dev = mk_cpu_device_of(stream);
  omp_set_num_threads(dev->threads); /* of the calling thread only, so that devices do not disturb each other */
  return mk_cpu_memory_enter(dev->base.ctx, dev->memory);
}

mk_status mk_cpu_run_op(mk_stream *stream, mk_op_id op, const void *args) {
  mk_device *dev = stream->dev;
  MK_TRY(dev->ctx, enter(stream));
  double begin_s = dev->config.profile ? mk_cpu_now_s(dev) : 0;
  mk_status st = dev->table[op](stream, args);
  if (dev->config.profile) {
    dev->stats[op].seconds += mk_cpu_now_s(dev) - begin_s;
    if (st == MK_OK) mk_device_count_work(dev, op, args, true);
  }
  MK_TRY(dev->ctx, leave(stream, st));
  return MK_OK;
}

mk_status mk_cpu_run_call(mk_stream *stream, mk_call_fn fn, const void *args) {
  MK_TRY(stream->dev->ctx, enter(stream));
  MK_TRY(stream->dev->ctx, leave(stream, fn(stream, args)));
  return MK_OK;
}

typedef struct copy_args {
  char *dst;
  const char *src;
  int byte;
} copy_args;

static void copy_range(const void *args, int64_t first, int64_t count) {
  const copy_args *copy = args;
  memcpy(copy->dst + first, copy->src + first, (size_t)count);
}

static void fill_range(const void *args, int64_t first, int64_t count) {
  const copy_args *fill = args;
  memset(fill->dst + first, fill->byte, (size_t)count);
}

mk_status mk_cpu_run_copy(mk_stream *stream, void *dst, const void *src, size_t bytes) {
  copy_args copy = {.dst = dst, .src = src};
  MK_TRY(stream->dev->ctx, enter(stream));
  if (dst != src) mk_cpu_ranges((int64_t)bytes, COPY_GRAIN_BYTES, copy_range, &copy);
  MK_TRY(stream->dev->ctx, leave(stream, MK_OK));
  return MK_OK;
}

mk_status mk_cpu_run_fill(mk_stream *stream, void *dst, int byte, size_t bytes) {
  copy_args fill = {.dst = dst, .byte = byte};
  MK_TRY(stream->dev->ctx, enter(stream));
  mk_cpu_ranges((int64_t)bytes, COPY_GRAIN_BYTES, fill_range, &fill);
  MK_TRY(stream->dev->ctx, leave(stream, MK_OK));
  return MK_OK;
}
