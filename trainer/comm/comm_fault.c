/* Faults on purpose: a communicator that refuses one of its calls, counted over the world and all that is split from
 * it, and forwards the others. What the trainer does then is what it would do if the network failed there. */
#include "kernels/base/heap.h"
#include "trainer/comm/comm_wrap.h"

typedef struct fault {
  mk_context *ctx;
  int64_t at, calls;
  int users;
} fault;

static void retain(void *state) { ((fault *)state)->users += 1; }

static void release(void *state) {
  fault *f = state;
  f->users -= 1;
  if (f->users == 0) mk_heap_free(f->ctx, f);
}

static mk_status count(mt_comm_wrap *wrap, const char *call) {
  fault *f = wrap->state;
  f->calls += 1;
  MK_CHECK(f->ctx, f->calls != f->at, MK_ERR_COMM,
           "%s on %s: communication call %lld of rank %d fails, as the key fault asks", call, wrap->base.purpose,
           (long long)f->calls, f->ctx->rank);
  return MK_OK;
}

static mk_status before(mt_comm_wrap *wrap, const char *call, const mk_tensor *t) {
  (void)t;
  return count(wrap, call);
}

static const mt_wrap_hooks fault_hooks = {
    .before = before, .before_setup = count, .retain = retain, .release = release};

mk_status mt_comm_fault_create(mk_context *ctx, mt_comm *inner, int64_t at, mt_comm **out) {
  fault *f = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *f, &f));
  *f = (fault){.ctx = ctx, .at = at, .users = 1};
  mk_status st = mt_comm_wrap_create(inner, &fault_hooks, f, out);
  release(f); /* the wrapper holds it now, or nobody does */
  return st;
}
