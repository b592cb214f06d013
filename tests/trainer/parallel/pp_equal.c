/* A pipeline against one rank that sees the same token blocks: loss sums, expert counts, gradients, norm, bytes handed
 * over and, after three steps, parameters. Started under mpirun:
 *   pp_equal <row>...
 *                 row = shard:ep:precision:device:reduce:transport:pp-schedule-chunks-microbatches[,key=value]...
 *                 e.g. none:1:fp32:cpu:all_reduce:block:2-interleaved-2-4
 * Every rank runs the one-rank twin itself and compares what it owns. A row that begins with `bits=` compares, bit for
 * bit, with the same layout on the cpu device instead: cpu is a rerun, cpu_async a missing wait, guard a host read;
 * `recompute=` compares full recompute with none, `block=` the row's transport with block.
 * A failure prints row, tensor, index, expected, got. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/trainer/support/tiny.h"

typedef struct row {
  char shard[16], precision[8], device[16], reduce[24], transport[16], settings[128];
  int ep;
} row;

typedef struct pair {
  mk_context ctx, one_ctx;
  mt_trainer *many, *one;
  const char *name;
  double tolerance;
  bool block_twin;
  int failures;
} pair;

static void fail(pair *p, const char *what, int64_t index, double expected, double got) {
  fprintf(stderr, "FAIL %s rank %d: %s index %lld: expected %.9g got %.9g\n", p->name, p->ctx.rank, what,
          (long long)index, expected, got);
  p->failures += 1;
}

static double *read_param(mk_context *ctx, mt_trainer *t, const mt_param *param, mt_value which) {
  double *values = malloc((size_t)param->count * sizeof *values);
  tiny_ok(ctx, mt_trainer_read(t, param->name, which, values), param->name);
  return values;
}

/* Own elements of every parameter against the same elements of the twin; norm-relative per tensor. */
static void compare_params(pair *p, mt_value which, const char *what) {
  const mt_params *params = &p->many->model->params;
  bool own_shard = which == MT_VALUE_GRADIENT && p->many->cfg.shard == MT_SHARD_DIST_OPT &&
                   p->many->cfg.grad_reduce == MT_GRAD_REDUCE_SCATTER;
  for (int i = 0; i < params->count; i++) {
    const mt_param *param = &params->item[i];
    const mt_param *whole = mt_params_by_name(&p->one->model->params, param->name);
    double *got = read_param(&p->ctx, p->many, param, which), *expected = read_param(&p->one_ctx, p->one, whole, which);
    int64_t first = own_shard ? param->shard_first : 0, count = own_shard ? param->shard_count : param->count;
    double error = tiny_norm_error(got + first, expected + param->first + first, count);
    char label[96];
    snprintf(label, sizeof label, "%s %s norm-relative error", what, param->name);
    if (!(error <= p->tolerance)) fail(p, label, first, 0, error);
    free(expected);
    free(got);
  }
}

static double *read_routes(mk_context *ctx, mt_trainer *t, int layer, int64_t *count) {
  const mk_tensor *idx = &t->model->set[0].layer[layer].mlp.ep.idx;
  *count = mk_tensor_count(idx);
  double *values = malloc((size_t)(*count + 1) * sizeof *values);
  tiny_ok(ctx, mt_trainer_tensor_read(t, idx, values), "routes");
  return values;
}

/* A microbatch's routes stand in set 0 as long as no other microbatch is in flight. */
static void compare_routes(pair *p) {
  if (p->many->model->sets > 1 || p->many->mesh->plan.pp > 1) return;
  for (int l = 0; l < p->many->cfg.layers; l++) {
    int64_t count = 0;
    if (p->many->model->set[0].layer[l].moe < 0) continue;
    double *got = read_routes(&p->ctx, p->many, l, &count), *expected = read_routes(&p->one_ctx, p->one, l, &count);
    for (int64_t i = 0; i < count; i++) {
      if (got[i] != expected[i]) {
        fail(p, "route", i, expected[i], got[i]);
        break;
      }
    }
    free(expected);
    free(got);
  }
}

static void batch(mt_trainer *t, mk_context *ctx, mt_data *data, int64_t microbatch) {
  enum { MOST_TOKENS = 4096 };
  static const size_t bytes = MOST_TOKENS * sizeof(int32_t);
  int32_t *tokens = malloc(bytes), *labels = malloc(bytes);
  tiny_ok(ctx, mt_data_batch(data, t->step - 1, microbatch, tokens, labels), "batch");
  tiny_ok(ctx, mt_trainer_microbatch(t, tokens, labels), "microbatch");
  free(labels);
  free(tokens);
}

