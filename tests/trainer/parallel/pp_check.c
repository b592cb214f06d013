/* What a pipeline must do besides the sums of parallel_check. Started under mpirun:
 *   pp_check <check>:<pp>-<schedule>-<chunks>-<microbatches>[:<ep>:<transport>[:<shard>]]...
 *   evaluate  held-out loss equals one rank's, and training does not notice
 *   poison    a NaN in the last stage's head makes the step non-finite on every rank, which changes nothing
 *   lease     rows of two live microbatches in one place, as an early release would put them, are noticed
 *   trace     the bytes in the trace file of each pipeline purpose are those predicted
 *   weights   a file written by the pipeline is what one rank has, and is read back bit for bit
 *   memory    a rank allocates what was planned, and the plan is that of the rank that needs most
 *   waits     a step allocates nothing, and waits only as often as the transport says
 * A failure prints check, rank, what, expected, got. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/trainer/support/tiny.h"
#include "trainer/step/evaluate.h"
#include "trainer/step/weights_io.h"

typedef struct fixture {
  mk_context ctx, one_ctx;
  mt_comm *world, *self;
  mt_config cfg;
  const char *name;
  int failures;
} fixture;

static void expect(fixture *f, const char *what, double expected, double got, double tolerance) {
  if (fabs(got - expected) <= tolerance * fabs(expected)) return;
  fprintf(stderr, "FAIL %s rank %d: %s: expected %.9g got %.9g\n", f->name, f->ctx.rank, what, expected, got);
  f->failures += 1;
}

static mt_config one_rank(const mt_config *many) {
  mt_config one = *many;
  one.ranks = 1, one.ep = 1, one.pp = 1, one.pp_schedule = MT_PP_1F1B, one.pp_chunks = 1, one.shard = MT_SHARD_NONE;
  return one;
}

static double evaluate(mk_context *ctx, mt_trainer *t) {
  mt_data *data = NULL;
  double loss = NAN;
  size_t bytes = (size_t)t->cfg.rank_tokens * sizeof(int32_t);
  int32_t *tokens = malloc(bytes), *labels = malloc(bytes);
  tiny_ok(ctx, mt_data_create(ctx, &t->cfg, t->mesh->plan.dp_rank, &data), "data");
  tiny_ok(ctx, mt_evaluate(t, data, &(mt_stop){0}, tokens, labels, &loss), "evaluate");
  mt_data_destroy(data);
  free(labels);
  free(tokens);
  return loss;
}

/* Steps, each with an evaluation after it when `evaluates`; gives the last loss and the last held-out loss. */
static mk_step_log train(mk_context *ctx, const mt_config *c, mt_comm *world, bool evaluates, double *held_out) {
  enum { STEPS = 3 };
  mt_trainer *t = NULL;
  mk_step_log log;
  tiny_ok(ctx, mt_trainer_create(ctx, c, world, &t), "create");
  for (int n = 0; n < STEPS; n++) {
    tiny_train(ctx, t, 1, false);
    if (evaluates || n == STEPS - 1) *held_out = evaluate(ctx, t);
  }
  tiny_ok(ctx, mt_trainer_log_read(t, &log), "log");
  mt_trainer_destroy(t);
  return log;
}

static void check_evaluate(fixture *f) {
  double many = NAN, again = NAN, one = NAN;
  f->cfg.eval_tokens = 7 * f->cfg.seq_len;
  mt_config one_cfg = one_rank(&f->cfg);
  mk_step_log with = train(&f->ctx, &f->cfg, f->world, true, &many);
  mk_step_log without = train(&f->ctx, &f->cfg, f->world, false, &again);
  mk_step_log single = train(&f->one_ctx, &one_cfg, f->self, false, &one);
  expect(f, "held-out loss", one, many, 1e-5);
  expect(f, "held-out loss without earlier evaluations", many, again, 0);
  expect(f, "loss without evaluations", with.sum[MK_SUM_CE], without.sum[MK_SUM_CE], 0);
  expect(f, "loss", single.sum[MK_SUM_CE], with.sum[MK_SUM_CE], 1e-5);
  expect(f, "norm", single.grad_norm, with.grad_norm, 1e-5);
  expect(f, "imbalance", single.imbalance, with.imbalance, 1e-12);
}

