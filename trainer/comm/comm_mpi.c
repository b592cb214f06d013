/* MPI communicators: memory, split, fault record, end. Memory is taken at creation, so that calls allocate nothing. */
#include "trainer/comm/comm_mpi.h"

#include "kernels/base/heap.h"
#include "trainer/comm/comm_mpi_testing.h"

/* A chunk of a reduction: large enough to hide a message's latency, all lanes together within a shared cache. */
enum { LANE_MAX_BYTES = 1 << 20, LANE_MIN_BYTES = 4096, SCRATCH_BYTES = 8 << 20 };

static const mt_comm_ops mpi_ops;

static mk_status take_lists(mk_context *ctx, mt_mpi_comm *c) {
  int collective = 2 * c->base.size;
  int group = collective > MT_MPI_GROUP_MIN ? collective : MT_MPI_GROUP_MIN;
  size_t total = (size_t)collective + (size_t)group * (MT_MPI_SLOTS + 1);
  MK_TRY(ctx, mk_heap_array(ctx, total, sizeof *c->items, &c->items));
  MK_TRY(ctx, mk_heap_array(ctx, MT_MPI_SLOTS, sizeof *c->slot, &c->slot));
  c->list = (mt_transfer_list){.item = c->items, .capacity = collective};
  c->group = (mt_transfer_list){.item = c->items + collective, .capacity = group};
  for (int i = 0; i < MT_MPI_SLOTS; i++) {
    c->slot[i].list = (mt_transfer_list){.item = c->group.item + (i + 1) * group, .capacity = group};
  }
  return MK_OK;
}

static mk_status take_memory(mk_context *ctx, mt_mpi_comm *c) {
  size_t size = (size_t)c->base.size;
  int64_t lane = SCRATCH_BYTES / (int64_t)size / 64 * 64;
  c->lane_bytes = lane > LANE_MAX_BYTES ? LANE_MAX_BYTES : lane < LANE_MIN_BYTES ? LANE_MIN_BYTES : lane;
  MK_TRY(ctx, take_lists(ctx, c));
  MK_TRY(ctx, mk_heap_array(ctx, 2 * size, sizeof *c->request, &c->request));
  MK_TRY(ctx, mk_heap_array(ctx, 2 * size, sizeof *c->status, &c->status));
  MK_TRY(ctx, mk_heap_array(ctx, 2 * size, sizeof *c->index, &c->index));
  MK_TRY(ctx, mk_heap_array(ctx, 2 * size, sizeof *c->of_request, &c->of_request));
  MK_TRY(ctx, mk_heap_array(ctx, 2 * size, sizeof *c->heads, &c->heads));
  MK_TRY(ctx, mk_heap_array(ctx, 2 * size, sizeof *c->tails, &c->tails));
  MK_TRY(ctx, mk_heap_array(ctx, size, (size_t)c->lane_bytes, &c->scratch));
  MK_TRY(ctx, mk_heap_array(ctx, size, sizeof *c->source, &c->source));
  return MK_OK;
}

/* After a fault MPI keeps its communicator: a message that still comes must not find another one under its number. */
static void release(mt_mpi_comm *c) {
  mk_context *ctx = c->base.ctx;
  bool clean = mt_mpi_drain(c);
  if (!clean) c->job->stuck = true;
  if (atomic_load(&c->fault) == MK_OK) MPI_Comm_free(&c->mpi);
  mt_mpi_job_release(ctx, c->job);
  mk_heap_free(ctx, c->source);
  mk_heap_free(ctx, c->scratch);
  mk_heap_free(ctx, c->tails);
  mk_heap_free(ctx, c->heads);
  mk_heap_free(ctx, c->of_request);
  mk_heap_free(ctx, c->index);
  mk_heap_free(ctx, c->status);
  mk_heap_free(ctx, c->request);
  mk_heap_free(ctx, c->slot);
  mk_heap_free(ctx, c->items);
  mk_heap_free(ctx, c);
}

mk_status mt_mpi_open(mk_context *ctx, mt_mpi_job *job, MPI_Comm mpi, const char *purpose, mt_mpi_comm **out) {
  mt_mpi_comm *c = NULL;
  mk_status st = mk_heap_alloc(ctx, sizeof *c, &c);
  if (st != MK_OK) {
    MPI_Comm_free(&mpi);
    return mk_trace(ctx, st, __FILE__, __LINE__);
  }
  c->base = (mt_comm){.ops = &mpi_ops, .ctx = ctx, .purpose = purpose};
  c->mpi = mpi;
  c->job = job;
  c->piece_bytes = MT_MPI_PIECE;
  job->users += 1;
  MT_MPI_GOTO(ctx, MPI_Comm_set_errhandler(mpi, MPI_ERRORS_RETURN), out);
  MT_MPI_GOTO(ctx, MPI_Comm_rank(mpi, &c->base.rank), out);
  MT_MPI_GOTO(ctx, MPI_Comm_size(mpi, &c->base.size), out);
  MK_TRY_GOTO(ctx, take_memory(ctx, c), out);
  *out = c;
  return MK_OK;
out:
  release(c);
  return st;
}

static mk_status split_mpi(mk_context *ctx, MPI_Comm all, int color, int key, MPI_Comm *out) {
  MT_MPI(ctx, MPI_Comm_split(all, color, key, out));
  return MK_OK;
}

static mk_status mpi_split(mt_comm *comm, int color, int key, const char *purpose, mt_comm **out) {
  mt_mpi_comm *c = (mt_mpi_comm *)comm, *part = NULL;
  MPI_Comm mpi = MPI_COMM_NULL;
  MK_TRY(comm->ctx, mt_mpi_meet(comm->ctx, c, "split"));
  MK_TRY(comm->ctx, mt_mpi_record(c, split_mpi(comm->ctx, c->mpi, color, key, &mpi)));
  MK_TRY(comm->ctx, mt_mpi_open(comm->ctx, c->job, mpi, purpose, &part));
  *out = &part->base;
  return MK_OK;
}

static mk_status mpi_poll(mt_comm *comm) { return mt_mpi_usable(comm->ctx, (mt_mpi_comm *)comm, "poll"); }

static void mpi_abort(mt_comm *comm, int code) {
  (void)comm;
  MPI_Abort(MPI_COMM_WORLD, code);
}

static void mpi_destroy(mt_comm *comm) { release((mt_mpi_comm *)comm); }

void mt_comm_mpi_set_piece_bytes(mt_comm *comm, int64_t bytes) { ((mt_mpi_comm *)comm)->piece_bytes = bytes; }

void mt_comm_mpi_set_lane_bytes(mt_comm *comm, int64_t bytes) {
  mt_mpi_comm *c = (mt_mpi_comm *)comm;
  if (bytes < c->lane_bytes) c->lane_bytes = bytes;
}

static const mt_comm_ops mpi_ops = {
    .name = "mpi",
    .all_reduce = mt_mpi_all_reduce,
    .all_gather = mt_mpi_all_gather,
    .reduce_scatter = mt_mpi_reduce_scatter,
    .all_to_all = mt_mpi_all_to_all,
    .all_to_all_v = mt_mpi_all_to_all_v,
    .broadcast = mt_mpi_broadcast,
    .send = mt_mpi_send,
    .recv = mt_mpi_recv,
    .barrier = mt_mpi_barrier,
    .group_begin = mt_mpi_group_begin,
    .group_end = mt_mpi_group_end,
    .split = mpi_split,
    .window_create = mt_mpi_window_create,
    .window_destroy = mt_mpi_window_destroy,
    .poll = mpi_poll,
    .abort = mpi_abort,
    .destroy = mpi_destroy,
};