/* One step of both; after each block of this rank the routes are compared. */
static void step_both(pair *p, mt_data *many_data, mt_data *one_data) {
  int dp = p->many->mesh->plan.dp, me = p->many->mesh->plan.dp_rank;
  tiny_ok(&p->ctx, mt_trainer_begin(p->many), "begin");
  tiny_ok(&p->one_ctx, mt_trainer_begin(p->one), "begin");
  for (int64_t m = 0; m < p->many->microbatches; m++) {
    batch(p->many, &p->ctx, many_data, m);
    for (int r = 0; r < dp; r++) {
      batch(p->one, &p->one_ctx, one_data, m * dp + r);
      if (r == me) compare_routes(p);
    }
  }
  tiny_ok(&p->ctx, mt_trainer_reduce(p->many), "reduce");
  tiny_ok(&p->one_ctx, mt_trainer_reduce(p->one), "reduce");
}

static void compare_sums(pair *p) {
  static const char *const names[MK_SUM_COUNT] = {"ce", "z", "lb", "rz", "dropped", "routed", "labels"};
  double got[MK_SUM_COUNT], expected[MK_SUM_COUNT];
  tiny_ok(&p->ctx, mt_trainer_tensor_read(p->many, &p->many->model->sums, got), "sums");
  tiny_ok(&p->one_ctx, mt_trainer_tensor_read(p->one, &p->one->model->sums, expected), "sums");
  for (int i = 0; i < MK_SUM_COUNT; i++) {
    if (!(fabs(got[i] - expected[i]) <= p->tolerance * (fabs(expected[i]) + 1e-12)))
      fail(p, names[i], i, expected[i], got[i]);
  }
}

/* Expert counts of the step, all layers and ranks: integers, so exact. */
static void compare_counts(pair *p) {
  int64_t count = mk_tensor_count(&p->many->model->step_counts);
  double *got = malloc((size_t)count * sizeof *got), *expected = malloc((size_t)count * sizeof *expected);
  tiny_ok(&p->ctx, mt_trainer_tensor_read(p->many, &p->many->model->step_counts, got), "counts");
  tiny_ok(&p->one_ctx, mt_trainer_tensor_read(p->one, &p->one->model->step_counts, expected), "counts");
  for (int64_t i = 0; i < count; i++) {
    if (got[i] != expected[i]) fail(p, "expert count", i, expected[i], got[i]);
  }
  free(expected);
  free(got);
}

static mk_step_state read_state(mk_context *ctx, mt_trainer *t) {
  double values[sizeof(mk_step_state)];
  uint8_t bytes[sizeof(mk_step_state)];
  mk_step_state state;
  tiny_ok(ctx, mt_trainer_tensor_read(t, &t->model->state, values), "state");
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = (uint8_t)values[i];
  memcpy(&state, bytes, sizeof state);
  return state;
}

static void compare_norms(pair *p) {
  double got = read_state(&p->ctx, p->many).grad_norm, expected = read_state(&p->one_ctx, p->one).grad_norm;
  if (!(fabs(got - expected) <= 10 * p->tolerance * expected)) fail(p, "gradient norm", 0, expected, got);
}

/* Payload of all purposes but the token exchange, which depends on the routes. */
static int64_t payload(const mt_trainer *t) { return mt_trainer_wire_bytes(t) - t->mesh->ep->payload_bytes; }

/* What the strategy, the pipeline and the step's own reduction handed over in a step, against their formulas. */
static void compare_wire(pair *p, int64_t got) {
  mt_trainer *t = p->many;
  const mt_mesh_plan *plan = &t->mesh->plan;
  int64_t expected = t->sharding->ops->wire_bytes(&t->model->params, &t->cfg, plan);
  expected += mt_pp_wire_bytes(&t->pp->step, &t->cfg, plan->pp_rank);
  if (mt_mesh_all(t->mesh)->size > 1)
    expected += (int64_t)(mk_tensor_bytes(&t->optim.reduce) + mk_tensor_bytes(&t->model->step_counts));
  if (got != expected) fail(p, "bytes of a step", t->step, (double)expected, (double)got);
}

