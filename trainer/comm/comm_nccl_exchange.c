/* Calls of the NCCL backend: each goes to the caller's stream at once, without a wait. Sends, receives and all-to-alls
 * are lists of transfers that NCCL runs as one group, so that no order of a list can block another.
 *
 * Differences to the backends on the host: the order of a sum is NCCL's, fixed for a communicator and a size; and BF16
 * is rounded at every hop of a ring, which is why the trainer reduces gradients in FP32. */
#include "trainer/comm/comm_nccl.h"

static cudaStream_t native_of(mk_stream *s) { return (cudaStream_t)mk_stream_native(s); }

static ncclDataType_t type_of(mk_dtype dtype) {
  switch (dtype) {
    case MK_F32:
      return ncclFloat32;
    case MK_BF16:
      return ncclBfloat16;
    case MK_F64:
      return ncclFloat64;
    case MK_I32:
      return ncclInt32;
    case MK_I64:
      return ncclInt64;
    default:
      return ncclUint8;
  }
}

static ncclRedOp_t reduction_of(mt_reduce op) { return op == MT_SUM ? ncclSum : ncclMax; }

/* ---- collectives ---- */

mk_status mt_nccl_all_reduce(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op, mk_stream *s) {
  ncclComm_t native = ((mt_nccl_comm *)comm)->native;
  size_t n = (size_t)mk_tensor_count(send);
  if (n == 0) return MK_OK;
  MT_NCCL(comm->ctx, native,
          ncclAllReduce(send->data, recv->data, n, type_of(send->dtype), reduction_of(op), native, native_of(s)));
  return MK_OK;
}

mk_status mt_nccl_all_gather(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mk_stream *s) {
  ncclComm_t native = ((mt_nccl_comm *)comm)->native;
  size_t n = (size_t)mk_tensor_count(send);
  if (n == 0) return MK_OK;
  MT_NCCL(comm->ctx, native, ncclAllGather(send->data, recv->data, n, type_of(send->dtype), native, native_of(s)));
  return MK_OK;
}

mk_status mt_nccl_reduce_scatter(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op,
                                 mk_stream *s) {
  ncclComm_t native = ((mt_nccl_comm *)comm)->native;
  size_t n = (size_t)mk_tensor_count(recv);
  if (n == 0) return MK_OK;
  MT_NCCL(comm->ctx, native,
          ncclReduceScatter(send->data, recv->data, n, type_of(send->dtype), reduction_of(op), native, native_of(s)));
  return MK_OK;
}

mk_status mt_nccl_broadcast(mt_comm *comm, const mk_tensor *buffer, int root, mk_stream *s) {
  ncclComm_t native = ((mt_nccl_comm *)comm)->native;
  size_t n = (size_t)mk_tensor_count(buffer);
  if (n == 0) return MK_OK;
  MT_NCCL(comm->ctx, native,
          ncclBroadcast(buffer->data, buffer->data, n, type_of(buffer->dtype), root, native, native_of(s)));
  return MK_OK;
}

/* Nobody's reduction ends before everybody's has begun, and what a kernel stored before is seen by then: stores of a
 * kernel are visible to the system when the next one of its stream starts. */
mk_status mt_nccl_barrier(mt_comm *comm, mk_stream *s) {
  mt_nccl_comm *c = (mt_nccl_comm *)comm;
  return mt_nccl_all_reduce(comm, &c->token, &c->token, MT_MAX, s);
}

/* ---- lists of transfers ---- */

/* The group is closed whatever happens inside: an open one would swallow every later call. */
static mk_status run(mt_nccl_comm *c, const mt_transfer_list *list, mk_stream *s) {
  ncclResult_t result = ncclSuccess;
  if (list->n == 0) return MK_OK;
  MT_NCCL(c->base.ctx, c->native, ncclGroupStart());
  for (int i = 0; i < list->n && result == ncclSuccess; i++) {
    const mt_transfer *t = &list->item[i];
    size_t bytes = (size_t)t->bytes;
    result = t->is_recv ? ncclRecv(t->data, bytes, ncclUint8, t->peer, c->native, native_of(s))
                        : ncclSend(t->data, bytes, ncclUint8, t->peer, c->native, native_of(s));
  }
  ncclResult_t ended = ncclGroupEnd();
  if (result != ncclSuccess) return mt_nccl_fail(c->base.ctx, c->native, result, "send or recv", __FILE__, __LINE__);
  if (ended != ncclSuccess) return mt_nccl_fail(c->base.ctx, c->native, ended, "ncclGroupEnd", __FILE__, __LINE__);
  return MK_OK;
}

