/* cpu_async: a test device that makes a missing wait visible. Each stream is a thread with a ring of copied items and
 * sleeps a random while before each; nothing runs before it has to. Kernels are those of cpu, so are the bits.
 *
 * After a fault a stream skips its items but still passes events, so that nobody hangs; poll reports the fault.
 * Times of ops stay with the workers, and work is not counted (NaN): this device is not for measuring. */
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "kernels/base/heap.h"
#include "kernels/base/rng.h"
#include "kernels/device/cpu/async_event.h"
#include "kernels/device/cpu/cpu_device.h"
#include "kernels/ops/ops.h"

enum { RING = 64, DELAY_MAX_NS = 300000 };

typedef enum item_kind { ITEM_OP, ITEM_CALL, ITEM_COPY, ITEM_FILL, ITEM_RECORD, ITEM_WAIT } item_kind;

typedef struct item {
  item_kind kind;
  mk_op_id op;
  mk_call_fn fn;
  void *dst;
  const void *src;
  size_t bytes;
  int byte;
  mk_async_event *event;
  int64_t count; /* of the event: which record */
  char args[MK_MAX_ARGS_BYTES] __attribute__((aligned(16)));
} item;

typedef struct async_device {
  mk_cpu_device cpu;
  struct async_stream *streams; /* linked, for poll */
  uint32_t streams_made;
} async_device;

typedef struct async_stream {
  mk_stream base;       /* what the host holds */
  mk_cpu_device worker; /* the device as the thread sees it: own error record, own GEMM state */
  mk_context worker_ctx;
  mk_stream worker_stream; /* what ops running on the thread get */
  struct async_stream *next;
  uint32_t id;
  pthread_t thread;
  pthread_mutex_t lock; /* of all below */
  pthread_cond_t changed;
  int64_t put, done; /* items put by the host, finished by the thread */
  bool stop;
  mk_status status; /* first fault */
  mk_op_id failed_op;
  bool failed_in_op;
  item ring[RING];
} async_stream;

/* ---- the stream's thread ---- */

static void delay(const async_stream *stream, int64_t index) {
  mk_rng_block draw = mk_rng_draw(stream->worker.base.config.seed, MK_RNG_DELAY, stream->id, (uint64_t)index);
  struct timespec pause = {.tv_nsec = (long)(mk_rng_unit(draw.word[0]) * DELAY_MAX_NS)};
  nanosleep(&pause, NULL);
}

static mk_status run_item(async_stream *stream, const item *work) {
  mk_stream *on = &stream->worker_stream;
  switch (work->kind) {
    case ITEM_OP:
      return mk_cpu_run_op(on, work->op, work->args);
    case ITEM_CALL:
      return mk_cpu_run_call(on, work->fn, work->args);
    case ITEM_COPY:
      return mk_cpu_run_copy(on, work->dst, work->src, work->bytes);
    case ITEM_FILL:
      return mk_cpu_run_fill(on, work->dst, work->byte, work->bytes);
    default:
      return MK_OK;
  }
}

/* Events always pass; the rest only while the stream is healthy. */
static void run_or_skip(async_stream *stream, const item *work) {
  if (work->kind == ITEM_RECORD) {
    mk_async_event_pass(work->event, work->count, mk_cpu_now_s(&stream->worker.base));
  } else if (work->kind == ITEM_WAIT) {
    mk_async_event_await(work->event, work->count);
  } else if (stream->worker_ctx.error.status == MK_OK) {
    mk_status st = run_item(stream, work);
    if (st == MK_OK) return;
    pthread_mutex_lock(&stream->lock);
    stream->status = st;
    stream->failed_in_op = work->kind == ITEM_OP;
    stream->failed_op = work->op;
    pthread_mutex_unlock(&stream->lock);
  }
}

static void *stream_main(void *arg) {
  async_stream *stream = arg;
  for (int64_t index = 0;; index++) {
    pthread_mutex_lock(&stream->lock);
    while (stream->put == index && !stream->stop)
      pthread_cond_wait(&stream->changed, &stream->lock);
    bool end = stream->put == index;
    pthread_mutex_unlock(&stream->lock);
    if (end) return NULL;
    delay(stream, index);
    run_or_skip(stream, &stream->ring[index % RING]);
    pthread_mutex_lock(&stream->lock);
    stream->done = index + 1;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
  }
}

/* ---- the host's side ---- */

