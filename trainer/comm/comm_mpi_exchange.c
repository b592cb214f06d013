/* Data movement of the MPI backend: gather, all-to-all, broadcast, point to point. Each call is put on the stream and
 * becomes a list of transfers there. Bytes a rank sends: all_gather (size - 1) * n, all_to_all (size - 1) / size * n,
 * which is the least any algorithm can send; messages a rank sends: size - 1. */
#include <sched.h>

#include "trainer/comm/comm_mpi.h"

static mk_status put(mk_stream *s, mk_call_fn fn, const mt_mpi_args *args) {
  MK_TRY(s->dev->ctx, mk_stream_call(s, fn, args, sizeof *args));
  return MK_OK;
}

/* An in-place exchange would overwrite rows before they are sent. */
static mk_status check_apart(mt_comm *comm, const char *call, const mk_tensor *send, const mk_tensor *recv) {
  bool same = send->data == recv->data && mk_tensor_count(send) > 0;
  MK_CHECK(comm->ctx, !same, MK_ERR_ARG, "%s on %s: send and receive memory are the same", call, comm->purpose);
  return MK_OK;
}

/* ---- gather ---- */

mk_status mt_mpi_spread(mk_context *ctx, mt_mpi_comm *c, const void *own, char *all, int64_t count, int64_t unit_bytes,
                        const char *call) {
  int size = c->base.size, rank = c->base.rank;
  int64_t own_bytes = (count * (rank + 1) / size - count * rank / size) * unit_bytes;
  c->list.n = 0;
  for (int r = 0; r < size; r++) {
    int64_t first = count * r / size, n = count * (r + 1) / size - first;
    MK_TRY(ctx, mt_transfers_add(ctx, &c->list, all + first * unit_bytes, n * unit_bytes, r, true));
    MK_TRY(ctx, mt_transfers_add(ctx, &c->list, (void *)own, own_bytes, r, false));
  }
  MK_TRY(ctx, mt_mpi_run(ctx, c, &c->list, call));
  return MK_OK;
}

static mk_status all_gather_call(mk_stream *s, const void *args) {
  const mt_mpi_args *a = (const mt_mpi_args *)args;
  return mt_mpi_spread(s->dev->ctx, a->comm, a->send.data, (char *)a->recv.data, mk_tensor_count(&a->recv),
                       (int64_t)mk_dtype_bytes(a->recv.dtype), "all_gather");
}

mk_status mt_mpi_all_gather(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mk_stream *s) {
  mt_mpi_args args = {.comm = (mt_mpi_comm *)comm, .send = *send, .recv = *recv};
  return put(s, all_gather_call, &args);
}

/* ---- all to all ---- */

static mk_status all_to_all_call(mk_stream *s, const void *args) {
  const mt_mpi_args *a = (const mt_mpi_args *)args;
  mk_context *ctx = s->dev->ctx;
  mt_mpi_comm *c = a->comm;
  int64_t bytes = (int64_t)mk_tensor_bytes(&a->send) / c->base.size;
  c->list.n = 0;
  for (int r = 0; r < c->base.size; r++) {
    MK_TRY(ctx, mt_transfers_add(ctx, &c->list, (char *)a->recv.data + r * bytes, bytes, r, true));
    MK_TRY(ctx, mt_transfers_add(ctx, &c->list, (char *)a->send.data + r * bytes, bytes, r, false));
  }
  MK_TRY(ctx, mt_mpi_run(ctx, c, &c->list, "all_to_all"));
  return MK_OK;
}

mk_status mt_mpi_all_to_all(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mk_stream *s) {
  MK_TRY(comm->ctx, check_apart(comm, "all_to_all", send, recv));
  mt_mpi_args args = {.comm = (mt_mpi_comm *)comm, .send = *send, .recv = *recv};
  return put(s, all_to_all_call, &args);
}

/* ---- lists made at the call, run in stream order ---- */

/* A free slot. All are busy only when the stream is far behind, or has failed and passes nothing any more. */
static mk_status slot_take(mt_mpi_comm *c, mk_stream *s, mt_mpi_slot **out) {
  for (;;) {
    for (int i = 0; i < MT_MPI_SLOTS; i++) {
      if (atomic_load(&c->slot[i].busy)) continue;
      atomic_store(&c->slot[i].busy, true);
      c->slot[i].list.n = 0;
      *out = &c->slot[i];
      return MK_OK;
    }
    MK_TRY(c->base.ctx, mk_device_poll(s->dev));
    sched_yield();
  }
}

/* The slot of a failed list stays taken: its requests may still be in flight. */
static mk_status slot_call(mk_stream *s, const void *args) {
  const mt_mpi_args *a = (const mt_mpi_args *)args;
  MK_TRY(s->dev->ctx, mt_mpi_run(s->dev->ctx, a->comm, &a->slot->list, a->call));
  atomic_store(&a->slot->busy, false);
  return MK_OK;
}

static mk_status slot_put(mt_mpi_comm *c, mt_mpi_slot *slot, const char *call, mk_stream *s) {
  mt_mpi_args args = {.comm = c, .slot = slot, .call = call};
  return put(s, slot_call, &args);
}

static int64_t row_bytes(const mk_tensor *t) {
  int64_t bytes = (int64_t)mk_dtype_bytes(t->dtype);
  for (int i = 1; i < t->n_dims; i++)
    bytes *= t->dim[i];
  return bytes;
}

