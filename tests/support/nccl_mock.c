/* See nccl_mock.h. A communicator is a segment of shared memory: a meeting counter, a slot a rank for what is told at
 * set-up, and a ring of bytes for each ordered pair of ranks. Data calls are lists of transfers over the rings. */
#include "tests/support/nccl_mock.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/base/heap.h"
#include "trainer/comm/reduce.h"

/* nccl.h declares these two without their parameters. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

enum { RANKS = 8, NAME = 64, RING = 32768, LIST = 40, SCRATCH = 16 << 20, ALLOCS = 64 };

typedef struct ring {
  atomic_llong written, read;
  char data[RING];
} ring;

typedef struct slot {
  int color, key;
  char name[NAME]; /* of the rank's window memory */
} slot;

typedef struct segment {
  atomic_llong arrived;
  slot slot[RANKS];
  ring ring[RANKS][RANKS]; /* [from][to] */
} segment;

struct ncclComm {
  segment *shared;
  char name[NAME];
  int rank, size, splits;
  int64_t met;
  char *scratch; /* [SCRATCH] for reductions; pages are taken when touched */
};

typedef struct window {
  void *peer[RANKS];
  size_t bytes;
} window;

/* Memory of ncclMemAlloc. */
typedef struct block {
  void *data;
  size_t bytes;
  char name[NAME];
} block;

/* One data call, as it goes along its stream. */
typedef struct call {
  ncclComm_t comm;
  bool is_reduction;
  mk_dtype dtype;
  mt_reduce op;
  void *out; /* of a reduction */
  int64_t count;
  int n;
  mt_transfer item[LIST];
} call;

_Static_assert(sizeof(call) <= MK_MAX_ARGS_BYTES, "a call travels as the arguments of a stream call");

static struct {
  mk_context ctx; /* heap of communicators and windows */
  block block[ALLOCS];
  int depth, names;
  call group; /* of the open group */
  cudaStream_t group_stream;
  ncclResult_t async, next;
} mock;

/* ---- test's side ---- */

static void *own_handle(mk_stream *stream) { return stream; }

void nccl_mock_adapt(mk_device *dev) {
  static mk_device_ops ops;
  ops = *dev->ops;
  ops.stream_native = own_handle;
  dev->ops = &ops;
}

void nccl_mock_set_async(ncclResult_t state) { mock.async = state; }
void nccl_mock_fail_next(ncclResult_t result) { mock.next = result; }
int nccl_mock_group_depth(void) { return mock.depth; }

/* ---- shared memory ---- */

static void *map_named(const char *name, size_t bytes) {
  int file = shm_open(name, O_CREAT | O_RDWR, 0600);
  if (file < 0) return NULL;
  void *data = MAP_FAILED;
  if (ftruncate(file, (off_t)bytes) == 0) data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return data == MAP_FAILED ? NULL : data;
}

static void meet(ncclComm_t c) {
  int64_t target = ++c->met * c->size;
  atomic_fetch_add(&c->shared->arrived, 1);
  while (atomic_load(&c->shared->arrived) < target)
    sched_yield();
}

static ncclResult_t open_comm(const char *name, int rank, int size, ncclComm_t *out) {
  ncclComm_t c = NULL;
  if (size > RANKS || mk_heap_alloc(&mock.ctx, sizeof *c, &c) != MK_OK) return ncclSystemError;
  c->rank = rank;
  c->size = size;
  memcpy(c->name, name, strnlen(name, NAME - 1));
  c->shared = map_named(name, sizeof *c->shared);
  c->scratch = mmap(NULL, SCRATCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (c->shared == NULL || c->scratch == MAP_FAILED) return ncclSystemError;
  meet(c);
  if (rank == 0) shm_unlink(name);
  *out = c;
  return ncclSuccess;
}

/* ---- set-up ---- */

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  memset(id, 0, sizeof *id);
  snprintf(id->internal, NAME, "/nccl-mock-%d-%d", (int)getpid(), mock.names++);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *out, int size, ncclUniqueId id, int rank) {
  return open_comm(id.internal, rank, size, out);
}

/* Rank of this process among those of its color, and their number. */
static int place(const ncclComm_t c, int color, int key, int *size) {
  int before = 0, n = 0;
  for (int r = 0; r < c->size; r++) {
    const slot *s = &c->shared->slot[r];
    if (s->color != color) continue;
    n += 1;
    before += s->key < key || (s->key == key && r < c->rank);
  }
  *size = n;
  return before;
}

ncclResult_t ncclCommSplit(ncclComm_t c, int color, int key, ncclComm_t *out, ncclConfig_t *config) {
  (void)config;
  char name[2 * NAME];
  int size = 0;
  c->shared->slot[c->rank].color = color;
  c->shared->slot[c->rank].key = key;
  meet(c);
  int rank = place(c, color, key, &size);
  snprintf(name, sizeof name, "%s-%d-%d", c->name, c->splits++, color);
  meet(c);
  return strlen(name) < NAME ? open_comm(name, rank, size, out) : ncclInvalidUsage;
}