static void check_poison(fixture *f) {
  mt_trainer *t = NULL;
  mk_step_log log;
  tiny_ok(&f->ctx, mt_trainer_create(&f->ctx, &f->cfg, f->world, &t), "create");
  mt_param *head = mt_params_by_name(&t->model->params, "head.out");
  expect(f, "rank with the head", t->model->predicts, head != NULL, 0);
  if (head != NULL) {
    double *values = malloc((size_t)head->count * sizeof *values);
    tiny_ok(&f->ctx, mt_trainer_read(t, "head.out", MT_VALUE_WEIGHT, values), "read");
    values[head->count / 2] = NAN;
    tiny_ok(&f->ctx, mt_trainer_write(t, "head.out", values), "write");
    tiny_ok(&f->ctx, mt_trainer_weights_changed(t), "pack");
    free(values);
  }
  int64_t count = t->model->params.item[0].count;
  double *before = malloc((size_t)count * sizeof *before), *after = malloc((size_t)count * sizeof *after);
  const char *name = t->model->params.item[0].name;
  tiny_ok(&f->ctx, mt_trainer_read(t, name, MT_VALUE_MAIN, before), "read");
  tiny_train(&f->ctx, t, 1, false);
  tiny_ok(&f->ctx, mt_trainer_log_read(t, &log), "log");
  tiny_ok(&f->ctx, mt_trainer_read(t, name, MT_VALUE_MAIN, after), "read");
  expect(f, "non-finite", 1, log.nonfinite, 0);
  expect(f, "skipped", 1, log.skipped, 0);
  expect(f, "unchanged parameters", 0, memcmp(before, after, (size_t)t->model->params.item[0].shard_count * 8), 0);
  free(after);
  free(before);
  mt_trainer_destroy(t);
}

/* Every gradient of this rank after one step, one after the other. */
static double *gradients(fixture *f, bool early, int64_t *count) {
  mt_trainer *t = NULL;
  tiny_ok(&f->ctx, mt_trainer_create(&f->ctx, &f->cfg, f->world, &t), "create");
  mt_model *m = t->model;
  expect(f, "live microbatches", true, m->sets >= 2, 0);
  for (int s = 1; early && s < m->sets; s++) {
    for (int i = 0; i < m->n_layers; i++)
      m->set[s].layer[i].mlp.ep.rows = m->set[0].layer[i].mlp.ep.rows;
  }
  tiny_train(&f->ctx, t, 1, true);
  *count = m->params.flat_count[0] + m->params.flat_count[1];
  double *values = calloc((size_t)*count, sizeof *values), *at = values;
  for (int i = 0; i < m->params.count; i++) {
    tiny_ok(&f->ctx, mt_trainer_read(t, m->params.item[i].name, MT_VALUE_GRADIENT, at), "read");
    at += m->params.item[i].count;
  }
  mt_trainer_destroy(t);
  return values;
}

static void check_lease(fixture *f) {
  int64_t count = 0;
  double *kept = gradients(f, false, &count), *again = gradients(f, false, &count), *early = gradients(f, true, &count);
  expect(f, "gradients of a rerun", 0, tiny_norm_error(again, kept, count), 0);
  double error = tiny_norm_error(early, kept, count);
  if (!(error > 1e-3)) expect(f, "an early release changes gradients by more than", 1e-3, error, 0);
  free(early);
  free(again);
  free(kept);
}

/* Sum of the bytes of a purpose in a trace file. */
static int64_t traced_bytes(fixture *f, const char *path, const char *purpose) {
  char line[256], op[32], where[32];
  long long count = 0, bytes = 0, sum = 0;
  FILE *file = fopen(path, "r");
  if (file == NULL) {
    fprintf(stderr, "FAIL %s: %s: no trace\n", f->name, path);
    f->failures += 1;
    return -1;
  }
  while (fgets(line, sizeof line, file) != NULL) {
    if (sscanf(line, "%31[^,],%31[^,],%*[^,],%lld,%lld", op, where, &count, &bytes) == 4 && strcmp(where, purpose) == 0)
      sum += bytes;
  }
  fclose(file);
  return sum;
}

