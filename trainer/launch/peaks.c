/* Rates of this machine. Each is the best of repeats: interference only ever slows a run down. GEMM launches are short
 * (2 ms at 250 GFLOP/s), so that some run undisturbed on a machine that is not idle. */
#include "trainer/launch/peaks.h"

#include <stdio.h>

#include "kernels/base/out.h"
#include "kernels/device/arena.h"

enum { ROWS = 1024, WIDTH = 512, LEAST_REPEATS = 3, MOST_REPEATS = 100, STREAM_ELEMENTS = 32 << 20, FILL = 0x3c };

#define BUDGET_S 0.5 /* of one rate */

/* A device with a stream, two events and one arena. */
typedef struct meter {
  mk_context *ctx;
  mk_device *dev;
  mk_stream *stream;
  mk_event *begin, *end;
} meter;

/* An op ready to be launched, and its tensors. */
typedef struct probe {
  mk_tensor a, b, c, packed;
  mk_status (*launch)(mk_stream *stream, const struct probe *probe);
} probe;

static mk_status launch_gemm(mk_stream *stream, const probe *p) {
  return mk_linear_fwd(stream, &(mk_linear_fwd_args){.x = p->a, .w = p->b, .packed = p->packed, .y = p->c});
}

static mk_status launch_add(mk_stream *stream, const probe *p) {
  return mk_add(stream, &(mk_add_args){.a = p->a, .b = p->b, .y = p->c});
}

static void meter_close(meter *m) {
  mk_event_destroy(m->end);
  mk_event_destroy(m->begin);
  mk_stream_destroy(m->stream);
  mk_device_destroy(m->dev);
}

static mk_status meter_open(meter *m, mk_context *ctx, const mt_config *cfg) {
  const mk_device_config config = {.name = cfg->device, .threads = (int)cfg->threads, .kernel = cfg->kernel};
  *m = (meter){.ctx = ctx};
  MK_TRY(ctx, mk_device_create(ctx, &config, &m->dev));
  MK_TRY(ctx, mk_stream_create(m->dev, "peaks", &m->stream));
  MK_TRY(ctx, mk_event_create(m->dev, &m->begin));
  return mk_event_create(m->dev, &m->end);
}

/* Numbers of ordinary size in every dtype: zeros could run cooler and faster. */
static mk_status fill(meter *m, const probe *p) {
  MK_TRY(m->ctx, mk_fill(m->stream, &p->a, FILL));
  MK_TRY(m->ctx, mk_fill(m->stream, &p->b, FILL));
  if (!mk_tensor_present(&p->packed)) return MK_OK;
  return mk_linear_pack(m->stream, &(mk_linear_pack_args){.w = p->b, .packed = p->packed});
}

/* Shortest time of one launch, in seconds. */
static mk_status time_launches(meter *m, const probe *p, double *out) {
  double best = 0, spent = 0;
  MK_TRY(m->ctx, fill(m, p));
  for (int i = 0; i <= LEAST_REPEATS || (i <= MOST_REPEATS && spent < BUDGET_S); i++) {
    double took = 0;
    MK_TRY(m->ctx, mk_event_record(m->begin, m->stream));
    MK_TRY(m->ctx, p->launch(m->stream, p));
    MK_TRY(m->ctx, mk_event_record(m->end, m->stream));
    MK_TRY(m->ctx, mk_stream_sync(m->stream, false));
    MK_TRY(m->ctx, mk_event_elapsed_s(m->begin, m->end, &took));
    spent += took;
    if (i > 0 && (best == 0 || took < best)) best = took; /* the first launch makes what later ones reuse */
  }
  MK_CHECK(m->ctx, best > 0, MK_ERR_DEVICE, "the device clock did not move during a launch: no rate can be measured");
  *out = best;
  return MK_OK;
}