static void compare_state_bytes(pair *p) {
  const mt_trainer *t = p->many;
  int64_t state = 0, planned = t->sharding->ops->mem_bytes(&t->model->params, &t->cfg, &t->mesh->plan);
  for (int i = MK_MEM_PARAMS; i <= MK_MEM_OPTIM; i++)
    state += (int64_t)t->dev->peak_bytes[i];
  if (t->cfg.shard == MT_SHARD_FSDP && state != planned) fail(p, "bytes of state", 0, (double)planned, (double)state);
}

static void update_both(pair *p) {
  tiny_ok(&p->ctx, mt_trainer_update(p->many), "update");
  tiny_ok(&p->one_ctx, mt_trainer_update(p->one), "update");
}

static void check_row(pair *p, const mt_config *many, mt_comm *world, mt_comm *self) {
  enum { STEPS = 3 };
  mt_data *many_data = NULL, *one_data = NULL;
  mt_config one = *many;
  one.ranks = 1, one.ep = 1, one.shard = MT_SHARD_NONE;
  one.pp = 1, one.pp_schedule = MT_PP_1F1B, one.pp_chunks = 1;
  one.ep_transport = MT_EP_BLOCK; /* weights at the source, whatever the row's transport does with them */
  snprintf(one.device, sizeof one.device, "cpu");
  one.guard = false;
  one.recompute = MT_RECOMPUTE_NONE;
  tiny_ok(&p->ctx, mt_trainer_create(&p->ctx, many, world, &p->many), p->name);
  tiny_ok(&p->one_ctx, mt_trainer_create(&p->one_ctx, &one, self, &p->one), p->name);
  tiny_ok(&p->ctx, mt_data_create(&p->ctx, many, p->many->mesh->plan.dp_rank, &many_data), "data");
  tiny_ok(&p->one_ctx, mt_data_create(&p->one_ctx, &one, 0, &one_data), "data");
  double keep = p->tolerance;
  p->tolerance = 0;
  compare_params(p, MT_VALUE_WEIGHT, "initial"); /* bit for bit: no layout may change initial values */
  p->tolerance = keep;
  for (int n = 0; n < STEPS; n++) {
    int64_t before = payload(p->many);
    step_both(p, many_data, one_data);
    if (n == 0) {
      compare_sums(p);
      compare_counts(p);
      compare_params(p, MT_VALUE_GRADIENT, "gradient");
    }
    update_both(p);
    if (n == 0) compare_norms(p);
    if (n == 1) compare_wire(p, payload(p->many) - before);
  }
  compare_state_bytes(p);
  p->tolerance = 100 * keep; /* Adam turns rounding of small gradients into steps */
  compare_params(p, MT_VALUE_WEIGHT, "after 3 steps");
  mt_data_destroy(one_data);
  mt_data_destroy(many_data);
  mt_trainer_destroy(p->one);
  mt_trainer_destroy(p->many);
}

/* Parameters of this rank after three steps, one after the other. */
static double *train_and_read(mk_context *ctx, const mt_config *c, mt_comm *world, const char *name, int64_t *count) {
  enum { STEPS = 3 };
  mt_trainer *t = NULL;
  tiny_ok(ctx, mt_trainer_create(ctx, c, world, &t), name);
  tiny_train(ctx, t, STEPS, false);
  double *values = tiny_values(ctx, t, MT_VALUE_WEIGHT, count);
  mt_trainer_destroy(t);
  return values;
}

static void check_bits(pair *p, const mt_config *c, mt_comm *world) {
  int64_t count = 0;
  mt_config twin = *c;
  snprintf(twin.device, sizeof twin.device, "cpu");
  twin.guard = false;
  twin.recompute = MT_RECOMPUTE_NONE;
  twin.ep_transport = p->block_twin ? MT_EP_BLOCK : c->ep_transport;
  double *expected = train_and_read(&p->ctx, &twin, world, p->name, &count);
  double *got = train_and_read(&p->ctx, c, world, p->name, &count);
  for (int64_t i = 0; i < count && p->failures == 0; i++) {
    if (memcmp(&expected[i], &got[i], sizeof got[i]) != 0) fail(p, "parameter bits", i, expected[i], got[i]);
  }
  free(got);
  free(expected);
}

static row parse_row(const char *text) {
  row r = {.transport = "block"};
  if (sscanf(text, "%15[^:]:%d:%7[^:]:%15[^:]:%23[^:]:%15[^:]:%127s", r.shard, &r.ep, r.precision, r.device, r.reduce,
             r.transport, r.settings) < 5) {
    fprintf(stderr, "row '%s' is not shard:ep:precision:device:reduce\n", text);
    exit(2);
  }
  return r;
}