mk_status mt_mpi_all_to_all_v(mt_comm *comm, const mk_tensor *send, const int64_t *send_rows, const mk_tensor *recv,
                              const int64_t *recv_rows, mk_stream *s) {
  mt_mpi_comm *c = (mt_mpi_comm *)comm;
  mt_mpi_slot *slot = NULL;
  mk_status st = MK_OK;
  MK_TRY(comm->ctx, check_apart(comm, "all_to_all_v", send, recv));
  MK_TRY(comm->ctx, slot_take(c, s, &slot));
  mt_transfer_list *list = &slot->list;
  int size = comm->size;
  MK_TRY_GOTO(comm->ctx, mt_transfers_add_rows(comm->ctx, list, recv->data, row_bytes(recv), recv_rows, size, true),
              out);
  MK_TRY_GOTO(comm->ctx, mt_transfers_add_rows(comm->ctx, list, send->data, row_bytes(send), send_rows, size, false),
              out);
  return slot_put(c, slot, "all_to_all_v", s);
out:
  atomic_store(&slot->busy, false);
  return st;
}

/* ---- point to point ---- */

/* Inside a group: kept for its end. */
static mk_status point(mt_comm *comm, const char *call, const mk_tensor *t, int peer, bool is_recv, mk_stream *s) {
  mt_mpi_comm *c = (mt_mpi_comm *)comm;
  mt_mpi_slot *slot = NULL;
  if (c->in_group) {
    MK_CHECK(comm->ctx, c->group_stream == NULL || c->group_stream == s, MK_ERR_ARG,
             "%s on %s: the group is on another stream", call, comm->purpose);
    c->group_stream = s;
    return mt_transfers_add(comm->ctx, &c->group, t->data, (int64_t)mk_tensor_bytes(t), peer, is_recv);
  }
  MK_CHECK(comm->ctx, peer != comm->rank, MK_ERR_ARG, "%s on %s: rank %d would wait for itself outside a group", call,
           comm->purpose, peer);
  MK_TRY(comm->ctx, slot_take(c, s, &slot));
  MK_TRY(comm->ctx, mt_transfers_add(comm->ctx, &slot->list, t->data, (int64_t)mk_tensor_bytes(t), peer, is_recv));
  return slot_put(c, slot, call, s);
}

mk_status mt_mpi_send(mt_comm *comm, const mk_tensor *buffer, int peer, mk_stream *s) {
  return point(comm, "send", buffer, peer, false, s);
}

mk_status mt_mpi_recv(mt_comm *comm, const mk_tensor *buffer, int peer, mk_stream *s) {
  return point(comm, "recv", buffer, peer, true, s);
}

mk_status mt_mpi_group_begin(mt_comm *comm) {
  mt_mpi_comm *c = (mt_mpi_comm *)comm;
  MK_CHECK(comm->ctx, !c->in_group, MK_ERR_ARG, "group_begin on %s: a group is open", comm->purpose);
  c->in_group = true;
  c->group_stream = NULL;
  c->group.n = 0;
  return MK_OK;
}

mk_status mt_mpi_group_end(mt_comm *comm, mk_stream *s) {
  mt_mpi_comm *c = (mt_mpi_comm *)comm;
  mt_mpi_slot *slot = NULL;
  MK_CHECK(comm->ctx, c->in_group, MK_ERR_ARG, "group_end on %s: no group is open", comm->purpose);
  c->in_group = false;
  if (c->group.n == 0) return MK_OK;
  MK_CHECK(comm->ctx, c->group_stream == s, MK_ERR_ARG, "group_end on %s: the group is on another stream",
           comm->purpose);
  MK_TRY(comm->ctx, slot_take(c, s, &slot));
  for (int i = 0; i < c->group.n; i++)
    slot->list.item[i] = c->group.item[i];
  slot->list.n = c->group.n;
  return slot_put(c, slot, "group", s);
}

/* ---- broadcast and barrier: MPI's own trees ---- */

static mk_status broadcast_call(mk_stream *s, const void *args) {
  const mt_mpi_args *a = (const mt_mpi_args *)args;
  mk_context *ctx = s->dev->ctx;
  mt_mpi_comm *c = a->comm;
  int64_t bytes = (int64_t)mk_tensor_bytes(&a->send);
  for (int64_t first = 0; first < bytes; first += c->piece_bytes) {
    int64_t piece = bytes - first < c->piece_bytes ? bytes - first : c->piece_bytes;
    MPI_Request request = MPI_REQUEST_NULL;
    MK_TRY(ctx, mt_mpi_usable(ctx, c, "broadcast"));
    int started = MPI_Ibcast((char *)a->send.data + first, (int)piece, MPI_BYTE, a->root, c->mpi, &request);
    MK_TRY(ctx, mt_mpi_complete(ctx, c, started, request, "broadcast"));
  }
  return MK_OK;
}

mk_status mt_mpi_broadcast(mt_comm *comm, const mk_tensor *buffer, int root, mk_stream *s) {
  mt_mpi_args args = {.comm = (mt_mpi_comm *)comm, .send = *buffer, .root = root};
  return put(s, broadcast_call, &args);
}

/* The fences order writes into windows (plain stores to shared memory) against the barrier's own messages. */
static mk_status barrier_call(mk_stream *s, const void *args) {
  const mt_mpi_args *a = (const mt_mpi_args *)args;
  atomic_thread_fence(memory_order_seq_cst);
  MK_TRY(s->dev->ctx, mt_mpi_meet(s->dev->ctx, a->comm, "barrier"));
  atomic_thread_fence(memory_order_seq_cst);
  return MK_OK;
}

mk_status mt_mpi_barrier(mt_comm *comm, mk_stream *s) {
  mt_mpi_args args = {.comm = (mt_mpi_comm *)comm};
  return put(s, barrier_call, &args);
}
