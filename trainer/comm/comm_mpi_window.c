/* Windows of the MPI backend. Ranks of one node share memory through MPI_Win_allocate_shared, so that a peer's rows are
 * written by plain stores; otherwise every rank has memory of its own and no peer address. Creation is collective and
 * agrees on one outcome before anything collective is allocated, and again once its pages are taken: when one rank
 * cannot, none does. */
#include <stdint.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "kernels/base/pages.h"
#include "trainer/comm/comm_mpi.h"
#include "trainer/comm/shm.h"

typedef struct mpi_window {
  mt_window base;
  bool shared;
  bool counted; /* in the device's ledger: charged when shared, allocated when not */
  MPI_Win win;  /* MPI_WIN_NULL without shared memory */
} mpi_window;

static const char WINDOW[] = "window of the ranks"; /* in messages */

/* Replaces *value by its reduction over the ranks of `among`. */
static mk_status agree_among(mk_context *ctx, mt_mpi_comm *c, MPI_Comm among, MPI_Op op, int64_t *value) {
  MPI_Request request = MPI_REQUEST_NULL;
  c->vote[0] = *value;
  int started = MPI_Iallreduce(&c->vote[0], &c->vote[1], 1, MPI_INT64_T, op, among, &request);
  MK_TRY(ctx, mt_mpi_complete(ctx, c, started, request, "window_create"));
  *value = c->vote[1];
  return MK_OK;
}

static mk_status agree(mk_context *ctx, mt_mpi_comm *c, MPI_Op op, int64_t *value) {
  return agree_among(ctx, c, c->mpi, op, value);
}

/* Do all ranks of the communicator run on one node? */
static mk_status on_one_node(mk_context *ctx, mt_mpi_comm *c, bool *out) {
  MPI_Comm node = MPI_COMM_NULL;
  int local = 0;
  MT_MPI(ctx, MPI_Comm_split_type(c->mpi, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
  MT_MPI(ctx, MPI_Comm_size(node, &local));
  MT_MPI(ctx, MPI_Comm_free(&node));
  int64_t apart = local < c->base.size ? 1 : 0;
  MK_TRY(ctx, agree(ctx, c, MPI_MAX, &apart));
  *out = apart == 0;
  return MK_OK;
}

/* Freeing a shared window waits for all ranks: left out when one of them may not come any more, which nobody knows
 * once this rank has failed, wherever that was. */
static void release(mpi_window *w) {
  if (w == NULL) return;
  mt_window *base = &w->base;
  mk_context *ctx = base->comm->ctx;
  bool healthy = atomic_load(&((mt_mpi_comm *)base->comm)->fault) == MK_OK && ctx->error.status == MK_OK;
  if (w->win != MPI_WIN_NULL && healthy) {
    MPI_Win_unlock_all(w->win);
    MPI_Win_free(&w->win);
  }
  if (w->counted && w->shared) mk_device_discharge(base->dev, MK_MEM_COMM, base->bytes);
  if (w->counted && !w->shared) mk_device_free(base->dev, MK_MEM_COMM, base->base, base->bytes);
  mk_heap_free(ctx, base->peer_base);
  mk_heap_free(ctx, w);
}

enum { ALIGN_BYTES = 64 };

/* What a rank's part of a segment takes: the window wherever it may begin, on pages of its own. */
static size_t part_bytes(size_t bytes) { return mk_pages_round(bytes + ALIGN_BYTES); }

/* Room in the memory that all groups of a node take from at once. Asked before any of them takes. */
typedef struct node_room {
  size_t free_bytes, needed_bytes; /* needed by all ranks of the node */
} node_room;

static mk_status ask_room(mk_context *ctx, mt_mpi_comm *c, size_t own_bytes, node_room *out) {
  int64_t needed = (int64_t)own_bytes;
  size_t free_bytes = mt_shm_free_bytes();
  MK_TRY(ctx, agree_among(ctx, c, c->job->node, MPI_SUM, &needed));
  *out = (node_room){.free_bytes = free_bytes, .needed_bytes = (size_t)needed};
  return MK_OK;
}

/* The part of a creation that a rank does alone. */
static mk_status prepare(mt_comm *comm, mk_device *dev, size_t bytes, bool shared, node_room room, mpi_window **out) {
  mk_context *ctx = comm->ctx;
  mpi_window *w = NULL;
  mk_status st = MK_OK;
  if (shared) MK_TRY(ctx, mt_shm_check(ctx, WINDOW, room.needed_bytes, room.free_bytes));
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *w, &w));
  w->base = (mt_window){.comm = comm, .dev = dev, .bytes = bytes};
  w->shared = shared;
  w->win = MPI_WIN_NULL;
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)comm->size, sizeof(void *), &w->base.peer_base), out);
  if (shared) {
    MK_TRY_GOTO(ctx, mk_device_charge(dev, MK_MEM_COMM, bytes), out);
  } else {
    MK_TRY_GOTO(ctx, mk_device_alloc(dev, MK_MEM_COMM, bytes, &w->base.base), out);
    w->base.peer_base[comm->rank] = w->base.base;
  }
  w->counted = true;
  *out = w;
  return MK_OK;
