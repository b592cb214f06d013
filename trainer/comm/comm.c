/* Public calls of the communication seam: check shapes, count, forward to the backend's table. Shapes
 * are checked on shapes alone, so that a simulated run of 512 ranks refuses what a real one would. */
#include "trainer/comm/comm.h"

#include <stdlib.h>

static void count_call(mt_comm *comm, size_t bytes) {
  comm->calls += 1;
  comm->payload_bytes += (int64_t)bytes;
}

static mk_status check_pair(mt_comm *comm, const char *call, const mk_tensor *send, const mk_tensor *recv,
                            int64_t send_parts, int64_t recv_parts) {
  MK_CHECK(comm->ctx, mk_tensor_present(send) && mk_tensor_present(recv), MK_ERR_ARG, "%s on %s: a tensor is absent",
           call, comm->purpose);
  MK_CHECK(comm->ctx, send->dtype == recv->dtype, MK_ERR_ARG, "%s on %s: sends %s but receives %s", call, comm->purpose,
           mk_dtype_name(send->dtype), mk_dtype_name(recv->dtype));
  int64_t n_send = mk_tensor_count(send), n_recv = mk_tensor_count(recv);
  MK_CHECK(comm->ctx, n_send * recv_parts == n_recv * send_parts, MK_ERR_ARG,
           "%s on %s of %d ranks: sends %lld elements but receives %lld", call, comm->purpose, comm->size,
           (long long)n_send, (long long)n_recv);
  return MK_OK;
}

static mk_status check_reduce(mt_comm *comm, const char *call, mk_dtype dtype, mt_reduce op) {
  bool summable = dtype == MK_F32 || dtype == MK_BF16 || dtype == MK_F64 || dtype == MK_I32 || dtype == MK_I64;
  MK_CHECK(comm->ctx, summable, MK_ERR_ARG, "%s on %s: no reduction of %s", call, comm->purpose, mk_dtype_name(dtype));
  MK_CHECK(comm->ctx, op == MT_SUM || op == MT_MAX, MK_ERR_ARG, "%s on %s: unknown reduction %d", call, comm->purpose,
           (int)op);
  return MK_OK;
}

static mk_status check_buffer(mt_comm *comm, const char *call, const mk_tensor *buffer, const char *who, int rank) {
  MK_CHECK(comm->ctx, mk_tensor_present(buffer), MK_ERR_ARG, "%s on %s: the tensor is absent", call, comm->purpose);
  MK_CHECK(comm->ctx, rank >= 0 && rank < comm->size, MK_ERR_ARG, "%s on %s: %s %d is not one of %d ranks", call,
           comm->purpose, who, rank, comm->size);
  return MK_OK;
}

/* Elements of one row; from the dims, because a tensor of no rows still has a width. */
static int64_t row_width(const mk_tensor *t) {
  int64_t width = 1;
  for (int i = 1; i < t->n_dims; i++)
    width *= t->dim[i];
  return width;
}

/* Row counts of one side: none negative, their sum within the tensor. Sets the sum. */
static mk_status check_rows(mt_comm *comm, const char *side, const mk_tensor *t, const int64_t *rows, int64_t *out) {
  int64_t sum = 0;
  for (int r = 0; r < comm->size; r++) {
    MK_CHECK(comm->ctx, rows[r] >= 0, MK_ERR_ARG, "all_to_all_v on %s: %lld rows to %s for rank %d", comm->purpose,
             (long long)rows[r], side, r);
    sum += rows[r];
  }
  MK_CHECK(comm->ctx, sum <= t->dim[0], MK_ERR_ARG, "all_to_all_v on %s: %lld rows to %s but the tensor has %lld",
           comm->purpose, (long long)sum, side, (long long)t->dim[0]);
  *out = sum;
  return MK_OK;
}

mk_status mt_comm_all_reduce(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op, mk_stream *s) {
  MK_TRY(comm->ctx, check_pair(comm, "all_reduce", send, recv, 1, 1));
  MK_TRY(comm->ctx, check_reduce(comm, "all_reduce", send->dtype, op));
  count_call(comm, mk_tensor_bytes(send));
  MK_TRY(comm->ctx, comm->ops->all_reduce(comm, send, recv, op, s));
  return MK_OK;
}

mk_status mt_comm_all_gather(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mk_stream *s) {
  MK_TRY(comm->ctx, check_pair(comm, "all_gather", send, recv, 1, comm->size));
  count_call(comm, mk_tensor_bytes(send));
  MK_TRY(comm->ctx, comm->ops->all_gather(comm, send, recv, s));
  return MK_OK;
}

mk_status mt_comm_reduce_scatter(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op,
                                 mk_stream *s) {
  MK_TRY(comm->ctx, check_pair(comm, "reduce_scatter", send, recv, comm->size, 1));
  MK_TRY(comm->ctx, check_reduce(comm, "reduce_scatter", send->dtype, op));
  count_call(comm, mk_tensor_bytes(send));
  MK_TRY(comm->ctx, comm->ops->reduce_scatter(comm, send, recv, op, s));
  return MK_OK;
}

mk_status mt_comm_all_to_all(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mk_stream *s) {
  MK_TRY(comm->ctx, check_pair(comm, "all_to_all", send, recv, 1, 1));
  MK_CHECK(comm->ctx, mk_tensor_count(send) % comm->size == 0, MK_ERR_ARG,
           "all_to_all on %s: %lld elements do not divide by %d ranks", comm->purpose, (long long)mk_tensor_count(send),
           comm->size);
  count_call(comm, mk_tensor_bytes(send));
  MK_TRY(comm->ctx, comm->ops->all_to_all(comm, send, recv, s));
  return MK_OK;
}

