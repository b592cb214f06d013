/* A gather that does not happen must be seen. Under mpirun: fsdp_fault [key=value,...]. Each all-gather of a step in
 * turn is left out (dense and expert, all ranks of one pipeline stage alike), and the step must end as not finite,
 * because with guard a released place is full of NaN until it is gathered again; without guard stale weights of another
 * unit make numbers that look like a loss. A failure prints the mode, the call, what was expected and what came. */
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

/* The case at hand: settings, and the gather that is left out: number `leave_out` (0: none) of a kind and stage. */
typedef struct fault {
  mt_config cfg;
  int stage, kind;
  int64_t leave_out;
} fault;

/* The most over all ranks of what each brings. */
static int64_t most_of(mk_context *ctx, mt_trainer *t, int64_t own) {
  double most = (double)own;
  mk_tensor word = mk_tensor_slice(&t->model->eval_sums, 0, 1);
  tiny_ok(ctx, mk_copy_h2d(t->compute, &word, &most), "most");
  tiny_ok(ctx, mt_comm_all_reduce(t->mesh->world, &word, &word, MT_MAX, t->compute), "most");
  tiny_ok(ctx, mk_copy_d2h(t->compute, &most, &word), "most");
  tiny_ok(ctx, mk_stream_sync(t->compute, false), "most");
  return (int64_t)most;
}

/* The second step of a run with the fault: its log, and the gathers of the kind on that stage. */
static mk_step_log second_step(mk_context *ctx, mt_comm *world, const fault *f, int64_t *calls) {
  mk_step_log log;
  mt_trainer *t = NULL;
  tiny_ok(ctx, mt_trainer_create(ctx, &f->cfg, world, &t), "create");
  tiny_train(ctx, t, 1, false);
  bool here = t->mesh->plan.pp_rank == f->stage;
  for (int k = 0; k < 2; k++)
    install(t, k, here && k == f->kind ? f->leave_out : 0);
  tiny_train(ctx, t, 1, false);
  tiny_ok(ctx, mt_trainer_log_read(t, &log), "log");
  *calls = most_of(ctx, t, here ? switches[f->kind].calls : 0);
  remove_all(t);
  mt_trainer_destroy(t);
  return log;
}

/* Every gather of one kind on one stage in turn. */
static int check_gathers(mk_context *ctx, mt_comm *world, fault f, const char *reshard, int *seen) {
  int failures = 0;
  int64_t calls = 0, ignored = 0;
  if (second_step(ctx, world, &f, &calls).nonfinite) {
    fprintf(stderr, "FAIL %s: nothing is left out, but the step is not finite\n", reshard);
    return 1;
  }
  for (f.leave_out = 1; f.leave_out <= calls && f.leave_out <= MOST_CALLS; f.leave_out++) {
    mk_step_log log = second_step(ctx, world, &f, &ignored);
    *seen += log.nonfinite ? 1 : 0;
    if (!f.cfg.guard || log.nonfinite) continue;
    fprintf(stderr,
            "FAIL %s rank %d: %s gather %lld of %lld of stage %d was left out: expected not finite, got norm %.9g\n",
            reshard, ctx->rank, f.kind == 0 ? "dense" : "expert", (long long)f.leave_out, (long long)calls, f.stage,
            log.grad_norm);
    failures += 1;
  }
  return failures;
}

static int check_mode(mk_context *ctx, mt_comm *world, const char *settings, const char *reshard, bool guard,
                      int *seen) {
  int failures = 0;
  fault f = {.cfg = tiny_config()};
  f.cfg.ranks = world->size, f.cfg.lr = 1e-3, f.cfg.shard = MT_SHARD_FSDP, f.cfg.guard = guard, f.cfg.skip_step = true;
  tiny_set(ctx, &f.cfg, settings, ",");
  tiny_ok(ctx, mt_config_set(ctx, &f.cfg, "fsdp_reshard", reshard), "reshard");
  f.cfg.global_tokens = f.cfg.rank_tokens * mt_config_dp(&f.cfg) * 2;
  for (f.stage = 0; f.stage < f.cfg.pp; f.stage++) {
    for (f.kind = 0; f.kind < 2; f.kind++)
      failures += check_gathers(ctx, world, f, reshard, seen);
  }
  return failures;
}

int main(int argc, char **argv) {
  static const char *const modes[] = {"after_forward", "keep_to_backward", "keep_to_forward"};
  const char *settings = argc > 1 ? argv[1] : "";
  mk_context ctx = {0};
  mt_comm *world = NULL;
  mt_comm_mpi_config mpi = {.timeout_s = 60};
  int failures = 0, seen = 0, unseen = 0;
  tiny_ok(&ctx, mt_comm_mpi_create(&ctx, &mpi, &world), "mpi");
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
    failures += check_mode(&ctx, world, settings, modes[i], true, &seen);
  failures += check_mode(&ctx, world, settings, modes[0], false, &unseen);
  if (unseen > 0) { /* then the poison would prove nothing */
    fprintf(stderr, "FAIL: without guard %d left-out gathers were not finite by themselves\n", unseen);
    failures += 1;
  }
  if (ctx.rank == 0) printf("%d left-out gathers seen with guard, %d without\n", seen, unseen);
  mt_comm_destroy(world);
  return failures > 0;
}
