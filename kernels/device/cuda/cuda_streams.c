/* Streams, events and launches of the cuda device. Streams are of the non-blocking kind: they do not wait for the
 * legacy default stream, which only set-up work uses. */
#include "kernels/base/heap.h"
#include "kernels/device/cuda/cuda_device.h"
#include "kernels/ops/ops.h"

typedef struct cuda_event {
  mk_event base;
  cudaEvent_t native;
  bool recorded;
} cuda_event;

/* ---- streams ---- */

static void unlink_stream(mk_cuda_device *dev, const mk_cuda_stream *stream) {
  for (mk_cuda_stream **link = &dev->streams; *link != NULL; link = &(*link)->next) {
    if (*link != stream) continue;
    *link = stream->next;
    return;
  }
}

/* Ends what is on the stream first: its functions and kernels use what is freed here. */
void mk_cuda_stream_destroy(mk_stream *base) {
  mk_cuda_stream *stream = mk_cuda_stream_of(base);
  mk_device *dev = base->dev;
  unlink_stream(mk_cuda_device_of(base), stream);
  if (stream->native != NULL) {
    cudaStreamSynchronize(stream->native);
    cudaStreamDestroy(stream->native);
  }
  if (stream->scratch != NULL) mk_device_free(dev, MK_MEM_WORKSPACE, stream->scratch, MK_CUDA_SCRATCH_BYTES);
  if (stream->blas_memory != NULL) mk_device_free(dev, MK_MEM_WORKSPACE, stream->blas_memory, MK_CUDA_BLAS_BYTES);
  mk_cuda_calls_destroy(dev->ctx, stream->calls);
  mk_heap_free(dev->ctx, stream);
}

mk_status mk_cuda_stream_create(mk_device *dev, const char *name, mk_stream **out) {
  mk_cuda_stream *stream = NULL;
  mk_context *ctx = dev->ctx;
  mk_status st = MK_OK;
  MK_TRY(ctx, mk_cuda_enter(dev));
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *stream, &stream));
  stream->base = (mk_stream){.dev = dev, .name = name};
  MK_TRY_GOTO(ctx, mk_cuda_calls_create(stream, &stream->calls), out);
  MK_TRY_GOTO(ctx, mk_device_alloc(dev, MK_MEM_WORKSPACE, MK_CUDA_BLAS_BYTES, &stream->blas_memory), out);
  MK_TRY_GOTO(ctx, mk_device_alloc(dev, MK_MEM_WORKSPACE, MK_CUDA_SCRATCH_BYTES, &stream->scratch), out);
  MK_CUDA_GOTO(ctx, cudaStreamCreateWithFlags(&stream->native, cudaStreamNonBlocking), out);
  stream->next = ((mk_cuda_device *)dev)->streams;
  ((mk_cuda_device *)dev)->streams = stream;
  *out = &stream->base;
  return MK_OK;
out:
  mk_cuda_stream_destroy(&stream->base);
  return st;
}

mk_status mk_cuda_stream_sync(mk_stream *base) {
  mk_cuda_stream *stream = mk_cuda_stream_of(base);
  MK_CUDA_WAIT(base->dev, cudaStreamSynchronize(stream->native));
  return mk_cuda_calls_poll(stream);
}

/* ---- launches ---- */

/* Profile mode: device time of this op alone. It waits after each launch, so nothing overlaps. */
static mk_status launch_timed(mk_stream *base, mk_op_id op, const void *args) {
  mk_cuda_device *dev = mk_cuda_device_of(base);
  cudaStream_t native = mk_cuda_stream_of(base)->native;
  float ms = 0;
  MK_CUDA(base->dev->ctx, cudaEventRecord(dev->begin, native));
  MK_TRY(base->dev->ctx, dev->base.table[op](base, args));
  MK_CUDA(base->dev->ctx, cudaEventRecord(dev->end, native));
  MK_CUDA_WAIT(base->dev, cudaEventSynchronize(dev->end));
  MK_CUDA(base->dev->ctx, cudaEventElapsedTime(&ms, dev->begin, dev->end));
  dev->base.stats[op].seconds += 1e-3 * (double)ms;
  mk_device_count_work(&dev->base, op, args, false);
  return MK_OK;
}

