/* The public face of a device: checks arguments, keeps the memory ledger and the counters, forwards to the backend. */
#include "kernels/device/device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/device/backends.h"
#include "kernels/ops/op_rows.h"

/* ---- creation ---- */

void mk_device_init(mk_device *dev, mk_context *ctx, const mk_device_config *config, const mk_device_ops *ops,
                    const mk_op_fn *table) {
  dev->ops = ops;
  dev->table = table;
  dev->ctx = ctx;
  dev->config = *config;
  dev->config.name = mk_backend_find(config->name)->name; /* the caller's text need not live as long */
}

mk_status mk_device_create(mk_context *ctx, const mk_device_config *config, mk_device **out) {
  char names[128];
  MK_CHECK(ctx, config->name != NULL, MK_ERR_CONFIG, "no device named; known: %s",
           mk_backend_names(names, sizeof names));
  MK_CHECK(ctx, config->threads >= 0, MK_ERR_CONFIG, "device threads must not be negative, got %d", config->threads);
  const mk_backend *backend = mk_backend_find(config->name);
  MK_CHECK(ctx, backend != NULL, MK_ERR_CONFIG, "unknown device '%s'; known: %s", config->name,
           mk_backend_names(names, sizeof names));
  MK_TRY(ctx, backend->create(ctx, config, out));
  return MK_OK;
}

void mk_device_destroy(mk_device *dev) {
  if (dev != NULL) dev->ops->destroy(dev);
}

void mk_device_info_get(mk_device *dev, mk_device_info *out) {
  *out = (mk_device_info){0};
  dev->ops->info(dev, out);
}

/* ---- streams and launches ---- */

mk_status mk_stream_create(mk_device *dev, const char *name, mk_stream **out) {
  MK_TRY(dev->ctx, dev->ops->stream_create(dev, name, out));
  return MK_OK;
}

void mk_stream_destroy(mk_stream *stream) {
  if (stream != NULL) stream->dev->ops->stream_destroy(stream);
}

void mk_device_count_work(mk_device *dev, mk_op_id op, const void *args, bool host_reads) {
  mk_op_stats *stats = &dev->stats[op];
  const mk_roofline *roof = &dev->roofline;
  if (!host_reads && mk_op_rows_on_device(op, args)) {
    stats->flops = stats->bytes = stats->bound_s = NAN;
    return;
  }
  mk_work work = mk_op_work(op, args, mk_op_rows(op, args));
  double peak = work.gemm ? roof->gemm_flops : roof->other_flops;
  double compute_s = peak > 0 ? work.flops / peak : 0;
  double memory_s = roof->bytes_per_s > 0 ? work.bytes / roof->bytes_per_s : 0;
  stats->flops += work.flops;
  stats->bytes += work.bytes;
  stats->bound_s += compute_s > memory_s ? compute_s : memory_s;
}

mk_status mk_stream_launch(mk_stream *stream, mk_op_id op, const void *args, size_t args_bytes) {
  mk_device *dev = stream->dev;
  MK_CHECK(dev->ctx, args_bytes <= MK_MAX_ARGS_BYTES, MK_ERR_ARG, "%s: arguments of %zu bytes exceed the limit of %d",
           mk_op_name(op), args_bytes, MK_MAX_ARGS_BYTES);
  dev->ring[dev->launches % MK_LAUNCH_RING] = op;
  dev->launches += 1;
  dev->stats[op].calls += 1;
  MK_TRY(dev->ctx, dev->ops->launch(stream, op, args, args_bytes));
  return MK_OK;
}

const char *mk_device_recent_ops(const mk_device *dev, int count, char *text, size_t bytes) {
  size_t used = 0;
  text[0] = '\0';
  for (int64_t at = dev->launches - 1; at >= 0 && at >= dev->launches - count && used < bytes; at--) {
    const char *name = mk_op_name(dev->ring[at % MK_LAUNCH_RING]);
    int wrote = snprintf(text + used, bytes - used, "%s%s", used == 0 ? "" : ", ", name);
    used += wrote > 0 ? (size_t)wrote : 0;
  }
  return text;
}

