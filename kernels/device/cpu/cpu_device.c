/* The cpu device: a stream runs each item at once, on the calling thread, with a team of OpenMP threads inside an op.
 * `ref` is the same device over the table of reference kernels. Waits find everything done; faults are synchronous. */
#include "kernels/device/cpu/cpu_device.h"

#include "kernels/base/heap.h"

typedef struct cpu_event {
  mk_event base;
  bool recorded;
  double at_s;
} cpu_event;

static mk_status stream_create(mk_device *dev, const char *name, mk_stream **out) {
  mk_stream *stream = NULL;
  MK_TRY(dev->ctx, mk_heap_alloc(dev->ctx, sizeof *stream, &stream));
  stream->dev = dev;
  stream->name = name;
  *out = stream;
  return MK_OK;
}

static void stream_destroy(mk_stream *stream) { mk_heap_free(stream->dev->ctx, stream); }

static mk_status launch(mk_stream *stream, mk_op_id op, const void *args, size_t args_bytes) {
  (void)args_bytes;
  return mk_cpu_run_op(stream, op, args);
}

static mk_status call(mk_stream *stream, mk_call_fn fn, const void *args, size_t args_bytes) {
  (void)args_bytes;
  double begin_s = mk_cpu_now_s(stream->dev);
  mk_status st = mk_cpu_run_call(stream, fn, args);
  stream->dev->call_s += mk_cpu_now_s(stream->dev) - begin_s;
  return st;
}

static mk_status copy(mk_stream *stream, void *dst, const void *src, size_t bytes, int kind) {
  (void)kind;
  return mk_cpu_run_copy(stream, dst, src, bytes);
}

static mk_status event_create(mk_device *dev, mk_event **out) {
  cpu_event *event = NULL;
  MK_TRY(dev->ctx, mk_heap_alloc(dev->ctx, sizeof *event, &event));
  event->base.dev = dev;
  *out = &event->base;
  return MK_OK;
}

static void event_destroy(mk_event *event) { mk_heap_free(event->dev->ctx, event); }

static mk_status event_record(mk_event *event, mk_stream *stream) {
  cpu_event *own = (cpu_event *)event;
  own->at_s = mk_cpu_now_s(stream->dev);
  own->recorded = true;
  return MK_OK;
}

static mk_status stream_wait(mk_stream *stream, mk_event *event) {
  (void)stream;
  (void)event;
  return MK_OK;
}

static mk_status event_sync(mk_event *event) {
  (void)event;
  return MK_OK;
}

static mk_status event_elapsed_s(mk_event *begin, mk_event *end, double *out) {
  const cpu_event *first = (const cpu_event *)begin, *last = (const cpu_event *)end;
  MK_CHECK(begin->dev->ctx, first->recorded && last->recorded, MK_ERR_ARG,
           "elapsed time between events that were not recorded");
  *out = last->at_s - first->at_s;
  return MK_OK;
}

static mk_status stream_sync(mk_stream *stream) {
  (void)stream;
  return MK_OK;
}

static void destroy(mk_device *dev) {
  mk_context *ctx = dev->ctx;
  mk_cpu_device_fini((mk_cpu_device *)dev);
  mk_heap_free(ctx, dev);
}

static const mk_device_ops cpu_ops = {
    .name = "cpu",
    .alloc = mk_cpu_alloc,
    .free = mk_cpu_free,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .launch = launch,
    .call = call,
    .copy = copy,
    .fill = mk_cpu_run_fill,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .stream_wait = stream_wait,
    .event_sync = event_sync,
    .event_elapsed_s = event_elapsed_s,
    .stream_sync = stream_sync,
    .now_s = mk_cpu_now_s,
    .gemm_pack_bytes = mk_cpu_gemm_pack_bytes,
    .info = mk_cpu_info,
    .destroy = destroy,
};

static mk_status create(mk_context *ctx, const mk_device_config *config, const mk_op_fn *table, mk_device **out) {
  mk_cpu_device *dev = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *dev, &dev));
  mk_status st = mk_cpu_device_init(dev, ctx, config, &cpu_ops, table);
  if (st != MK_OK) {
    destroy(&dev->base);
    return mk_trace(ctx, st, __FILE__, __LINE__);
  }
  *out = &dev->base;
  return MK_OK;
}

mk_status mk_device_cpu_create(mk_context *ctx, const mk_device_config *config, mk_device **out) {
  return create(ctx, config, mk_cpu_op_table(), out);
}

mk_status mk_device_ref_create(mk_context *ctx, const mk_device_config *config, mk_device **out) {
  return create(ctx, config, mk_ref_op_table(), out);
}
