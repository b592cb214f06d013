/* Trace: a communicator that writes one line a call and forwards to the one it wraps. Lines are formatted into one
 * buffer that is written when full, so that a step allocates nothing. The list says what the trainer asked for, in the
 * order it asked, and is the same on every backend. */
#include <stdio.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "kernels/base/log.h"
#include "trainer/comm/comm_wrap.h"

enum { BUFFER_BYTES = 64 * 1024, LINE_BYTES = 256 };

/* One file, shared by a world and what is split from it. */
typedef struct trace_file {
  mk_context *ctx;
  FILE *stream;
  char *path;
  char *buffer;
  size_t used_bytes;
  bool failed;
  int users;
} trace_file;

static void file_flush(trace_file *file) {
  if (file->used_bytes > 0 && fwrite(file->buffer, 1, file->used_bytes, file->stream) != file->used_bytes) {
    file->failed = true;
  }
  file->used_bytes = 0;
  if (fflush(file->stream) != 0) file->failed = true;
}

static void file_retain(void *state) { ((trace_file *)state)->users += 1; }

static void file_release(void *state) {
  trace_file *file = state;
  file->users -= 1;
  if (file->users > 0) return;
  file_flush(file);
  if (fclose(file->stream) != 0) file->failed = true;
  if (file->failed) mk_log(file->ctx, "the trace %s is not complete: it could not be written", file->path);
  mk_context *ctx = file->ctx;
  mk_heap_free(ctx, file->buffer);
  mk_heap_free(ctx, file->path);
  mk_heap_free(ctx, file);
}

/* The front function has counted the call here and will on the inner communicator: the difference is its payload. */
static mk_status line(mt_comm_wrap *wrap, const char *call, const mk_tensor *t) {
  trace_file *file = wrap->state;
  if (file->used_bytes + LINE_BYTES > BUFFER_BYTES) file_flush(file);
  int n = snprintf(file->buffer + file->used_bytes, LINE_BYTES, "%s,%s,%s,%lld,%lld,%d\n", call, wrap->base.purpose,
                   t != NULL ? mk_dtype_name(t->dtype) : "-", t != NULL ? (long long)mk_tensor_count(t) : 0LL,
                   (long long)(wrap->base.payload_bytes - wrap->inner->payload_bytes), wrap->base.size);
  file->used_bytes += (size_t)n;
  return MK_OK;
}

static mk_status trace_poll(mt_comm_wrap *wrap) {
  const trace_file *file = wrap->state;
  MK_CHECK(wrap->base.ctx, !file->failed, MK_ERR_OUTPUT, "trace: %s: could not be written; is the disk full?",
           file->path);
  return MK_OK;
}

static void trace_abort(mt_comm_wrap *wrap) { file_flush(wrap->state); }

static const mt_wrap_hooks trace_hooks = {
    .before = line, .poll = trace_poll, .abort = trace_abort, .retain = file_retain, .release = file_release};

static mk_status file_open(mk_context *ctx, const char *path, trace_file **out) {
  trace_file *file = NULL;
  mk_status st = MK_OK;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *file, &file));
  file->ctx = ctx;
  MK_TRY_GOTO(ctx, mk_heap_strdup(ctx, path, &file->path), out);
  MK_TRY_GOTO(ctx, mk_heap_alloc(ctx, BUFFER_BYTES, &file->buffer), out);
  file->stream = fopen(path, "we");
  MK_CHECK_GOTO(ctx, file->stream != NULL, MK_ERR_OUTPUT, out, "trace: %s: cannot create: %m", path);
  static const char header[] = "op,purpose,dtype,count,bytes,size\n";
  memcpy(file->buffer, header, sizeof header - 1);
  file->used_bytes = sizeof header - 1;
  file->users = 1;
  *out = file;
  return MK_OK;
out:
  mk_heap_free(ctx, file->buffer);
  mk_heap_free(ctx, file->path);
  mk_heap_free(ctx, file);
  return st;
}

mk_status mt_comm_trace_finish(mt_comm *world) {
  mt_comm_wrap *wrap = (mt_comm_wrap *)world;
  file_flush(wrap->state);
  return trace_poll(wrap);
}

mk_status mt_comm_trace_create(mk_context *ctx, mt_comm *inner, const char *path, mt_comm **out) {
  trace_file *file = NULL;
  MK_TRY(ctx, file_open(ctx, path, &file));
  mk_status st = mt_comm_wrap_create(inner, &trace_hooks, file, out);
  file_release(file); /* the wrapped communicator holds it now, or nobody does */
  return st;
}