/* Takes the next free item (blocking while the ring is full); publish hands it to the thread. One host thread. */
static item *claim(mk_stream *base) {
  async_stream *stream = (async_stream *)base;
  pthread_mutex_lock(&stream->lock);
  while (stream->put - stream->done >= RING)
    pthread_cond_wait(&stream->changed, &stream->lock);
  item *next = &stream->ring[stream->put % RING];
  pthread_mutex_unlock(&stream->lock);
  return next;
}

static mk_status publish(mk_stream *base) {
  async_stream *stream = (async_stream *)base;
  pthread_mutex_lock(&stream->lock);
  stream->put += 1;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
  return MK_OK;
}

static mk_status launch(mk_stream *stream, mk_op_id op, const void *args, size_t args_bytes) {
  item *work = claim(stream);
  work->kind = ITEM_OP;
  work->op = op;
  memcpy(work->args, args, args_bytes);
  return publish(stream);
}

static mk_status call(mk_stream *stream, mk_call_fn fn, const void *args, size_t args_bytes) {
  item *work = claim(stream);
  work->kind = ITEM_CALL;
  work->fn = fn;
  if (args_bytes > 0) memcpy(work->args, args, args_bytes);
  return publish(stream);
}

static mk_status copy(mk_stream *stream, void *dst, const void *src, size_t bytes, int kind) {
  (void)kind;
  item *work = claim(stream);
  work->kind = ITEM_COPY;
  work->dst = dst;
  work->src = src;
  work->bytes = bytes;
  return publish(stream);
}

static mk_status fill(mk_stream *stream, void *dst, int byte, size_t bytes) {
  item *work = claim(stream);
  work->kind = ITEM_FILL;
  work->dst = dst;
  work->byte = byte;
  work->bytes = bytes;
  return publish(stream);
}

static void drain(async_stream *stream) {
  pthread_mutex_lock(&stream->lock);
  while (stream->done < stream->put)
    pthread_cond_wait(&stream->changed, &stream->lock);
  pthread_mutex_unlock(&stream->lock);
}

/* Moves a stream's first fault into the device's error record. */
static mk_status report(async_stream *stream) {
  pthread_mutex_lock(&stream->lock);
  mk_status st = stream->status;
  pthread_mutex_unlock(&stream->lock);
  if (st == MK_OK) return MK_OK;
  const char *what = stream->failed_in_op ? mk_op_name(stream->failed_op) : "a copy or call";
  return MK_FAIL(stream->base.dev->ctx, st, "%s on stream '%s' failed: %s", what, stream->base.name,
                 stream->worker_ctx.error.message);
}

static mk_status stream_sync(mk_stream *base) {
  drain((async_stream *)base);
  return report((async_stream *)base);
}

static mk_status poll_faults(mk_device *dev) {
  for (async_stream *stream = ((async_device *)dev)->streams; stream != NULL; stream = stream->next) {
    MK_TRY(dev->ctx, report(stream));
  }
  return MK_OK;
}

/* ---- streams ---- */

static void unlink_stream(async_device *dev, const async_stream *stream) {
  for (async_stream **link = &dev->streams; *link != NULL; link = &(*link)->next) {
    if (*link != stream) continue;
    *link = stream->next;
    return;
  }
}

static void stream_free(async_stream *stream) {
  mk_context *ctx = stream->base.dev->ctx;
  mk_cpu_gemm_destroy(&stream->worker_ctx, stream->worker.gemm);
  ctx->heap_live += stream->worker_ctx.heap_live; /* a leak of the worker's is the device's */
  pthread_cond_destroy(&stream->changed);
  pthread_mutex_destroy(&stream->lock);
  mk_heap_free(ctx, stream);
}

static void stream_destroy(mk_stream *base) {
  async_stream *stream = (async_stream *)base;
  pthread_mutex_lock(&stream->lock);
  stream->stop = true;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
  pthread_join(stream->thread, NULL);
  unlink_stream((async_device *)base->dev, stream);
  stream_free(stream);
}

/* Starts the thread over its own view of the device: the base is copied, the memory shared, the error record its own.
 */