/* Places the tensors of a probe, times it, and returns the memory. */
static mk_status measure(meter *m, probe *p, double *out) {
  mk_arena arena = mk_arena_make(m->dev, MK_MEM_WORKSPACE);
  mk_status st = MK_OK;
  for (int pass = 0; pass < 2; pass++) {
    mk_arena_place(&arena, &p->a);
    mk_arena_place(&arena, &p->b);
    mk_arena_place(&arena, &p->c);
    mk_arena_place(&arena, &p->packed);
    if (pass == 0) MK_TRY_GOTO(m->ctx, mk_arena_commit(&arena), out);
  }
  MK_TRY_GOTO(m->ctx, time_launches(m, p, out), out);
out:
  mk_arena_release(&arena);
  return st;
}

static mk_status measure_gemm(meter *m, mk_dtype dtype, double *flops) {
  probe p = {.launch = launch_gemm};
  p.a = mk_tensor_2d(dtype, ROWS, WIDTH);
  p.b = mk_tensor_2d(dtype, WIDTH, WIDTH);
  p.c = mk_tensor_2d(dtype, ROWS, WIDTH);
  size_t packed = mk_gemm_pack_bytes(m->dev, dtype, 1, WIDTH, WIDTH);
  if (packed > 0) p.packed = mk_tensor_1d(MK_U8, (int64_t)packed);
  double seconds = 0;
  MK_TRY(m->ctx, measure(m, &p, &seconds));
  *flops = 2.0 * ROWS * WIDTH * WIDTH / seconds;
  return MK_OK;
}

static mk_status measure_bandwidth(meter *m, double *bytes_per_s) {
  probe p = {.launch = launch_add};
  p.a = mk_tensor_1d(MK_F32, STREAM_ELEMENTS);
  p.b = p.a;
  p.c = p.a;
  double seconds = 0;
  MK_TRY(m->ctx, measure(m, &p, &seconds));
  *bytes_per_s = 3.0 * STREAM_ELEMENTS * sizeof(float) / seconds;
  return MK_OK;
}

mk_status mt_peaks_measure(mk_context *ctx, const mt_config *cfg, mt_peaks *out) {
  meter m;
  mt_peaks peaks = {0};
  mk_device_info info = {0};
  mk_status st = MK_OK;
  MK_TRY_GOTO(ctx, meter_open(&m, ctx, cfg), out);
  mk_device_info_get(m.dev, &info);
  peaks.threads = info.threads;
  snprintf(peaks.kernel, sizeof peaks.kernel, "%s", info.kernel);
  MK_TRY_GOTO(ctx, measure_gemm(&m, MK_F32, &peaks.gemm_fp32_flops), out);
  MK_TRY_GOTO(ctx, measure_gemm(&m, MK_BF16, &peaks.gemm_bf16_flops), out);
  MK_TRY_GOTO(ctx, measure_bandwidth(&m, &peaks.bandwidth_bytes_per_s), out);
  *out = peaks;
out:
  meter_close(&m);
  return st;
}

mk_roofline mt_peaks_roofline(const mt_peaks *peaks, mt_precision precision) {
  bool bf16 = precision == MT_BF16 || precision == MT_MXFP8;
  return (mk_roofline){.gemm_flops = bf16 ? peaks->gemm_bf16_flops : peaks->gemm_fp32_flops,
                       .other_flops = peaks->gemm_fp32_flops,
                       .bytes_per_s = peaks->bandwidth_bytes_per_s};
}

mk_status mt_peaks_print(mk_context *ctx, const mt_config *cfg) {
  mt_peaks peaks;
  MK_TRY(ctx, mt_peaks_measure(ctx, cfg, &peaks));
  mk_out(
      "{\"gemm_fp32_flops\":%.6g,\"gemm_bf16_flops\":%.6g,\"bandwidth_bytes_per_s\":%.6g,\"kernel\":\"%s\","
      "\"threads\":%d}\n",
      peaks.gemm_fp32_flops, peaks.gemm_bf16_flops, peaks.bandwidth_bytes_per_s, peaks.kernel, peaks.threads);
  return MK_OK;
}