mk_status mt_comm_all_to_all_v(mt_comm *comm, const mk_tensor *send, const int64_t *send_rows, const mk_tensor *recv,
                               const int64_t *recv_rows, mk_stream *s) {
  MK_CHECK(comm->ctx, mk_tensor_present(send) && mk_tensor_present(recv), MK_ERR_ARG,
           "all_to_all_v on %s: a tensor is absent", comm->purpose);
  MK_CHECK(comm->ctx, send->dtype == recv->dtype && row_width(send) == row_width(recv), MK_ERR_ARG,
           "all_to_all_v on %s: sends rows of %lld %s but receives rows of %lld %s", comm->purpose,
           (long long)row_width(send), mk_dtype_name(send->dtype), (long long)row_width(recv),
           mk_dtype_name(recv->dtype));
  int64_t n_send = 0, n_recv = 0;
  MK_TRY(comm->ctx, check_rows(comm, "send", send, send_rows, &n_send));
  MK_TRY(comm->ctx, check_rows(comm, "receive", recv, recv_rows, &n_recv));
  MK_CHECK(comm->ctx, send_rows[comm->rank] == recv_rows[comm->rank], MK_ERR_ARG,
           "all_to_all_v on %s: keeps %lld rows but takes %lld from itself", comm->purpose,
           (long long)send_rows[comm->rank], (long long)recv_rows[comm->rank]);
  size_t bytes = (size_t)(n_send * row_width(send)) * mk_dtype_bytes(send->dtype);
  count_call(comm, bytes);
  MK_TRY(comm->ctx, comm->ops->all_to_all_v(comm, send, send_rows, recv, recv_rows, s));
  return MK_OK;
}

mk_status mt_comm_broadcast(mt_comm *comm, const mk_tensor *buffer, int root, mk_stream *s) {
  MK_TRY(comm->ctx, check_buffer(comm, "broadcast", buffer, "root", root));
  count_call(comm, comm->rank == root ? mk_tensor_bytes(buffer) : 0);
  MK_TRY(comm->ctx, comm->ops->broadcast(comm, buffer, root, s));
  return MK_OK;
}

mk_status mt_comm_send(mt_comm *comm, const mk_tensor *buffer, int peer, mk_stream *s) {
  MK_TRY(comm->ctx, check_buffer(comm, "send", buffer, "peer", peer));
  count_call(comm, mk_tensor_bytes(buffer));
  MK_TRY(comm->ctx, comm->ops->send(comm, buffer, peer, s));
  return MK_OK;
}

mk_status mt_comm_recv(mt_comm *comm, const mk_tensor *buffer, int peer, mk_stream *s) {
  MK_TRY(comm->ctx, check_buffer(comm, "recv", buffer, "peer", peer));
  count_call(comm, 0);
  MK_TRY(comm->ctx, comm->ops->recv(comm, buffer, peer, s));
  return MK_OK;
}

mk_status mt_comm_barrier(mt_comm *comm, mk_stream *s) {
  count_call(comm, 0);
  MK_TRY(comm->ctx, comm->ops->barrier(comm, s));
  return MK_OK;
}

mk_status mt_comm_group_begin(mt_comm *comm) { return comm->ops->group_begin(comm); }

mk_status mt_comm_group_end(mt_comm *comm, mk_stream *s) { return comm->ops->group_end(comm, s); }

mk_status mt_comm_split(mt_comm *comm, int color, int key, const char *purpose, mt_comm **out) {
  MK_CHECK(comm->ctx, color >= 0, MK_ERR_ARG, "split of %s for %s: color %d is negative", comm->purpose, purpose,
           color);
  return comm->ops->split(comm, color, key, purpose, out);
}

mk_status mt_comm_poll(mt_comm *comm) { return comm->ops->poll(comm); }

void mt_comm_abort(mt_comm *comm, int code) { comm->ops->abort(comm, code); }

void mt_comm_destroy(mt_comm *comm) {
  if (comm != NULL) comm->ops->destroy(comm);
}

mk_status mt_window_create(mt_comm *comm, mk_device *dev, size_t bytes, mt_window **out) {
  MK_CHECK(comm->ctx, bytes > 0, MK_ERR_ARG, "window on %s: no bytes", comm->purpose);
  return comm->ops->window_create(comm, dev, bytes, out);
}

void mt_window_destroy(mt_window *window) {
  if (window != NULL) window->comm->ops->window_destroy(window);
}

bool mt_window_shared(const mt_window *window) {
  for (int r = 0; r < window->comm->size; r++) {
    if (window->peer_base[r] == NULL) return false;
  }
  return true;
}

/* Open MPI, MPICH/Hydra, Slurm with PMI2 or PMIx; each sets the number of ranks of the job. */
bool mt_comm_mpi_launched(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *text = getenv(names[i]);
    if (text != NULL && strtol(text, NULL, 10) > 1) return true;
  }
  const char *tasks = getenv("SLURM_NTASKS");
  return getenv("PMIX_RANK") != NULL && tasks != NULL && strtol(tasks, NULL, 10) > 1;
}

int mt_comm_mpi_launched_rank(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *text = getenv(names[i]);
    if (text != NULL) return (int)strtol(text, NULL, 10);
  }
  return 0;
}