static mk_status stream_start(async_stream *stream) {
  async_device *dev = (async_device *)stream->base.dev;
  mk_context *ctx = dev->cpu.base.ctx;
  stream->worker = dev->cpu;
  stream->worker.base.ctx = &stream->worker_ctx;
  stream->worker.gemm = NULL;
  stream->worker_ctx.rank = ctx->rank;
  stream->worker_stream = (mk_stream){.dev = &stream->worker.base, .name = stream->base.name};
  mk_status st = mk_cpu_gemm_create(&stream->worker, &stream->worker.gemm);
  MK_CHECK(ctx, st == MK_OK, st, "stream '%s': %s", stream->base.name, stream->worker_ctx.error.message);
  int failed = pthread_create(&stream->thread, NULL, stream_main, stream);
  MK_CHECK(ctx, failed == 0, MK_ERR_DEVICE, "stream '%s': no thread: %s", stream->base.name, strerror(failed));
  return MK_OK;
}

static mk_status stream_create(mk_device *base, const char *name, mk_stream **out) {
  async_device *dev = (async_device *)base;
  async_stream *stream = NULL;
  MK_TRY(base->ctx, mk_heap_alloc(base->ctx, sizeof *stream, &stream));
  stream->base = (mk_stream){.dev = base, .name = name};
  stream->id = dev->streams_made++;
  pthread_mutex_init(&stream->lock, NULL);
  pthread_cond_init(&stream->changed, NULL);
  mk_status st = stream_start(stream);
  if (st != MK_OK) {
    stream_free(stream);
    return mk_trace(base->ctx, st, __FILE__, __LINE__);
  }
  stream->next = dev->streams;
  dev->streams = stream;
  *out = &stream->base;
  return MK_OK;
}

/* ---- events ---- */

/* Streams may still hold items that name the event: they are passed first. */
static void event_destroy(mk_event *event) {
  for (async_stream *stream = ((async_device *)event->dev)->streams; stream != NULL; stream = stream->next) {
    drain(stream);
  }
  mk_async_event_destroy(event);
}

static mk_status event_record(mk_event *base, mk_stream *stream) {
  mk_async_event *event = (mk_async_event *)base;
  item *work = claim(stream);
  work->kind = ITEM_RECORD;
  work->event = event;
  work->count = ++event->issued;
  return publish(stream);
}

static mk_status stream_wait(mk_stream *stream, mk_event *base) {
  mk_async_event *event = (mk_async_event *)base;
  item *work = claim(stream);
  work->kind = ITEM_WAIT;
  work->event = event;
  work->count = event->issued;
  return publish(stream);
}

/* ---- the device ---- */

static void destroy(mk_device *dev) {
  mk_context *ctx = dev->ctx;
  while (((async_device *)dev)->streams != NULL)
    stream_destroy(&((async_device *)dev)->streams->base);
  mk_cpu_device_fini((mk_cpu_device *)dev);
  mk_heap_free(ctx, dev);
}

static const mk_device_ops async_ops = {
    .name = "cpu_async",
    .alloc = mk_cpu_alloc,
    .free = mk_cpu_free,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .launch = launch,
    .call = call,
    .copy = copy,
    .fill = fill,
    .event_create = mk_async_event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .stream_wait = stream_wait,
    .event_sync = mk_async_event_sync,
    .event_elapsed_s = mk_async_event_elapsed_s,
    .stream_sync = stream_sync,
    .now_s = mk_cpu_now_s,
    .poll = poll_faults,
    .gemm_pack_bytes = mk_cpu_gemm_pack_bytes,
    .info = mk_cpu_info,
    .destroy = destroy,
};

static mk_status create(mk_context *ctx, const mk_device_config *config, const mk_op_fn *table, mk_device **out) {
  async_device *dev = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *dev, &dev));
  mk_status st = mk_cpu_device_init(&dev->cpu, ctx, config, &async_ops, table);
  if (st != MK_OK) {
    destroy(&dev->cpu.base);
    return mk_trace(ctx, st, __FILE__, __LINE__);
  }
  for (int op = 0; op < MK_OP_COUNT; op++)
    dev->cpu.base.stats[op].flops = dev->cpu.base.stats[op].bytes = dev->cpu.base.stats[op].bound_s = NAN;
  *out = &dev->cpu.base;
  return MK_OK;
}

mk_status mk_device_cpu_async_create(mk_context *ctx, const mk_device_config *config, mk_device **out) {
  return create(ctx, config, mk_cpu_op_table(), out);
}

mk_status mk_device_ref_async_create(mk_context *ctx, const mk_device_config *config, mk_device **out) {
  return create(ctx, config, mk_ref_op_table(), out);
}