ncclResult_t ncclCommFinalize(ncclComm_t c) {
  meet(c);
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t c) {
  munmap(c->scratch, SCRATCH);
  munmap(c->shared, sizeof *c->shared);
  mk_heap_free(&mock.ctx, c);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c) { return ncclCommDestroy(c); }

ncclResult_t ncclCommUserRank(const ncclComm_t c, int *rank) {
  *rank = c->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state) {
  (void)c;
  *state = mock.async;
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote error" : "mock error";
}

const char *ncclGetLastError(ncclComm_t c) { return c != NULL ? "as ordered" : ""; }

/* ---- windows ---- */

ncclResult_t ncclMemAlloc(void **out, size_t bytes) {
  for (int i = 0; i < ALLOCS; i++) {
    block *b = &mock.block[i];
    if (b->data != NULL) continue;
    snprintf(b->name, NAME, "/nccl-mock-%d-%d", (int)getpid(), mock.names++);
    b->bytes = bytes;
    *out = b->data = map_named(b->name, bytes);
    return b->data != NULL ? ncclSuccess : ncclSystemError;
  }
  return ncclInvalidUsage;
}

static block *block_of(const void *data) {
  for (int i = 0; i < ALLOCS; i++) {
    if (mock.block[i].data == data) return &mock.block[i];
  }
  return NULL;
}

ncclResult_t ncclMemFree(void *data) {
  block *b = block_of(data);
  if (b == NULL) return ncclInvalidArgument;
  munmap(b->data, b->bytes);
  shm_unlink(b->name);
  *b = (block){0};
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t c, void *data, size_t bytes, ncclWindow_t *out, int flags) {
  window *w = NULL;
  block *b = block_of(data);
  if (b == NULL || bytes > b->bytes || flags != NCCL_WIN_COLL_SYMMETRIC) return ncclInvalidArgument;
  if (mk_heap_alloc(&mock.ctx, sizeof *w, &w) != MK_OK) return ncclSystemError;
  w->bytes = bytes;
  memcpy(c->shared->slot[c->rank].name, b->name, NAME);
  meet(c);
  for (int r = 0; r < c->size; r++)
    w->peer[r] = r == c->rank ? data : map_named(c->shared->slot[r].name, bytes);
  meet(c);
  *out = (ncclWindow_t)w;
  return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t c, ncclWindow_t native) {
  window *w = (window *)native;
  for (int r = 0; r < c->size; r++) {
    if (r != c->rank) munmap(w->peer[r], w->bytes);
  }
  mk_heap_free(&mock.ctx, w);
  return ncclSuccess;
}

mk_status nccl_mock_map(mk_context *ctx, ncclComm_t native, ncclWindow_t opaque, mt_window *out) {
  const window *w = (const window *)opaque;
  MK_CHECK(ctx, w != NULL && native->size == out->comm->size, MK_ERR_ARG, "mock: no window");
  memset(out->base, 0, out->bytes);
  for (int r = 0; r < native->size; r++)
    out->peer_base[r] = w->peer[r];
  return MK_OK;
}

/* ---- data ---- */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Moves what the ring has or takes; true when that was something. */
static bool progress(ncclComm_t c, mt_transfer *t) {
  ring *r = t->is_recv ? &c->shared->ring[t->peer][c->rank] : &c->shared->ring[c->rank][t->peer];
  int64_t written = atomic_load(&r->written), read = atomic_load(&r->read);
  int64_t at = (t->is_recv ? read : written) % RING, ready = t->is_recv ? written - read : RING - (written - read);
  int64_t n = mt_transfer_piece_bytes(t, least(ready, RING - at));
  if (n == 0) return false;
  if (t->is_recv) {
    memcpy(t->data + t->passed_bytes, r->data + at, (size_t)n);
    atomic_fetch_add(&r->read, n);
  } else {
    memcpy(r->data + at, t->data + t->passed_bytes, (size_t)n);
    atomic_fetch_add(&r->written, n);
  }
  t->passed_bytes += n;
  return true;
}

static mk_status run_list(mk_context *ctx, ncclComm_t c, mt_transfer_list *list) {
  int heads[2 * RANKS], tails[2 * RANKS];
  MK_TRY(ctx, mt_transfers_copy_own(ctx, list, c->rank));
  mt_transfers_link(list, c->size, heads, tails);
  for (bool left = true; left;) {
    bool moved = false;
    left = false;
    for (int i = 0; i < 2 * c->size; i++) {
      if (heads[i] < 0) continue;
      mt_transfer *t = &list->item[heads[i]];
      left = true;
      moved |= progress(c, t);
      if (t->passed_bytes == t->bytes) heads[i] = t->next;
    }
    if (left && !moved) sched_yield();
  }
  return MK_OK;
}

