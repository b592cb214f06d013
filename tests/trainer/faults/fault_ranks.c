/* Several ranks of which all fail at the same place: `fault_ranks KEY=VALUE,... ...` under mpirun, one argument a
 * layout, its keys on top of the tiny model's. The n-th host allocation (of creation) and the n-th communication call
 * (of creation and two steps) fail for every n: the status is the fault's, each rank names itself, no block of our heap
 * is left and nothing waits; then the next attempt uses the same MPI. Failures of one rank alone end the processes, so
 * they are sweep.sh's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/trainer/support/tiny.h"

enum { STEPS = 2 };

typedef struct attempt {
  mk_context ctx;
  mk_status st;
} attempt;

static mk_status steps(mk_context *ctx, mt_trainer *t, mt_data *data, int32_t *tokens, int32_t *labels) {
  for (int n = 0; n < STEPS; n++) {
    MK_TRY(ctx, mt_trainer_begin(t));
    for (int64_t m = 0; m < t->microbatches; m++) {
      MK_TRY(ctx, mt_data_batch(data, t->step - 1, m, tokens, labels));
      MK_TRY(ctx, mt_trainer_microbatch(t, tokens, labels));
    }
    MK_TRY(ctx, mt_trainer_finish(t));
  }
  return mk_stream_sync(t->compute, false);
}

static mk_status train(mk_context *ctx, const mt_config *c, mt_comm *world, bool creation_only) {
  enum { MOST_TOKENS = 4096 };
  static int32_t tokens[MOST_TOKENS], labels[MOST_TOKENS];
  mt_trainer *t = NULL;
  mt_data *data = NULL;
  mk_status st = mt_trainer_create(ctx, c, world, &t);
  if (st == MK_OK) st = mt_data_create(ctx, c, t->mesh->plan.dp_rank, &data);
  if (st == MK_OK && !creation_only) st = steps(ctx, t, data, tokens, labels);
  mt_data_destroy(data);
  mt_trainer_destroy(t);
  return st;
}

/* One attempt with a world of its own, so that no fault outlives it. */
static attempt try_once(const mt_config *c, long long heap_at, long long comm_at) {
  attempt a = {.ctx = {.heap_fail_at = heap_at}};
  mt_comm *world = NULL;
  mt_comm_mpi_config mpi = {.threaded = true, .timeout_s = 20};
  a.st = mt_comm_mpi_create(&a.ctx, &mpi, &world);
  if (a.st == MK_OK && comm_at > 0) a.st = mt_comm_fault_create(&a.ctx, world, comm_at, &world);
  if (a.st == MK_OK) a.st = train(&a.ctx, c, world, comm_at == 0);
  mt_comm_destroy(world);
  return a;
}

static int wrong(const char *layout, const char *kind, long long n, const attempt *a, const char *why) {
  fprintf(stderr, "FAIL %s: %s %lld on rank %d: %s: status %s, %lld blocks left, said '%s'\n", layout, kind, n,
          a->ctx.rank, why, mk_status_name(a->st), a->ctx.heap_live, a->ctx.error.message);
  return 1;
}

static int sweep_heap(const char *layout, const mt_config *c) {
  for (long long n = 1;; n++) {
    attempt a = try_once(c, n, 0);
    bool reached = a.ctx.heap_calls >= n;
    if (a.ctx.heap_live != 0) return wrong(layout, "allocation", n, &a, "blocks are left");
    if (a.st != (reached ? MK_ERR_MEMORY : MK_OK)) return wrong(layout, "allocation", n, &a, "wrong status");
    if (reached && strstr(a.ctx.error.message, "memory") == NULL) return wrong(layout, "allocation", n, &a, "message");
    if (!reached) return n < 100 ? wrong(layout, "allocation", n, &a, "too few were tried") : 0;
  }
}

static int sweep_comm(const char *layout, const mt_config *c) {
  char said[96];
  for (long long n = 1;; n++) {
    attempt a = try_once(c, 0, n);
    if (a.ctx.heap_live != 0) return wrong(layout, "call", n, &a, "blocks are left");
    if (a.st == MK_OK) return n < 10 ? wrong(layout, "call", n, &a, "too few were tried") : 0;
    snprintf(said, sizeof said, "communication call %lld of rank %d fails", n, a.ctx.rank);
    if (a.st != MK_ERR_COMM) return wrong(layout, "call", n, &a, "wrong status");
    if (strstr(a.ctx.error.message, said) == NULL) return wrong(layout, "call", n, &a, "message");
  }
}

static mt_config layout_config(mk_context *ctx, const char *layout, int ranks) {
  mt_config c = tiny_config();
  c.ranks = ranks, c.rank_tokens = 12, c.global_tokens = 12 * 2 * ranks, c.bucket_mib = 0.02;
  tiny_set(ctx, &c, layout, ",");
  return c;
}

int main(int argc, char **argv) {
  mk_context ctx = {0};
  mt_comm *world = NULL;
  int failures = 0;
  mt_comm_mpi_config mpi = {.threaded = true, .timeout_s = 60};
  tiny_ok(&ctx, mt_comm_mpi_create(&ctx, &mpi, &world), "mpi"); /* keeps MPI alive */
  for (int i = 1; i < argc && failures == 0; i++) {
    mt_config c = layout_config(&ctx, argv[i], world->size);
    failures = sweep_heap(argv[i], &c) + sweep_comm(argv[i], &c);
    if (failures == 0 && world->rank == 0) printf("ok %s on %d ranks\n", argv[i], world->size);
  }
  if (failures > 0) mt_comm_abort(world, 1); /* the others may be in another attempt */
  mt_comm_destroy(world);
  return 0;
}
