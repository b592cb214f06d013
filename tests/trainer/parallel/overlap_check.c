/* Gradients travel while the backward pass runs. Under mpirun: overlap_check <key=value,...>... over the tiny model, a
 * bucket a unit. Ops and reductions of a step's last microbatch are counted as the host puts them on streams:
 *   - the first reduction over each group of ranks is put on the communication stream while the backward passes of all
 *     layers but the last one are still to come (attention_bwd is launched once a layer)
 *   - the step itself, behind the backward pass, starts none
 *   - where nothing but gradients travels there, compute does not wait for that stream before the backward pass ends
 * A failure prints the settings, the group, what was expected and what came. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/trainer/support/tiny.h"

enum { MOST_GROUPS = 4 };

/* A communicator whose reductions are counted; its table is its own but for these. */
typedef struct group {
  mt_comm *comm;
  const mt_comm_ops *own;
  mt_comm_ops ops;
  int64_t calls, layers_before; /* reductions on the comm stream; backward passes launched before the first one */
} group;

/* What is watched: one trainer at a time. */
static struct watch {
  const mt_trainer *t;
  group group[MOST_GROUPS];
  int groups;
  const mk_device_ops *own;
  mk_device_ops ops;
  int64_t layers, calls, waits; /* backward passes of layers; reductions of all groups; waits of compute behind them */
} watch;

static mk_status launch(mk_stream *stream, mk_op_id op, const void *args, size_t args_bytes) {
  bool last = watch.t->running == watch.t->microbatches - 1;
  watch.layers += last && stream == watch.t->compute && op == MK_OP_attention_bwd;
  return watch.own->launch(stream, op, args, args_bytes);
}

static mk_status stream_wait(mk_stream *stream, mk_event *event) {
  watch.waits += stream == watch.t->compute && watch.calls > 0;
  return watch.own->stream_wait(stream, event);
}

static group *counted(const mt_comm *comm, const mk_stream *stream) {
  group *g = watch.group;
  while (g->comm != comm)
    g++;
  if (stream != watch.t->sharding->comm) return g; /* sums of the step */
  if (g->calls++ == 0) g->layers_before = watch.layers;
  watch.calls += 1;
  return g;
}

static mk_status all_reduce(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op, mk_stream *s) {
  return counted(comm, s)->own->all_reduce(comm, send, recv, op, s);
}

static mk_status reduce_scatter(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op,
                                mk_stream *s) {
  return counted(comm, s)->own->reduce_scatter(comm, send, recv, op, s);
}

static void watch_group(mt_comm *comm) {
  if (comm == NULL || comm->size == 1) return;
  group *g = &watch.group[watch.groups++];
  *g = (group){.comm = comm, .own = comm->ops, .ops = *comm->ops};
  g->ops.all_reduce = all_reduce;
  g->ops.reduce_scatter = reduce_scatter;
  comm->ops = &g->ops;
}

static void watch_begin(mt_trainer *t) {
  bool cut = t->cfg.shard == MT_SHARD_FSDP;
  watch = (struct watch){.t = t, .own = t->dev->ops, .ops = *t->dev->ops};
  watch.ops.launch = launch;
  watch.ops.stream_wait = stream_wait;
  t->dev->ops = &watch.ops;
  for (int kind = 0; kind < 2; kind++) {
    watch_group(cut ? t->mesh->shard[kind] : mt_sharding_group(t->mesh, kind == 1));
    if (cut) watch_group(t->mesh->copies[kind]);
  }
}

static void watch_end(mt_trainer *t) {
  t->dev->ops = watch.own;
  for (int i = 0; i < watch.groups; i++)
    watch.group[i].comm->ops = watch.group[i].own;
}

/* All microbatches of one step; what the last one did is left in `watch`. */
static void run_microbatches(mk_context *ctx, mt_trainer *t) {
  mt_data *data = NULL;
  int32_t *tokens = malloc((size_t)t->cfg.rank_tokens * sizeof *tokens);
  int32_t *labels = malloc((size_t)t->cfg.rank_tokens * sizeof *labels);
  tiny_ok(ctx, mt_data_create(ctx, &t->cfg, t->mesh->plan.dp_rank, &data), "data");
  tiny_ok(ctx, mt_trainer_begin(t), "begin");
  for (int64_t m = 0; m < t->microbatches; m++) {
    if (m == t->microbatches - 1) watch_begin(t);
    tiny_ok(ctx, mt_data_batch(data, 0, m, tokens, labels), "batch");
    tiny_ok(ctx, mt_trainer_microbatch(t, tokens, labels), "microbatch");
  }
  mt_data_destroy(data);
  free(labels);
  free(tokens);
}

static int expect(const char *settings, const char *purpose, const char *what, bool good, int64_t expected,
                  int64_t got) {
  if (good) return 0;
  fprintf(stderr, "FAIL '%s': group %s, %s: expected %lld, got %lld\n", settings, purpose, what, (long long)expected,
          (long long)got);
  return 1;
}

static int check(mk_context *ctx, mt_comm *world, const char *settings) {
  int failures = 0;
  mt_trainer *t = NULL;
  mt_config cfg = tiny_config();
  cfg.ranks = world->size, cfg.bucket_mib = 1e-6;
  tiny_set(ctx, &cfg, settings, ",");
  cfg.global_tokens = cfg.rank_tokens * mt_config_dp(&cfg) * 2;
  tiny_ok(ctx, mt_trainer_create(ctx, &cfg, world, &t), settings);
  run_microbatches(ctx, t);
  int64_t layers = watch.layers, calls = watch.calls, waits = watch.waits;
  tiny_ok(ctx, mt_trainer_reduce(t), "reduce");
  for (int i = 0; i < watch.groups; i++) {
    const group *g = &watch.group[i];
    failures += expect(settings, g->comm->purpose, "reductions, at least", g->calls > 0, 1, g->calls);
    failures += expect(settings, g->comm->purpose, "layers whose backward pass was launched before the first, at most",
                       g->layers_before <= 1 && layers > 1, 1, g->layers_before);
  }
  failures += expect(settings, "all", "reductions started behind the backward pass", watch.calls == calls, 0,
                     watch.calls - calls);
  bool alone = cfg.shard != MT_SHARD_FSDP && cfg.pp == 1;
  failures += expect(settings, "all", "waits of compute in the backward pass", !alone || waits == 0, 0, waits);
  tiny_ok(ctx, mt_trainer_update(t), "update");
  watch_end(t);
  mt_trainer_destroy(t);
  if (ctx->rank == 0)
    printf("'%s': %lld reductions beside %lld layers\n", settings, (long long)calls, (long long)layers);
  return failures;
}

int main(int argc, char **argv) {
  mk_context ctx = {0};
  mt_comm *world = NULL;
  mt_comm_mpi_config mpi = {.threaded = true, .timeout_s = 60};
  int failures = 0;
  tiny_ok(&ctx, mt_comm_mpi_create(&ctx, &mpi, &world), "mpi");
  for (int i = 1; i < argc; i++)
    failures += check(&ctx, world, argv[i]);
  mt_comm_destroy(world);
  return failures > 0;
}
