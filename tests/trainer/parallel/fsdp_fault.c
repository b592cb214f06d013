/* A gather that does not happen must be seen. Under mpirun, 2 ranks: each all-gather of a step in turn is left out
 * (dense and expert, every rank alike), and the step must end as not finite, because with guard a released place is
 * full of NaN until it is gathered again; without guard stale weights of another unit make numbers that look like a
 * loss. A failure prints the mode, the call, what was expected and what came. */
#include <math.h>
#include <stdio.h>

#include "tests/trainer/support/tiny.h"

enum { MOST_CALLS = 200 };

/* The fault switch: a table that is the communicator's own but for one call. */
typedef struct faulty {
  mt_comm_ops ops;
  const mt_comm_ops *own;
  int64_t calls, leave_out; /* gathers so far; the one (1-based) that moves nothing */
} faulty;

static faulty switches[2]; /* dense, expert */

static mk_status all_gather(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mk_stream *s) {
  faulty *f = comm->ops == &switches[0].ops ? &switches[0] : &switches[1];
  f->calls += 1;
  return f->calls == f->leave_out ? MK_OK : f->own->all_gather(comm, send, recv, s);
}

static void install(mt_trainer *t, int kind, int64_t leave_out) {
  faulty *f = &switches[kind];
  *f = (faulty){.ops = *t->mesh->shard[kind]->ops, .own = t->mesh->shard[kind]->ops, .leave_out = leave_out};
  f->ops.all_gather = all_gather;
  t->mesh->shard[kind]->ops = &f->ops;
}

static void remove_all(mt_trainer *t) {
  for (int kind = 0; kind < 2; kind++)
    t->mesh->shard[kind]->ops = switches[kind].own;
}

/* The second step of a run with gather `leave_out` of `kind` left out (0: none): its log, and the step's gathers. */
static mk_step_log second_step(mk_context *ctx, const mt_config *c, mt_comm *world, int kind, int64_t leave_out,
                               int64_t calls[2]) {
  mk_step_log log;
  mt_trainer *t = NULL;
  tiny_ok(ctx, mt_trainer_create(ctx, c, world, &t), "create");
  tiny_train(ctx, t, 1, false);
  for (int k = 0; k < 2; k++)
    install(t, k, k == kind ? leave_out : 0);
  tiny_train(ctx, t, 1, false);
  tiny_ok(ctx, mt_trainer_log_read(t, &log), "log");
  for (int k = 0; k < 2; k++)
    calls[k] = switches[k].calls;
  remove_all(t);
  mt_trainer_destroy(t);
  return log;
}

static int check_mode(mk_context *ctx, mt_comm *world, const char *reshard, bool guard, int *seen) {
  int failures = 0;
  int64_t calls[2], ignored[2];
  mt_config c = tiny_config();
  c.ranks = world->size, c.global_tokens = c.rank_tokens * world->size * 2, c.lr = 1e-3;
  c.shard = MT_SHARD_FSDP, c.guard = guard, c.skip_step = true;
  tiny_ok(ctx, mt_config_set(ctx, &c, "fsdp_reshard", reshard), "reshard");
  mk_step_log whole = second_step(ctx, &c, world, 0, 0, calls);
  if (whole.nonfinite) {
    fprintf(stderr, "FAIL %s: nothing is left out, but the step is not finite\n", reshard);
    return 1;
  }
  for (int kind = 0; kind < 2; kind++) {
    for (int64_t n = 1; n <= calls[kind] && n <= MOST_CALLS; n++) {
      mk_step_log log = second_step(ctx, &c, world, kind, n, ignored);
      *seen += log.nonfinite ? 1 : 0;
      if (!guard || log.nonfinite) continue;
      fprintf(stderr, "FAIL %s rank %d: %s gather %lld of %lld was left out: expected not finite, got norm %.9g\n",
              reshard, ctx->rank, kind == 0 ? "dense" : "expert", (long long)n, (long long)calls[kind], log.grad_norm);
      failures += 1;
    }
  }
  return failures;
}

int main(void) {
  static const char *const modes[] = {"after_forward", "keep_to_backward", "keep_to_forward"};
  mk_context ctx = {0};
  mt_comm *world = NULL;
  mt_comm_mpi_config mpi = {.timeout_s = 60};
  int failures = 0, seen = 0, unseen = 0;
  tiny_ok(&ctx, mt_comm_mpi_create(&ctx, &mpi, &world), "mpi");
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
    failures += check_mode(&ctx, world, modes[i], true, &seen);
  failures += check_mode(&ctx, world, modes[0], false, &unseen);
  if (unseen > 0) { /* then the poison would prove nothing */
    fprintf(stderr, "FAIL: without guard %d left-out gathers were not finite by themselves\n", unseen);
    failures += 1;
  }
  if (ctx.rank == 0) printf("%d left-out gathers seen with guard, %d without\n", seen, unseen);
  mt_comm_destroy(world);
  return failures > 0;
}
