/* Trace: a communicator that writes one line a call and forwards to the one it wraps. Lines are formatted into one
 * buffer that is written when full, so that a step allocates nothing. The list says what the trainer asked for, in the
 * order it asked, and is the same on every backend. */
#include <stdio.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "kernels/base/log.h"
#include "trainer/comm/comm.h"

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

typedef struct trace_comm {
  mt_comm base;
  mt_comm *inner;
  trace_file *file;
  int64_t seen_bytes; /* base.payload_bytes at the last line */
} trace_comm;

static mk_status trace_wrap(mt_comm *inner, trace_file *file, mt_comm **out);

static mt_comm *inner_of(mt_comm *comm) { return ((trace_comm *)comm)->inner; }

static void file_flush(trace_file *file) {
  if (file->used_bytes > 0 && fwrite(file->buffer, 1, file->used_bytes, file->stream) != file->used_bytes) {
    file->failed = true;
  }
  file->used_bytes = 0;
  if (fflush(file->stream) != 0) file->failed = true;
}

static void file_release(trace_file *file) {
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

/* The front function has counted the call, so its payload is what the counter moved by. */
static void line(mt_comm *comm, const char *op, const mk_tensor *t) {
  trace_comm *trace = (trace_comm *)comm;
  trace_file *file = trace->file;
  if (file->used_bytes + LINE_BYTES > BUFFER_BYTES) file_flush(file);
  int n = snprintf(file->buffer + file->used_bytes, LINE_BYTES, "%s,%s,%s,%lld,%lld,%d\n", op, comm->purpose,
                   t != NULL ? mk_dtype_name(t->dtype) : "-", t != NULL ? (long long)mk_tensor_count(t) : 0LL,
                   (long long)(comm->payload_bytes - trace->seen_bytes), comm->size);
  trace->seen_bytes = comm->payload_bytes;
  file->used_bytes += (size_t)n;
}

static mk_status trace_all_reduce(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op,
                                  mk_stream *s) {
  line(comm, "all_reduce", send);
  return mt_comm_all_reduce(inner_of(comm), send, recv, op, s);
}

static mk_status trace_all_gather(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mk_stream *s) {
  line(comm, "all_gather", send);
  return mt_comm_all_gather(inner_of(comm), send, recv, s);
}

static mk_status trace_reduce_scatter(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op,
                                      mk_stream *s) {
  line(comm, "reduce_scatter", send);
  return mt_comm_reduce_scatter(inner_of(comm), send, recv, op, s);
}

static mk_status trace_all_to_all(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mk_stream *s) {
  line(comm, "all_to_all", send);
  return mt_comm_all_to_all(inner_of(comm), send, recv, s);
}

static mk_status trace_all_to_all_v(mt_comm *comm, const mk_tensor *send, const int64_t *send_rows,
                                    const mk_tensor *recv, const int64_t *recv_rows, mk_stream *s) {
  int64_t rows = 0;
  for (int r = 0; r < comm->size; r++)
    rows += send_rows[r];
  mk_tensor sent = mk_tensor_rows(send, 0, rows);
  line(comm, "all_to_all_v", &sent);
  return mt_comm_all_to_all_v(inner_of(comm), send, send_rows, recv, recv_rows, s);
}

static mk_status trace_broadcast(mt_comm *comm, const mk_tensor *buffer, int root, mk_stream *s) {
  line(comm, "broadcast", buffer);
  return mt_comm_broadcast(inner_of(comm), buffer, root, s);
}

static mk_status trace_send(mt_comm *comm, const mk_tensor *buffer, int peer, mk_stream *s) {
  line(comm, "send", buffer);
  return mt_comm_send(inner_of(comm), buffer, peer, s);
}

static mk_status trace_recv(mt_comm *comm, const mk_tensor *buffer, int peer, mk_stream *s) {
  line(comm, "recv", buffer);
  return mt_comm_recv(inner_of(comm), buffer, peer, s);
}

static mk_status trace_barrier(mt_comm *comm, mk_stream *s) {
  line(comm, "barrier", NULL);
  return mt_comm_barrier(inner_of(comm), s);
}

static mk_status trace_group_begin(mt_comm *comm) { return mt_comm_group_begin(inner_of(comm)); }

static mk_status trace_group_end(mt_comm *comm, mk_stream *s) { return mt_comm_group_end(inner_of(comm), s); }

static mk_status trace_split(mt_comm *comm, int color, int key, const char *purpose, mt_comm **out) {
  trace_comm *trace = (trace_comm *)comm;
  mt_comm *part = NULL;
  MK_TRY(comm->ctx, mt_comm_split(trace->inner, color, key, purpose, &part));
  mk_status st = trace_wrap(part, trace->file, out);
  if (st != MK_OK) mt_comm_destroy(part);
  return st;
}

/* The window is the inner communicator's own, its destroy included. */
static mk_status trace_window_create(mt_comm *comm, mk_device *dev, size_t bytes, mt_window **out) {
  return mt_window_create(inner_of(comm), dev, bytes, out);
}

static void trace_window_destroy(mt_window *window) { mt_window_destroy(window); }

static mk_status trace_poll(mt_comm *comm) {
  const trace_file *file = ((trace_comm *)comm)->file;
  MK_CHECK(comm->ctx, !file->failed, MK_ERR_OUTPUT, "trace: %s: could not be written; is the disk full?", file->path);
  return mt_comm_poll(inner_of(comm));
}

static void trace_abort(mt_comm *comm, int code) {
  file_flush(((trace_comm *)comm)->file);
  mt_comm_abort(inner_of(comm), code);
}

static void trace_destroy(mt_comm *comm) {
  trace_comm *trace = (trace_comm *)comm;
  file_release(trace->file);
  mt_comm_destroy(trace->inner);
  mk_heap_free(comm->ctx, trace);
}

static const mt_comm_ops trace_ops = {
    .name = "trace",
    .all_reduce = trace_all_reduce,
    .all_gather = trace_all_gather,
    .reduce_scatter = trace_reduce_scatter,
    .all_to_all = trace_all_to_all,
    .all_to_all_v = trace_all_to_all_v,
    .broadcast = trace_broadcast,
    .send = trace_send,
    .recv = trace_recv,
    .barrier = trace_barrier,
    .group_begin = trace_group_begin,
    .group_end = trace_group_end,
    .split = trace_split,
    .window_create = trace_window_create,
    .window_destroy = trace_window_destroy,
    .poll = trace_poll,
    .abort = trace_abort,
    .destroy = trace_destroy,
};

static mk_status trace_wrap(mt_comm *inner, trace_file *file, mt_comm **out) {
  trace_comm *trace = NULL;
  MK_TRY(inner->ctx, mk_heap_alloc(inner->ctx, sizeof *trace, &trace));
  trace->base = (mt_comm){
      .ops = &trace_ops, .ctx = inner->ctx, .purpose = inner->purpose, .rank = inner->rank, .size = inner->size};
  trace->inner = inner;
  trace->file = file;
  file->users += 1;
  *out = &trace->base;
  return MK_OK;
}

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

mk_status mt_comm_trace_create(mk_context *ctx, mt_comm *inner, const char *path, mt_comm **out) {
  trace_file *file = NULL;
  MK_TRY(ctx, file_open(ctx, path, &file));
  mk_status st = trace_wrap(inner, file, out);
  file_release(file); /* the wrapped communicator holds it now, or nobody does */
  return st;
}