/* rows[r] rows of row_bytes to and from each rank. */
static mk_status exchange(mt_nccl_comm *c, const mk_tensor *send, const int64_t *send_rows, const mk_tensor *recv,
                          const int64_t *recv_rows, int64_t row_bytes, mk_stream *s) {
  mk_context *ctx = c->base.ctx;
  int size = c->base.size;
  c->list.n = 0;
  MK_CHECK(ctx, send->data != recv->data || mk_tensor_count(send) == 0, MK_ERR_ARG,
           "all_to_all on %s: send and receive memory are the same", c->base.purpose);
  MK_TRY(ctx, mt_transfers_add_rows(ctx, &c->list, recv->data, row_bytes, recv_rows, size, true));
  MK_TRY(ctx, mt_transfers_add_rows(ctx, &c->list, send->data, row_bytes, send_rows, size, false));
  return run(c, &c->list, s);
}

mk_status mt_nccl_all_to_all(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mk_stream *s) {
  int64_t rows[MT_MAX_RANKS];
  for (int r = 0; r < comm->size; r++)
    rows[r] = 1;
  int64_t row_bytes = (int64_t)mk_tensor_bytes(send) / comm->size;
  return exchange((mt_nccl_comm *)comm, send, rows, recv, rows, row_bytes, s);
}

mk_status mt_nccl_all_to_all_v(mt_comm *comm, const mk_tensor *send, const int64_t *send_rows, const mk_tensor *recv,
                               const int64_t *recv_rows, mk_stream *s) {
  int64_t row_bytes = (int64_t)mk_dtype_bytes(send->dtype);
  for (int i = 1; i < send->n_dims; i++)
    row_bytes *= send->dim[i];
  return exchange((mt_nccl_comm *)comm, send, send_rows, recv, recv_rows, row_bytes, s);
}

/* ---- point to point ---- */

/* Inside a group: kept for its end, so that other calls meanwhile are not held back. */
static mk_status point(mt_comm *comm, const char *call, const mk_tensor *t, int peer, bool is_recv, mk_stream *s) {
  mt_nccl_comm *c = (mt_nccl_comm *)comm;
  if (c->in_group) {
    MK_CHECK(comm->ctx, c->group_stream == NULL || c->group_stream == s, MK_ERR_ARG,
             "%s on %s: the group is on another stream", call, comm->purpose);
    c->group_stream = s;
    return mt_transfers_add(comm->ctx, &c->group, t->data, (int64_t)mk_tensor_bytes(t), peer, is_recv);
  }
  MK_CHECK(comm->ctx, peer != comm->rank, MK_ERR_ARG, "%s on %s: rank %d would wait for itself outside a group", call,
           comm->purpose, peer);
  c->list.n = 0;
  MK_TRY(comm->ctx, mt_transfers_add(comm->ctx, &c->list, t->data, (int64_t)mk_tensor_bytes(t), peer, is_recv));
  return run(c, &c->list, s);
}

mk_status mt_nccl_send(mt_comm *comm, const mk_tensor *buffer, int peer, mk_stream *s) {
  return point(comm, "send", buffer, peer, false, s);
}

mk_status mt_nccl_recv(mt_comm *comm, const mk_tensor *buffer, int peer, mk_stream *s) {
  return point(comm, "recv", buffer, peer, true, s);
}

mk_status mt_nccl_group_begin(mt_comm *comm) {
  mt_nccl_comm *c = (mt_nccl_comm *)comm;
  MK_CHECK(comm->ctx, !c->in_group, MK_ERR_ARG, "group_begin on %s: a group is open", comm->purpose);
  c->in_group = true;
  c->group_stream = NULL;
  c->group.n = 0;
  return MK_OK;
}

mk_status mt_nccl_group_end(mt_comm *comm, mk_stream *s) {
  mt_nccl_comm *c = (mt_nccl_comm *)comm;
  MK_CHECK(comm->ctx, c->in_group, MK_ERR_ARG, "group_end on %s: no group is open", comm->purpose);
  c->in_group = false;
  MK_CHECK(comm->ctx, c->group.n == 0 || c->group_stream == s, MK_ERR_ARG,
           "group_end on %s: the group is on another stream", comm->purpose);
  return run(c, &c->group, s);
}