out:
  release(w);
  return st;
}

/* All processes map the segment at page boundaries, so rounding up gives the same place in each of them. */
static void *align(void *base) { return (void *)(((uintptr_t)base + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES); }

/* One outcome for the group: its own status for a rank that failed, for the others a message that names it. */
static mk_status all_could(mk_context *ctx, mt_mpi_comm *c, mk_status own) {
  int64_t refused = own != MK_OK ? ctx->rank + 1 : 0;
  mk_status agreed = agree(ctx, c, MPI_MAX, &refused);
  MK_TRY(ctx, own != MK_OK ? own : agreed);
  MK_CHECK(ctx, refused == 0, MK_ERR_MEMORY,
           "window_create on %s: rank %lld could not; its own message says what memory is missing", c->base.purpose,
           (long long)refused - 1);
  return MK_OK;
}

/* Takes the pages of the own part now and clears them, as device memory is. Other jobs take theirs at the same time, so
 * that only this tells whether there was room for all. */
static mk_status claim(mk_context *ctx, mt_mpi_comm *c, mpi_window *w) {
  bool got = mk_pages_populate(w->base.base, w->base.bytes);
  mk_status st = MK_OK;
  if (got) memset(w->base.base, 0, w->base.bytes);
  if (!got) st = mt_shm_fail(ctx, WINDOW, part_bytes(w->base.bytes), mt_shm_free_bytes());
  return all_could(ctx, c, st);
}

/* Each rank's part on its own pages. */
static mk_status allocate_shared(mk_context *ctx, mt_mpi_comm *c, mpi_window *w) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Aint bytes = (MPI_Aint)w->base.bytes + ALIGN_BYTES, peer_bytes = 0;
  int unit = 0;
  mk_status st = MK_OK;
  MT_MPI(ctx, MPI_Info_create(&info));
  MT_MPI_GOTO(ctx, MPI_Info_set(info, "alloc_shared_noncontig", "true"), out);
  MT_MPI_GOTO(ctx, MPI_Win_allocate_shared(bytes, 1, info, c->mpi, &w->base.base, &w->win), out);
  MT_MPI_GOTO(ctx, MPI_Win_lock_all(MPI_MODE_NOCHECK, w->win), out);
  for (int r = 0; r < c->base.size; r++) {
    MT_MPI_GOTO(ctx, MPI_Win_shared_query(w->win, r, &peer_bytes, &unit, &w->base.peer_base[r]), out);
    w->base.peer_base[r] = align(w->base.peer_base[r]);
  }
  w->base.base = w->base.peer_base[c->base.rank];
  MK_TRY_GOTO(ctx, claim(ctx, c, w), out);
out:
  MPI_Info_free(&info);
  return st;
}

mk_status mt_mpi_window_create(mt_comm *comm, mk_device *dev, size_t bytes, mt_window **out) {
  mk_context *ctx = comm->ctx;
  mt_mpi_comm *c = (mt_mpi_comm *)comm;
  mpi_window *w = NULL;
  node_room room = {0};
  bool shared = false;
  MK_TRY(ctx, mt_mpi_meet(ctx, c, "window_create"));
  MK_TRY(ctx, mt_mpi_record(c, on_one_node(ctx, c, &shared)));
  MK_TRY(ctx, ask_room(ctx, c, shared ? part_bytes(bytes) : 0, &room));
  mk_status st = all_could(ctx, c, prepare(comm, dev, bytes, shared, room, &w));
  MK_TRY_GOTO(ctx, st, out);
  if (shared) MK_TRY_GOTO(ctx, mt_mpi_record(c, allocate_shared(ctx, c, w)), out);
  *out = &w->base;
  return MK_OK;
out:
  release(w);
  return st;
}

void mt_mpi_window_destroy(mt_window *window) { release((mpi_window *)window); }
