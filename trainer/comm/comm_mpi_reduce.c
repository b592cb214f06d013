/* Reductions of the MPI backend. Every rank owns a slice; it receives the others' parts of its slice chunk by chunk
 * into a scratch that stays in cache, and adds them in rank order. An all-reduce is that followed by a gather of the
 * slices; a small one sends everything to everyone and adds at home, one message latency instead of two. Both add in
 * the same order, so the bits do not depend on which was taken. Bytes a rank sends for n bytes: reduce-scatter (P-1)/P
 * * n, all-reduce twice that, as the bound of Patarasuk and Yuan (JPDC 69, 2009). No step of n log P and no copy of n
 * bytes. */
#include <string.h>

#include "trainer/comm/comm_mpi.h"
#include "trainer/comm/reduce.h"

enum { SMALL_TOTAL_BYTES = 128 * 1024 }; /* of all lanes together, up to which everything goes to everyone */

typedef struct slices {
  const char *send; /* [count] own contribution */
  char *out;        /* own slice of the result */
  int64_t count, unit_bytes;
  mk_dtype dtype;
  mt_reduce op;
} slices;

static char *lane(mt_mpi_comm *c, int rank) { return c->scratch + rank * c->lane_bytes; }

/* Elements [at, at + chunk) of rank r's slice: address in the own contribution; sets the number of elements. */
static const char *part(const slices *v, int size, int r, int64_t at, int64_t chunk, int64_t *n) {
  int64_t first = v->count * r / size + at, end = v->count * (r + 1) / size;
  int64_t left = end - first < chunk ? end - first : chunk;
  *n = left > 0 ? left : 0;
  return v->send + first * v->unit_bytes;
}

/* One chunk of all slices: exchange, then add the own one. */
static mk_status reduce_chunk(mk_context *ctx, mt_mpi_comm *c, const slices *v, int64_t at, int64_t chunk,
                              const char *call) {
  int size = c->base.size, rank = c->base.rank;
  int64_t n_own = 0, n = 0;
  const char *own = part(v, size, rank, at, chunk, &n_own);
  c->list.n = 0;
  for (int r = 0; r < size; r++) {
    c->source[r] = r == rank ? own : lane(c, r);
    if (r == rank) continue;
    const char *theirs = part(v, size, r, at, chunk, &n);
    MK_TRY(ctx, mt_transfers_add(ctx, &c->list, lane(c, r), n_own * v->unit_bytes, r, true));
    MK_TRY(ctx, mt_transfers_add(ctx, &c->list, (void *)theirs, n * v->unit_bytes, r, false));
  }
  MK_TRY(ctx, mt_mpi_run(ctx, c, &c->list, call));
  mt_reduce_ranks(v->dtype, v->op, c->source, size, v->out + at * v->unit_bytes, n_own);
  return MK_OK;
}

static mk_status reduce_slices(mk_context *ctx, mt_mpi_comm *c, const slices *v, const char *call) {
  int64_t longest = (v->count + c->base.size - 1) / c->base.size;
  int64_t chunk = c->lane_bytes / v->unit_bytes;
  for (int64_t at = 0; at < longest; at += chunk)
    MK_TRY(ctx, reduce_chunk(ctx, c, v, at, chunk, call));
  return MK_OK;
}

static mk_status reduce_small(mk_context *ctx, mt_mpi_comm *c, const mt_mpi_args *a, int64_t bytes) {
  int size = c->base.size, rank = c->base.rank;
  c->list.n = 0;
  for (int r = 0; r < size; r++) {
    c->source[r] = r == rank ? a->send.data : lane(c, r);
    if (r == rank) continue;
    MK_TRY(ctx, mt_transfers_add(ctx, &c->list, lane(c, r), bytes, r, true));
    MK_TRY(ctx, mt_transfers_add(ctx, &c->list, a->send.data, bytes, r, false));
  }
  MK_TRY(ctx, mt_mpi_run(ctx, c, &c->list, "all_reduce"));
  mt_reduce_ranks(a->send.dtype, a->op, c->source, size, a->recv.data, mk_tensor_count(&a->send));
  return MK_OK;
}

static mk_status all_reduce_call(mk_stream *s, const void *args) {
  const mt_mpi_args *a = (const mt_mpi_args *)args;
  mk_context *ctx = s->dev->ctx;
  mt_mpi_comm *c = a->comm;
  int64_t bytes = (int64_t)mk_tensor_bytes(&a->send);
  if (bytes <= c->lane_bytes && bytes * c->base.size <= SMALL_TOTAL_BYTES) return reduce_small(ctx, c, a, bytes);
  int64_t count = mk_tensor_count(&a->send), unit = (int64_t)mk_dtype_bytes(a->send.dtype);
  char *own = (char *)a->recv.data + count * c->base.rank / c->base.size * unit;
  slices v = {.send = (const char *)a->send.data,
              .out = own,
              .count = count,
              .unit_bytes = unit,
              .dtype = a->send.dtype,
              .op = a->op};
  MK_TRY(ctx, reduce_slices(ctx, c, &v, "all_reduce"));
  MK_TRY(ctx, mt_mpi_spread(ctx, c, own, (char *)a->recv.data, count, unit, "all_reduce"));
  return MK_OK;
}

static mk_status reduce_scatter_call(mk_stream *s, const void *args) {
  const mt_mpi_args *a = (const mt_mpi_args *)args;
  slices v = {.send = (const char *)a->send.data,
              .out = (char *)a->recv.data,
              .count = mk_tensor_count(&a->send),
              .unit_bytes = (int64_t)mk_dtype_bytes(a->send.dtype),
              .dtype = a->send.dtype,
              .op = a->op};
  MK_TRY(s->dev->ctx, reduce_slices(s->dev->ctx, a->comm, &v, "reduce_scatter"));
  return MK_OK;
}

static mk_status put(mk_call_fn fn, mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op,
                     mk_stream *s) {
  mt_mpi_args args = {.comm = (mt_mpi_comm *)comm, .send = *send, .recv = *recv, .op = op};
  MK_TRY(comm->ctx, mk_stream_call(s, fn, &args, sizeof args));
  return MK_OK;
}

mk_status mt_mpi_all_reduce(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op, mk_stream *s) {
  return put(all_reduce_call, comm, send, recv, op, s);
}

mk_status mt_mpi_reduce_scatter(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op,
                                mk_stream *s) {
  return put(reduce_scatter_call, comm, send, recv, op, s);
}