static void check_trace(fixture *f) {
  enum { STEPS = 2 };
  char path[64];
  mt_comm *world = NULL, *traced = NULL;
  mt_trainer *t = NULL;
  snprintf(path, sizeof path, "/tmp/moemark-pp-trace-%d-%d", (int)getpid(), f->ctx.rank);
  tiny_ok(&f->ctx, mt_comm_split(f->world, 0, f->ctx.rank, "world", &world), "split");
  tiny_ok(&f->ctx, mt_comm_trace_create(&f->ctx, world, path, &traced), "trace");
  tiny_ok(&f->ctx, mt_trainer_create(&f->ctx, &f->cfg, traced, &t), "create");
  tiny_train(&f->ctx, t, STEPS, false);
  int64_t expected = STEPS * mt_pp_wire_bytes(&f->cfg, t->mesh->plan.pp_rank);
  int64_t sends = 2 * f->cfg.pp * f->cfg.pp_chunks - 2; /* of a microbatch, all ranks; v: one border is inside a rank */
  if (f->cfg.pp_schedule == MT_PP_V) sends -= 2;
  int64_t all = 0;
  for (int r = 0; r < f->cfg.pp; r++)
    all += mt_pp_wire_bytes(&f->cfg, r);
  mt_trainer_destroy(t);
  mt_comm_destroy(traced);
  int64_t got = traced_bytes(f, path, "pp") + traced_bytes(f, path, "pp_back");
  expect(f, "traced bytes", (double)expected, (double)got, 0);
  expect(f, "predicted bytes of all stages",
         (double)(sends * mt_config_microbatches(&f->cfg) * f->cfg.rank_tokens * f->cfg.d_model * 4), (double)all, 0);
  unlink(path);
}

static void check_waits(fixture *f) {
  mt_trainer *t = NULL;
  mt_data *data = NULL;
  int32_t tokens[64], labels[64];
  tiny_ok(&f->ctx, mt_trainer_create(&f->ctx, &f->cfg, f->world, &t), "create");
  tiny_ok(&f->ctx, mt_data_create(&f->ctx, &f->cfg, t->mesh->plan.dp_rank, &data), "data");
  tiny_train(&f->ctx, t, 2, false);
  int64_t heap = f->ctx.heap_calls, device = t->dev->alloc_calls, waits = t->dev->host_waits;
  tiny_ok(&f->ctx, mt_trainer_begin(t), "begin");
  for (int64_t m = 0; m < t->microbatches; m++) {
    tiny_ok(&f->ctx, mt_data_batch(data, t->step - 1, m, tokens, labels), "batch");
    tiny_ok(&f->ctx, mt_trainer_microbatch(t, tokens, labels), "microbatch");
  }
  tiny_ok(&f->ctx, mt_trainer_finish(t), "finish");
  expect(f, "heap allocations", 0, (double)(f->ctx.heap_calls - heap), 0);
  expect(f, "device allocations", 0, (double)(t->dev->alloc_calls - device), 0);
  expect(f, "host waits", 0, (double)(t->dev->host_waits - waits), 0);
  mt_data_destroy(data);
  mt_trainer_destroy(t);
}

/* Every parameter of this rank equals that of a one-rank trainer whose weights come from `path`. */
static void compare_file(fixture *f, mt_trainer *t, const char *path) {
  mt_trainer *one = NULL;
  mt_config c = one_rank(&f->cfg);
  tiny_ok(&f->one_ctx, mt_trainer_create(&f->one_ctx, &c, f->self, &one), "create");
  tiny_ok(&f->one_ctx, mt_weights_load(one, path), "load");
  for (int i = 0; i < t->model->params.count; i++) {
    const mt_param *p = &t->model->params.item[i];
    expect(f, p->name, 0, tiny_param_error(t, one, p, MT_VALUE_WEIGHT), 0);
  }
  mt_trainer_destroy(one);
}

static void check_weights(fixture *f) {
  char folder[64], path[96];
  int32_t id = (int32_t)getpid();
  mt_trainer *t = NULL, *again = NULL;
  tiny_ok(&f->ctx, mt_trainer_create(&f->ctx, &f->cfg, f->world, &t), "create");
  mk_tensor word = t->optim.verdict; /* one name for all ranks */
  tiny_ok(&f->ctx, mk_copy_h2d(t->compute, &word, &id), "id");
  tiny_ok(&f->ctx, mt_comm_broadcast(f->world, &word, 0, t->compute), "id");
  tiny_ok(&f->ctx, mk_copy_d2h(t->compute, &id, &word), "id");
  tiny_ok(&f->ctx, mk_stream_sync(t->compute, false), "id");
  snprintf(folder, sizeof folder, "/tmp/moemark-pp-weights-%d", (int)id);
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  tiny_train(&f->ctx, t, 2, false);
  tiny_ok(&f->ctx, mt_weights_save(t, folder), "save");
  tiny_ok(&f->ctx, mt_comm_barrier(f->world, t->compute), "barrier");
  compare_file(f, t, path);
  tiny_ok(&f->ctx, mt_trainer_create(&f->ctx, &f->cfg, f->world, &again), "create");
  tiny_ok(&f->ctx, mt_weights_load(again, path), "load");
  compare_file(f, again, path);
  tiny_train(&f->ctx, t, 1, false); /* what lay in its gradients is of no consequence */
  mt_trainer_destroy(again);
  tiny_ok(&f->ctx, mt_comm_barrier(f->world, t->compute), "barrier");
  mt_trainer_destroy(t);
  if (f->world->rank != 0) return;
  unlink(path);
  snprintf(path, sizeof path, "%s/config.json", folder);
  unlink(path);
  rmdir(folder);
}