mk_status mk_cuda_launch(mk_stream *base, mk_op_id op, const void *args, size_t args_bytes) {
  mk_device *dev = base->dev;
  (void)args_bytes; /* kernels take their arguments by value */
  MK_CHECK(dev->ctx, dev->table[op] != NULL, MK_ERR_UNSUPPORTED,
           "%s: the cuda device has no kernel for this op yet; use device cpu", mk_op_name(op));
  MK_TRY(dev->ctx, mk_cuda_enter(dev));
  if (dev->config.profile) return launch_timed(base, op, args);
  return dev->table[op](base, args);
}

/* ---- events ---- */

void mk_cuda_event_destroy(mk_event *base) {
  cuda_event *event = (cuda_event *)base;
  if (event->native != NULL) cudaEventDestroy(event->native);
  mk_heap_free(base->dev->ctx, event);
}

mk_status mk_cuda_event_create(mk_device *dev, mk_event **out) {
  cuda_event *event = NULL;
  mk_status st = MK_OK;
  MK_TRY(dev->ctx, mk_cuda_enter(dev));
  MK_TRY(dev->ctx, mk_heap_alloc(dev->ctx, sizeof *event, &event));
  event->base.dev = dev;
  MK_CUDA_GOTO(dev->ctx, cudaEventCreateWithFlags(&event->native, cudaEventBlockingSync), out);
  *out = &event->base;
  return MK_OK;
out:
  mk_cuda_event_destroy(&event->base);
  return st;
}

mk_status mk_cuda_event_record(mk_event *base, mk_stream *stream) {
  cuda_event *event = (cuda_event *)base;
  MK_CUDA_WAIT(base->dev, cudaEventRecord(event->native, mk_cuda_stream_of(stream)->native));
  event->recorded = true;
  return MK_OK;
}

mk_status mk_cuda_stream_wait(mk_stream *stream, mk_event *event) {
  MK_CUDA_WAIT(stream->dev, cudaStreamWaitEvent(mk_cuda_stream_of(stream)->native, ((cuda_event *)event)->native, 0));
  return MK_OK;
}

mk_status mk_cuda_event_sync(mk_event *event) {
  MK_CUDA_WAIT(event->dev, cudaEventSynchronize(((cuda_event *)event)->native));
  return MK_OK;
}

mk_status mk_cuda_event_elapsed_s(mk_event *begin, mk_event *end, double *out) {
  const cuda_event *first = (const cuda_event *)begin, *last = (const cuda_event *)end;
  float ms = 0;
  MK_CHECK(begin->dev->ctx, first->recorded && last->recorded, MK_ERR_ARG,
           "elapsed time between events that were not recorded");
  MK_CUDA_WAIT(begin->dev, cudaEventElapsedTime(&ms, first->native, last->native));
  *out = 1e-3 * (double)ms;
  return MK_OK;
}

/* ---- faults ---- */

/* A busy stream leaves cudaErrorNotReady in CUDA's record, where the next launch would find it. */
mk_status mk_cuda_query(mk_cuda_stream *stream) {
  cudaError_t state = cudaStreamQuery(stream->native);
  if (state == cudaErrorNotReady) {
    cudaGetLastError();
  } else {
    MK_CUDA_WAIT(stream->base.dev, state);
  }
  return MK_OK;
}

mk_status mk_cuda_poll(mk_device *dev) {
  MK_CUDA_WAIT(dev, cudaGetLastError());
  for (mk_cuda_stream *stream = ((mk_cuda_device *)dev)->streams; stream != NULL; stream = stream->next) {
    MK_TRY(dev->ctx, mk_cuda_query(stream));
    MK_TRY(dev->ctx, mk_cuda_calls_poll(stream));
  }
  return MK_OK;
}
