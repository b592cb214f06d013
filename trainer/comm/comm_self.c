/* One rank: every collective is a copy from send to recv, or nothing in place. Copies go through the device seam, so
 * this backend serves every device. Sends to itself pair with its receives inside a group. */
#include <string.h>

#include "kernels/base/heap.h"
#include "trainer/comm/comm.h"

enum { MAX_GROUP = 64 };

typedef struct self_comm {
  mt_comm base;
  bool in_group;
  int n_sends, n_recvs;
  mk_tensor send[MAX_GROUP], recv[MAX_GROUP];
} self_comm;

typedef struct self_window {
  mt_window base;
  void *own[1];
} self_window;

static mk_status self_open(mk_context *ctx, const char *purpose, mt_comm **out);

static mk_status copy(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mk_stream *s) {
  if (mk_tensor_count(send) == 0 || send->data == recv->data) return MK_OK;
  mk_tensor from = mk_tensor_slice(send, 0, mk_tensor_count(send));
  mk_tensor to = mk_tensor_slice(recv, 0, mk_tensor_count(recv));
  MK_TRY(comm->ctx, mk_copy_d2d(s, &to, &from));
  return MK_OK;
}

static mk_status self_reduce(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op, mk_stream *s) {
  (void)op;
  return copy(comm, send, recv, s);
}

static mk_status self_all_to_all_v(mt_comm *comm, const mk_tensor *send, const int64_t *send_rows,
                                   const mk_tensor *recv, const int64_t *recv_rows, mk_stream *s) {
  mk_tensor from = mk_tensor_rows(send, 0, send_rows[0]);
  mk_tensor to = mk_tensor_rows(recv, 0, recv_rows[0]);
  return copy(comm, &from, &to, s);
}

static mk_status self_broadcast(mt_comm *comm, const mk_tensor *buffer, int root, mk_stream *s) {
  (void)comm, (void)buffer, (void)root, (void)s;
  return MK_OK;
}

static mk_status queue(mt_comm *comm, const char *call, const mk_tensor *buffer, mk_tensor *list, int *n) {
  const self_comm *self = (const self_comm *)comm;
  MK_CHECK(comm->ctx, self->in_group, MK_ERR_ARG, "%s on %s: one rank would wait for itself outside a group", call,
           comm->purpose);
  MK_CHECK(comm->ctx, *n < MAX_GROUP, MK_ERR_ARG, "%s on %s: more than %d in one group", call, comm->purpose,
           (int)MAX_GROUP);
  list[(*n)++] = *buffer;
  return MK_OK;
}

static mk_status self_send(mt_comm *comm, const mk_tensor *buffer, int peer, mk_stream *s) {
  (void)peer, (void)s;
  self_comm *self = (self_comm *)comm;
  return queue(comm, "send", buffer, self->send, &self->n_sends);
}

static mk_status self_recv(mt_comm *comm, const mk_tensor *buffer, int peer, mk_stream *s) {
  (void)peer, (void)s;
  self_comm *self = (self_comm *)comm;
  return queue(comm, "recv", buffer, self->recv, &self->n_recvs);
}

static mk_status self_barrier(mt_comm *comm, mk_stream *s) {
  (void)comm, (void)s;
  return MK_OK;
}

static mk_status self_group_begin(mt_comm *comm) {
  self_comm *self = (self_comm *)comm;
  MK_CHECK(comm->ctx, !self->in_group, MK_ERR_ARG, "group_begin on %s: a group is open", comm->purpose);
  self->in_group = true;
  self->n_sends = self->n_recvs = 0;
  return MK_OK;
}

static mk_status self_group_end(mt_comm *comm, mk_stream *s) {
  self_comm *self = (self_comm *)comm;
  MK_CHECK(comm->ctx, self->in_group, MK_ERR_ARG, "group_end on %s: no group is open", comm->purpose);
  self->in_group = false;
  MK_CHECK(comm->ctx, self->n_sends == self->n_recvs, MK_ERR_ARG, "group_end on %s: %d sends but %d receives",
           comm->purpose, self->n_sends, self->n_recvs);
  for (int i = 0; i < self->n_sends; i++) {
    MK_CHECK(comm->ctx, mk_tensor_bytes(&self->send[i]) == mk_tensor_bytes(&self->recv[i]), MK_ERR_ARG,
             "group_end on %s: send %d has %zu bytes, its receive %zu", comm->purpose, i,
             mk_tensor_bytes(&self->send[i]), mk_tensor_bytes(&self->recv[i]));
    MK_TRY(comm->ctx, copy(comm, &self->send[i], &self->recv[i], s));
  }
  return MK_OK;
}

static mk_status self_split(mt_comm *comm, int color, int key, const char *purpose, mt_comm **out) {
  (void)color, (void)key;
  return self_open(comm->ctx, purpose, out);
}

static mk_status self_window_create(mt_comm *comm, mk_device *dev, size_t bytes, mt_window **out) {
  self_window *window = NULL;
  mk_status st = MK_OK;
  MK_TRY(comm->ctx, mk_heap_alloc(comm->ctx, sizeof *window, &window));
  MK_TRY_GOTO(comm->ctx, mk_device_alloc(dev, MK_MEM_COMM, bytes, &window->own[0]), out);
  window->base =
      (mt_window){.comm = comm, .dev = dev, .bytes = bytes, .base = window->own[0], .peer_base = window->own};
  *out = &window->base;
  return MK_OK;
out:
  mk_heap_free(comm->ctx, window);
  return st;
}

static void self_window_destroy(mt_window *window) {
  mk_device_free(window->dev, MK_MEM_COMM, window->base, window->bytes);
  mk_heap_free(window->comm->ctx, window);
}

static mk_status self_poll(mt_comm *comm) {
  (void)comm;
  return MK_OK;
}

/* Nobody else to end; the caller ends the process. */
static void self_abort(mt_comm *comm, int code) { (void)comm, (void)code; }

static void self_destroy(mt_comm *comm) { mk_heap_free(comm->ctx, comm); }

static const mt_comm_ops self_ops = {
    .name = "self",
    .all_reduce = self_reduce,
    .all_gather = copy,
    .reduce_scatter = self_reduce,
    .all_to_all = copy,
    .all_to_all_v = self_all_to_all_v,
    .broadcast = self_broadcast,
    .send = self_send,
    .recv = self_recv,
    .barrier = self_barrier,
    .group_begin = self_group_begin,
    .group_end = self_group_end,
    .split = self_split,
    .window_create = self_window_create,
    .window_destroy = self_window_destroy,
    .poll = self_poll,
    .abort = self_abort,
    .destroy = self_destroy,
};

static mk_status self_open(mk_context *ctx, const char *purpose, mt_comm **out) {
  self_comm *self = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *self, &self));
  self->base = (mt_comm){.ops = &self_ops, .ctx = ctx, .purpose = purpose, .rank = 0, .size = 1};
  *out = &self->base;
  return MK_OK;
}

mk_status mt_comm_self_create(mk_context *ctx, mt_comm **out) { return self_open(ctx, "world", out); }