static void check_memory(fixture *f) {
  mt_trainer *t = NULL;
  size_t planned[MK_MEM_COUNT], total = 0, own = 0;
  tiny_ok(&f->ctx, mt_plan_memory(&f->ctx, &f->cfg, planned), "plan");
  tiny_ok(&f->ctx, mt_trainer_create(&f->ctx, &f->cfg, f->world, &t), "create");
  tiny_train(&f->ctx, t, 2, false);
  for (int i = 0; i < MK_MEM_COUNT; i++) {
    expect(f, mk_memory_name((mk_memory)i), (double)t->memory.arena[i].peak_bytes, (double)t->dev->peak_bytes[i], 0);
    own += t->dev->peak_bytes[i];
    total += planned[i];
  }
  double most = (double)own;
  mk_tensor two = mk_tensor_slice(&t->model->eval_sums, 0, 1);
  tiny_ok(&f->ctx, mk_copy_h2d(t->compute, &two, &most), "most");
  tiny_ok(&f->ctx, mt_comm_all_reduce(f->world, &two, &two, MT_MAX, t->compute), "most");
  tiny_ok(&f->ctx, mk_copy_d2h(t->compute, &most, &two), "most");
  tiny_ok(&f->ctx, mk_stream_sync(t->compute, false), "most");
  expect(f, "bytes of the rank that needs most", (double)total, most, 0);
  mt_trainer_destroy(t);
}

static const struct {
  const char *name;
  void (*run)(fixture *f);
} CHECKS[] = {{"evaluate", check_evaluate}, {"poison", check_poison}, {"lease", check_lease}, {"trace", check_trace},
              {"weights", check_weights},   {"memory", check_memory}, {"waits", check_waits}};

static int run_check(const char *text, mt_comm *world, mt_comm *self) {
  char check[16], schedule[16], transport[16] = "block", shard[16] = "dist_opt";
  int pp = 1, chunks = 1, microbatches = 1, ep = 1;
  fixture f = {.world = world, .self = self, .cfg = tiny_config(), .name = text};
  f.ctx.rank = f.one_ctx.rank = world->rank;
  int fields = sscanf(text, "%15[^:]:%d-%15[^-]-%d-%d:%d:%15[^:]:%15s", check, &pp, schedule, &chunks, &microbatches,
                      &ep, transport, shard);
  f.cfg.ranks = world->size, f.cfg.pp = pp, f.cfg.pp_chunks = chunks, f.cfg.ep = ep, f.cfg.layers = pp * chunks + 2;
  tiny_ok(&f.ctx, mt_config_set(&f.ctx, &f.cfg, "shard", world->size > pp ? shard : "none"), text);
  f.cfg.global_tokens = f.cfg.rank_tokens * (world->size / pp) * microbatches;
  tiny_ok(&f.ctx, mt_config_set(&f.ctx, &f.cfg, "pp_schedule", schedule), text);
  tiny_ok(&f.ctx, mt_config_set(&f.ctx, &f.cfg, "ep_transport", transport), text);
  for (size_t i = 0; fields >= 5 && i < sizeof CHECKS / sizeof CHECKS[0]; i++) {
    if (strcmp(CHECKS[i].name, check) != 0) continue;
    CHECKS[i].run(&f);
    if (world->rank == 0 && f.failures == 0) printf("ok %s on %d ranks\n", text, world->size);
    return f.failures;
  }
  fprintf(stderr, "'%s' is no check\n", text);
  exit(2);
}

int main(int argc, char **argv) {
  mk_context ctx = {0}, self_ctx = {0};
  mt_comm *world = NULL, *self = NULL;
  int failures = 0;
  mt_comm_mpi_config mpi = {.threaded = true, .timeout_s = 60};
  tiny_ok(&ctx, mt_comm_mpi_create(&ctx, &mpi, &world), "mpi");
  tiny_ok(&self_ctx, mt_comm_self_create(&self_ctx, &self), "self");
  for (int i = 1; i < argc; i++)
    failures += run_check(argv[i], world, self);
  mt_comm_destroy(self);
  mt_comm_destroy(world);
  return failures > 0;
}
