/* Host functions in stream order (cudaLaunchHostFunc). They run on a thread of the CUDA driver, so each stream has a
 * view of its device with an error record of its own for them; poll and stream_sync bring a fault to the host's record.
 * After a fault the stream skips its functions. Arguments wait in a ring: nothing is allocated when a function is put.
 */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "kernels/device/cuda/cuda_device.h"

enum { RING = 32 };

typedef struct call_slot {
  mk_cuda_calls *owner;
  mk_call_fn fn;
  char args[MK_MAX_ARGS_BYTES] __attribute__((aligned(16)));
} call_slot;

struct mk_cuda_calls {
  mk_device view; /* what the functions see: the device's base, with the record below */
  mk_context view_ctx;
  mk_stream view_stream;
  int64_t put;       /* functions put by the host */
  atomic_llong done; /* functions passed by the stream */
  atomic_int status; /* first fault; set after its message */
  call_slot slot[RING];
};

static void CUDART_CB run(void *user) {
  call_slot *slot = user;
  mk_cuda_calls *calls = slot->owner;
  if (atomic_load(&calls->status) == MK_OK) {
    mk_status st = slot->fn(&calls->view_stream, slot->args);
    if (st != MK_OK) atomic_store(&calls->status, st);
  }
  atomic_fetch_add(&calls->done, 1);
}

mk_status mk_cuda_calls_create(mk_cuda_stream *stream, mk_cuda_calls **out) {
  mk_device *dev = stream->base.dev;
  mk_cuda_calls *calls = NULL;
  MK_TRY(dev->ctx, mk_heap_alloc(dev->ctx, sizeof *calls, &calls));
  calls->view = *dev;
  calls->view.ctx = &calls->view_ctx;
  calls->view_ctx.rank = dev->ctx->rank;
  calls->view_stream = (mk_stream){.dev = &calls->view, .name = stream->base.name};
  for (int i = 0; i < RING; i++)
    calls->slot[i].owner = calls;
  *out = calls;
  return MK_OK;
}

void mk_cuda_calls_destroy(mk_context *ctx, mk_cuda_calls *calls) {
  if (calls == NULL) return;
  ctx->heap_live += calls->view_ctx.heap_live; /* a leak of a function is the device's */
  mk_heap_free(ctx, calls);
}

/* A full ring is waited for, unless the stream has failed and passes nothing any more. */
static mk_status wait_for_slot(mk_cuda_stream *stream) {
  mk_cuda_calls *calls = stream->calls;
  while (calls->put - atomic_load(&calls->done) >= RING) {
    MK_TRY(stream->base.dev->ctx, mk_cuda_query(stream));
    sched_yield();
  }
  return MK_OK;
}

mk_status mk_cuda_call(mk_stream *base, mk_call_fn fn, const void *args, size_t args_bytes) {
  mk_cuda_stream *stream = mk_cuda_stream_of(base);
  mk_cuda_calls *calls = stream->calls;
  MK_TRY(base->dev->ctx, wait_for_slot(stream));
  call_slot *slot = &calls->slot[calls->put % RING];
  slot->fn = fn;
  if (args_bytes > 0) memcpy(slot->args, args, args_bytes);
  MK_CUDA_WAIT(base->dev, cudaLaunchHostFunc(stream->native, run, slot));
  calls->put += 1;
  return MK_OK;
}

mk_status mk_cuda_calls_poll(mk_cuda_stream *stream) {
  mk_cuda_calls *calls = stream->calls;
  mk_status st = (mk_status)atomic_load(&calls->status);
  MK_CHECK(stream->base.dev->ctx, st == MK_OK, st, "a call on stream '%s' failed: %s", stream->base.name,
           calls->view_ctx.error.message);
  return MK_OK;
}