mk_status mk_stream_call(mk_stream *stream, mk_call_fn fn, const void *args, size_t args_bytes) {
  mk_device *dev = stream->dev;
  MK_CHECK(dev->ctx, args_bytes <= MK_MAX_ARGS_BYTES, MK_ERR_ARG,
           "stream call: arguments of %zu bytes exceed the limit of %d", args_bytes, MK_MAX_ARGS_BYTES);
  MK_TRY(dev->ctx, dev->ops->call(stream, fn, args, args_bytes));
  return MK_OK;
}

void *mk_stream_native(mk_stream *stream) {
  const mk_device_ops *ops = stream->dev->ops;
  return ops->stream_native != NULL ? ops->stream_native(stream) : NULL;
}

size_t mk_gemm_pack_bytes(mk_device *dev, mk_dtype dtype, int64_t groups, int64_t n, int64_t k) {
  return dev->ops->gemm_pack_bytes != NULL ? dev->ops->gemm_pack_bytes(dev, dtype, groups, n, k) : 0;
}

/* ---- copies ---- */

mk_status mk_copy_h2d(mk_stream *stream, const mk_tensor *dst, const void *src) {
  size_t bytes = mk_tensor_bytes(dst);
  if (bytes > 0) MK_TRY(stream->dev->ctx, stream->dev->ops->copy(stream, dst->data, src, bytes, MK_COPY_H2D));
  return MK_OK;
}

mk_status mk_copy_d2h(mk_stream *stream, void *dst, const mk_tensor *src) {
  size_t bytes = mk_tensor_bytes(src);
  if (bytes > 0) MK_TRY(stream->dev->ctx, stream->dev->ops->copy(stream, dst, src->data, bytes, MK_COPY_D2H));
  return MK_OK;
}

mk_status mk_copy_d2d(mk_stream *stream, const mk_tensor *dst, const mk_tensor *src) {
  mk_context *ctx = stream->dev->ctx;
  size_t bytes = mk_tensor_bytes(src);
  char to[96], from[96];
  MK_CHECK(ctx, mk_tensor_bytes(dst) == bytes && dst->dtype == src->dtype, MK_ERR_ARG, "copy: %s does not fit %s",
           mk_tensor_describe(src, from, sizeof from), mk_tensor_describe(dst, to, sizeof to));
  if (bytes > 0) MK_TRY(ctx, stream->dev->ops->copy(stream, dst->data, src->data, bytes, MK_COPY_D2D));
  return MK_OK;
}

mk_status mk_fill(mk_stream *stream, const mk_tensor *dst, int byte) {
  size_t bytes = mk_tensor_bytes(dst);
  if (bytes > 0) MK_TRY(stream->dev->ctx, stream->dev->ops->fill(stream, dst->data, byte, bytes));
  return MK_OK;
}

/* ---- events, waits, clock ---- */

mk_status mk_event_create(mk_device *dev, mk_event **out) {
  MK_TRY(dev->ctx, dev->ops->event_create(dev, out));
  return MK_OK;
}

void mk_event_destroy(mk_event *event) {
  if (event != NULL) event->dev->ops->event_destroy(event);
}

mk_status mk_event_record(mk_event *event, mk_stream *stream) {
  MK_TRY(stream->dev->ctx, stream->dev->ops->event_record(event, stream));
  return MK_OK;
}

mk_status mk_stream_wait(mk_stream *stream, mk_event *event) {
  MK_TRY(stream->dev->ctx, stream->dev->ops->stream_wait(stream, event));
  return MK_OK;
}

mk_status mk_event_sync(mk_event *event, bool in_step) {
  mk_device *dev = event->dev;
  dev->host_waits += in_step ? 1 : 0;
  MK_TRY(dev->ctx, dev->ops->event_sync(event));
  return MK_OK;
}

mk_status mk_stream_sync(mk_stream *stream, bool in_step) {
  mk_device *dev = stream->dev;
  dev->host_waits += in_step ? 1 : 0;
  MK_TRY(dev->ctx, dev->ops->stream_sync(stream));
  return MK_OK;
}

mk_status mk_event_elapsed_s(mk_event *begin, mk_event *end, double *out) {
  MK_TRY(begin->dev->ctx, begin->dev->ops->event_elapsed_s(begin, end, out));
  return MK_OK;
}

double mk_device_now_s(mk_device *dev) { return dev->ops->now_s(dev); }

mk_status mk_device_poll(mk_device *dev) {
  if (dev->ops->poll != NULL) MK_TRY(dev->ctx, dev->ops->poll(dev));
  return MK_OK;
}