/* On the stream. */
static mk_status run_call(mk_stream *s, const void *args) {
  call own = *(const call *)args;
  ncclComm_t c = own.comm;
  mt_transfer_list list = {.item = own.item, .n = own.n, .capacity = LIST};
  const void *source[RANKS];
  MK_TRY(s->dev->ctx, run_list(s->dev->ctx, c, &list));
  if (!own.is_reduction) return MK_OK;
  for (int r = 0; r < c->size; r++)
    source[r] = c->scratch + r * own.count * (int64_t)mk_dtype_bytes(own.dtype);
  mt_reduce_ranks(own.dtype, own.op, source, c->size, own.out, own.count);
  return MK_OK;
}

static ncclResult_t put(const call *what, cudaStream_t stream) {
  ncclResult_t ordered = mock.next;
  mock.next = ncclSuccess;
  if (ordered != ncclSuccess) return ordered;
  return mk_stream_call((mk_stream *)stream, run_call, what, sizeof *what) == MK_OK ? ncclSuccess : ncclInternalError;
}

static ncclResult_t add(call *to, const void *data, size_t bytes, int peer, bool is_recv) {
  if (to->n == LIST) return ncclInvalidUsage;
  to->item[to->n++] =
      (mt_transfer){.data = (char *)data, .bytes = (int64_t)bytes, .peer = peer, .is_recv = is_recv, .next = -1};
  return ncclSuccess;
}

static mk_dtype dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat32:
      return MK_F32;
    case ncclBfloat16:
      return MK_BF16;
    case ncclFloat64:
      return MK_F64;
    case ncclInt32:
      return MK_I32;
    case ncclInt64:
      return MK_I64;
    default:
      return MK_U8;
  }
}

/* `send` holds what goes to rank r at r * stride; every rank's contribution ends in the scratch. */
static ncclResult_t reduce(const void *send, size_t stride, void *out, size_t n, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t c, cudaStream_t stream) {
  call what = {.comm = c, .is_reduction = true, .dtype = dtype_of(type), .out = out, .count = (int64_t)n};
  size_t bytes = n * mk_dtype_bytes(what.dtype);
  what.op = op == ncclSum ? MT_SUM : MT_MAX;
  if (bytes * (size_t)c->size > SCRATCH) return ncclInternalError;
  for (int r = 0; r < c->size; r++) {
    add(&what, c->scratch + (size_t)r * bytes, bytes, r, true);
    add(&what, (const char *)send + (size_t)r * stride, bytes, r, false);
  }
  return put(&what, stream);
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t c,
                           cudaStream_t stream) {
  return reduce(send, 0, recv, n, type, op, c, stream);
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t n, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t c, cudaStream_t stream) {
  return reduce(send, n * mk_dtype_bytes(dtype_of(type)), recv, n, type, op, c, stream);
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t n, ncclDataType_t type, ncclComm_t c,
                           cudaStream_t stream) {
  call what = {.comm = c};
  size_t bytes = n * mk_dtype_bytes(dtype_of(type));
  for (int r = 0; r < c->size; r++) {
    add(&what, (char *)recv + (size_t)r * bytes, bytes, r, true);
    add(&what, send, bytes, r, false);
  }
  return put(&what, stream);
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t n, ncclDataType_t type, int root, ncclComm_t c,
                           cudaStream_t stream) {
  call what = {.comm = c};
  size_t bytes = n * mk_dtype_bytes(dtype_of(type));
  add(&what, recv, bytes, root, true);
  for (int r = 0; r < c->size && c->rank == root; r++)
    add(&what, send, bytes, r, false);
  return put(&what, stream);
}

/* ---- groups; the backend has one communicator and one stream in each ---- */

ncclResult_t ncclGroupStart(void) {
  if (mock.depth++ == 0) mock.group = (call){0};
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
  if (--mock.depth > 0 || mock.group.n == 0) return ncclSuccess;
  return put(&mock.group, mock.group_stream);
}

static ncclResult_t point(const void *data, size_t n, ncclDataType_t type, int peer, bool is_recv, ncclComm_t c,
                          cudaStream_t stream) {
  ncclGroupStart();
  mock.group.comm = c;
  mock.group_stream = stream;
  ncclResult_t added = add(&mock.group, data, n * mk_dtype_bytes(dtype_of(type)), peer, is_recv);
  ncclResult_t ended = ncclGroupEnd();
  return added != ncclSuccess ? added : ended;
}

ncclResult_t ncclSend(const void *data, size_t n, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t stream) {
  return point(data, n, type, peer, false, c, stream);
}

ncclResult_t ncclRecv(void *data, size_t n, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t stream) {
  return point(data, n, type, peer, true, c, stream);
}
