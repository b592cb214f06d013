/* The forwarding table of all wrappers. The front functions of comm.c count each call on the wrapper and again on the
 * inner communicator, so that both have the same counters once the call has passed. */
#include "trainer/comm/comm_wrap.h"

#include "kernels/base/heap.h"

static mt_comm_wrap *wrap_of(mt_comm *comm) { return (mt_comm_wrap *)comm; }

static mt_comm *inner_of(mt_comm *comm) { return wrap_of(comm)->inner; }

static mk_status before(mt_comm *comm, const char *call, const mk_tensor *t) {
  mt_comm_wrap *wrap = wrap_of(comm);
  return wrap->hooks->before(wrap, call, t);
}

static mk_status before_setup(mt_comm *comm, const char *call) {
  mt_comm_wrap *wrap = wrap_of(comm);
  return wrap->hooks->before_setup != NULL ? wrap->hooks->before_setup(wrap, call) : MK_OK;
}

static mk_status wrap_all_reduce(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op,
                                 mk_stream *s) {
  MK_TRY(comm->ctx, before(comm, "all_reduce", send));
  return mt_comm_all_reduce(inner_of(comm), send, recv, op, s);
}

static mk_status wrap_all_gather(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mk_stream *s) {
  MK_TRY(comm->ctx, before(comm, "all_gather", send));
  return mt_comm_all_gather(inner_of(comm), send, recv, s);
}

static mk_status wrap_reduce_scatter(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op,
                                     mk_stream *s) {
  MK_TRY(comm->ctx, before(comm, "reduce_scatter", send));
  return mt_comm_reduce_scatter(inner_of(comm), send, recv, op, s);
}

static mk_status wrap_all_to_all(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mk_stream *s) {
  MK_TRY(comm->ctx, before(comm, "all_to_all", send));
  return mt_comm_all_to_all(inner_of(comm), send, recv, s);
}

static mk_status wrap_all_to_all_v(mt_comm *comm, const mk_tensor *send, const int64_t *send_rows,
                                   const mk_tensor *recv, const int64_t *recv_rows, mk_stream *s) {
  int64_t rows = 0;
  for (int r = 0; r < comm->size; r++)
    rows += send_rows[r];
  mk_tensor sent = mk_tensor_rows(send, 0, rows);
  MK_TRY(comm->ctx, before(comm, "all_to_all_v", &sent));
  return mt_comm_all_to_all_v(inner_of(comm), send, send_rows, recv, recv_rows, s);
}

static mk_status wrap_broadcast(mt_comm *comm, const mk_tensor *buffer, int root, mk_stream *s) {
  MK_TRY(comm->ctx, before(comm, "broadcast", buffer));
  return mt_comm_broadcast(inner_of(comm), buffer, root, s);
}

static mk_status wrap_send(mt_comm *comm, const mk_tensor *buffer, int peer, mk_stream *s) {
  MK_TRY(comm->ctx, before(comm, "send", buffer));
  return mt_comm_send(inner_of(comm), buffer, peer, s);
}

static mk_status wrap_recv(mt_comm *comm, const mk_tensor *buffer, int peer, mk_stream *s) {
  MK_TRY(comm->ctx, before(comm, "recv", buffer));
  return mt_comm_recv(inner_of(comm), buffer, peer, s);
}

static mk_status wrap_barrier(mt_comm *comm, mk_stream *s) {
  MK_TRY(comm->ctx, before(comm, "barrier", NULL));
  return mt_comm_barrier(inner_of(comm), s);
}

static mk_status wrap_group_begin(mt_comm *comm) { return mt_comm_group_begin(inner_of(comm)); }

static mk_status wrap_group_end(mt_comm *comm, mk_stream *s) { return mt_comm_group_end(inner_of(comm), s); }

static mk_status wrap_split(mt_comm *comm, int color, int key, const char *purpose, mt_comm **out) {
  mt_comm_wrap *wrap = wrap_of(comm);
  mt_comm *part = NULL;
  MK_TRY(comm->ctx, before_setup(comm, "split"));
  MK_TRY(comm->ctx, mt_comm_split(wrap->inner, color, key, purpose, &part));
  mk_status st = mt_comm_wrap_create(part, wrap->hooks, wrap->state, out);
  if (st != MK_OK) mt_comm_destroy(part);
  return st;
}

/* The window is the inner communicator's own, its destroy included. */
static mk_status wrap_window_create(mt_comm *comm, mk_device *dev, size_t bytes, mt_window **out) {
  MK_TRY(comm->ctx, before_setup(comm, "window_create"));
  return mt_window_create(inner_of(comm), dev, bytes, out);
}

static void wrap_window_destroy(mt_window *window) { mt_window_destroy(window); }

static mk_status wrap_poll(mt_comm *comm) {
  mt_comm_wrap *wrap = wrap_of(comm);
  if (wrap->hooks->poll != NULL) MK_TRY(comm->ctx, wrap->hooks->poll(wrap));
  return mt_comm_poll(wrap->inner);
}

static void wrap_abort(mt_comm *comm, int code) {
  mt_comm_wrap *wrap = wrap_of(comm);
  if (wrap->hooks->abort != NULL) wrap->hooks->abort(wrap);
  mt_comm_abort(wrap->inner, code);
}

static void wrap_destroy(mt_comm *comm) {
  mt_comm_wrap *wrap = wrap_of(comm);
  if (wrap->hooks->release != NULL) wrap->hooks->release(wrap->state);
  mt_comm_destroy(wrap->inner);
  mk_heap_free(comm->ctx, wrap);
}

static const mt_comm_ops wrap_ops = {
    .name = "wrap",
    .all_reduce = wrap_all_reduce,
    .all_gather = wrap_all_gather,
    .reduce_scatter = wrap_reduce_scatter,
    .all_to_all = wrap_all_to_all,
    .all_to_all_v = wrap_all_to_all_v,
    .broadcast = wrap_broadcast,
    .send = wrap_send,
    .recv = wrap_recv,
    .barrier = wrap_barrier,
    .group_begin = wrap_group_begin,
    .group_end = wrap_group_end,
    .split = wrap_split,
    .window_create = wrap_window_create,
    .window_destroy = wrap_window_destroy,
    .poll = wrap_poll,
    .abort = wrap_abort,
    .destroy = wrap_destroy,
};

mk_status mt_comm_wrap_create(mt_comm *inner, const mt_wrap_hooks *hooks, void *state, mt_comm **out) {
  mt_comm_wrap *wrap = NULL;
  MK_TRY(inner->ctx, mk_heap_alloc(inner->ctx, sizeof *wrap, &wrap));
  wrap->base = (mt_comm){
      .ops = &wrap_ops, .ctx = inner->ctx, .purpose = inner->purpose, .rank = inner->rank, .size = inner->size};
  wrap->inner = inner;
  wrap->hooks = hooks;
  wrap->state = state;
  if (hooks->retain != NULL) hooks->retain(state);
  *out = &wrap->base;
  return MK_OK;
}
