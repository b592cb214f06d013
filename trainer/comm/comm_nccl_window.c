/* Windows of the NCCL backend: memory of ncclMemAlloc registered as a symmetric window, so that ranks reached by loads
 * and stores (one NVLink domain) get addresses of each other's memory. All ranks register the same number of bytes, the
 * largest that one of them asks for. Creation agrees on one outcome after each part that a rank does alone. */
#include "kernels/base/heap.h"
#include "trainer/comm/comm_nccl.h"

typedef struct nccl_window {
  mt_window base;
  ncclWindow_t native; /* NULL where NCCL has no symmetric memory */
  bool charged;
} nccl_window;

static size_t round_up(size_t bytes) {
  return (bytes + NCCL_WIN_REQUIRED_ALIGNMENT - 1) / NCCL_WIN_REQUIRED_ALIGNMENT * NCCL_WIN_REQUIRED_ALIGNMENT;
}

static void release(nccl_window *w) {
  if (w == NULL) return;
  mt_window *base = &w->base;
  mk_context *ctx = base->comm->ctx;
  if (w->native != NULL) ncclCommWindowDeregister(((mt_nccl_comm *)base->comm)->native, w->native);
  if (base->base != NULL) ncclMemFree(base->base);
  if (w->charged) mk_device_discharge(base->dev, MK_MEM_COMM, base->bytes);
  mk_heap_free(ctx, base->peer_base);
  mk_heap_free(ctx, w);
}

/* What a rank does alone: records, ledger, memory. */
static mk_status prepare(mt_comm *comm, mk_device *dev, size_t bytes, nccl_window **out) {
  mk_context *ctx = comm->ctx;
  nccl_window *w = NULL;
  mk_status st = MK_OK;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *w, &w));
  w->base = (mt_window){.comm = comm, .dev = dev, .bytes = bytes};
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)comm->size, sizeof(void *), &w->base.peer_base), out);
  MK_TRY_GOTO(ctx, mk_device_charge(dev, MK_MEM_COMM, bytes), out);
  w->charged = true;
  MT_NCCL_GOTO(ctx, ((mt_nccl_comm *)comm)->native, ncclMemAlloc(&w->base.base, round_up(bytes)), out);
  *out = w;
  return MK_OK;
out:
  release(w);
  return st;
}

static mk_status register_and_map(mt_nccl_comm *c, nccl_window *w) {
  mk_context *ctx = c->base.ctx;
  MT_NCCL(
      ctx, c->native,
      ncclCommWindowRegister(c->native, w->base.base, round_up(w->base.bytes), &w->native, NCCL_WIN_COLL_SYMMETRIC));
  MK_TRY(ctx, c->job->map(ctx, c->native, w->native, &w->base));
  return MK_OK;
}

mk_status mt_nccl_window_create(mt_comm *comm, mk_device *dev, size_t bytes, mt_window **out) {
  mt_nccl_comm *c = (mt_nccl_comm *)comm;
  mk_context *ctx = comm->ctx;
  nccl_window *w = NULL;
  int64_t most = (int64_t)bytes;
  mk_status st = MK_OK;
  MK_TRY(ctx, mt_nccl_agree(ctx, c->job, c->control, &most));
  st = prepare(comm, dev, (size_t)most, &w);
  MK_TRY_GOTO(ctx, mt_nccl_agree_ok(ctx, c->job, c->control, st, "window_create"), out);
  st = register_and_map(c, w);
  /* after this every rank's memory is cleared, so peers may write */
  MK_TRY_GOTO(ctx, mt_nccl_agree_ok(ctx, c->job, c->control, st, "window_create"), out);
  *out = &w->base;
  return MK_OK;
out:
  release(w);
  return st;
}

void mt_nccl_window_destroy(mt_window *window) { release((nccl_window *)window); }