/* Settings may begin with a pipeline; its model has one layer more than stages, so that these are of unequal length.
 * Returns the settings behind it. */
static const char *pipeline_of(mk_context *ctx, const row *r, mt_config *c, int *microbatches) {
  char schedule[16];
  int pp = 1, chunks = 1, length = 0;
  if (sscanf(r->settings, "%d-%15[^-]-%d-%d%n", &pp, schedule, &chunks, microbatches, &length) < 4) return r->settings;
  c->pp = pp, c->pp_chunks = chunks, c->layers = pp * chunks + 1;
  tiny_ok(ctx, mt_config_set(ctx, c, "pp_schedule", schedule), "pp_schedule");
  return r->settings + length + (r->settings[length] == ',');
}

static mt_config config_of(mk_context *ctx, const row *r, int ranks) {
  mt_config c = tiny_config();
  if (strcmp(r->precision, "mxfp8") == 0) { /* blocks of 32 */
    c.d_model = 64, c.head_dim = 16, c.dense_hidden = 64, c.expert_hidden = 32, c.shared_hidden = 32;
    c.seq_len = 16, c.rank_tokens = 64;
  }
  int microbatches = 2;
  char settings[sizeof r->settings];
  snprintf(settings, sizeof settings, "%s", pipeline_of(ctx, r, &c, &microbatches));
  c.ranks = ranks, c.ep = r->ep;
  c.global_tokens = c.rank_tokens * (ranks / c.pp) * microbatches;
  c.lr = 1e-3, c.bucket_mib = 0.02; /* several buckets */
  tiny_ok(ctx, mt_config_set(ctx, &c, "shard", r->shard), "shard");
  tiny_ok(ctx, mt_config_set(ctx, &c, "precision", r->precision), "precision");
  tiny_ok(ctx, mt_config_set(ctx, &c, "grad_reduce", r->reduce), "grad_reduce");
  tiny_ok(ctx, mt_config_set(ctx, &c, "ep_transport", r->transport), "ep_transport");
  for (char *key = settings, *end; *key != '\0'; key = end) {
    size_t length = strcspn(key, ",");
    end = key + length + (key[length] == ',');
    key[length] = '\0';
    char *value = strchr(key, '=');
    *value++ = '\0';
    tiny_ok(ctx, mt_config_set(ctx, &c, key, value), key);
  }
  c.guard = strcmp(r->device, "guard") == 0;
  tiny_ok(ctx, mt_config_set(ctx, &c, "device", c.guard ? "cpu" : r->device), "device");
  return c;
}

int main(int argc, char **argv) {
  mk_context ctx = {0}, self_ctx = {0};
  mt_comm *world = NULL, *self = NULL;
  int failures = 0;
  mt_comm_mpi_config mpi = {.threaded = true, .timeout_s = 60};
  tiny_ok(&ctx, mt_comm_mpi_create(&ctx, &mpi, &world), "mpi");
  tiny_ok(&self_ctx, mt_comm_self_create(&self_ctx, &self), "self");
  for (int i = 1; i < argc; i++) {
    bool bits = strncmp(argv[i], "bits=", 5) == 0;
    bool recompute = strncmp(argv[i], "recompute=", 10) == 0;
    bool block = strncmp(argv[i], "block=", 6) == 0;
    row r = parse_row(bits || recompute || block ? strchr(argv[i], '=') + 1 : argv[i]);
    pair p = {.ctx = {.rank = world->rank}, .one_ctx = {.rank = world->rank}, .name = argv[i]};
    p.tolerance = strcmp(r.precision, "fp32") == 0 ? 1e-5 : 2e-2;
    mt_config c = config_of(&p.ctx, &r, world->size);
    if (recompute) c.recompute = MT_RECOMPUTE_FULL;
    p.block_twin = block;
    if (bits || recompute || block) {
      for (int norm = MT_NORM_REORDERED; norm <= MT_NORM_PRE; norm++) {
        c.norm = (mt_norm_placement)norm;
        check_bits(&p, &c, world);
      }
    } else {
      check_row(&p, &c, world, self);
    }
    if (world->rank == 0 && p.failures == 0) printf("ok %s on %d ranks\n", argv[i], world->size);
    failures += p.failures;
  }
  mt_comm_destroy(self);
  mt_comm_destroy(world);
  return failures > 0;
}
