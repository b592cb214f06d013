/* Cases that need several ranks, each against the run of one rank: layouts (E-01, O-02, O-03, O-04, O-07), experts that
 * are all hot on one rank (E-03, E-05, E-06), sharded experts that one rank alone uses (E-04), the dispatch path
 * (E-08), capacity (P-07, P-09), overlap (O-06), virtual stages (S-05). Started under mpirun:
 * failure_ranks [case...]; without arguments all of them. A failure prints case, layout, rank, expected, got. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/trainer/support/tiny.h"
#include "trainer/comm/comm_wrap.h"

/* What ranks compare among themselves. */
typedef struct peers {
  mk_context ctx;
  mk_device *dev;
  mk_stream *stream;
  mt_comm *world;
  mk_tensor pair; /* i64 [2] */
} peers;

typedef struct checker {
  peers *p;
  const char *name; /* the case */
  char layout[96];
  int failures;
} checker;

static void fail(checker *c, const char *what, double expected, double got) {
  fprintf(stderr, "FAIL %s %s rank %d: %s: expected %.9g got %.9g\n", c->name, c->layout, c->p->world->rank, what,
          expected, got);
  c->failures += 1;
}

static void expect_near(checker *c, const char *what, double expected, double got, double tolerance) {
  if (!(fabs(got - expected) <= tolerance * (fabs(expected) + 1e-12))) fail(c, what, expected, got);
}

static void peers_open(peers *p, mt_comm *world) {
  const mk_device_config config = {.name = "cpu", .threads = 1};
  p->world = world;
  tiny_ok(&p->ctx, mk_device_create(&p->ctx, &config, &p->dev), "device");
  tiny_ok(&p->ctx, mk_stream_create(p->dev, "peers", &p->stream), "stream");
  p->pair = mk_tensor_1d(MK_I64, 2);
  tiny_ok(&p->ctx, mk_device_alloc(p->dev, MK_MEM_COMM, 16, &p->pair.data), "memory");
}

static void peers_close(peers *p) {
  mk_device_free(p->dev, MK_MEM_COMM, p->pair.data, 16);
  mk_stream_destroy(p->stream);
  mk_device_destroy(p->dev);
}

static void reduce(peers *p, mt_comm *comm, int64_t values[2], mt_reduce op) {
  memcpy(p->pair.data, values, 16);
  tiny_ok(&p->ctx, mt_comm_all_reduce(comm, &p->pair, &p->pair, op, p->stream), "compare");
  memcpy(values, p->pair.data, 16);
}

/* Have all ranks of the communicator the same value? */
static bool same(peers *p, mt_comm *comm, uint64_t hash) {
  int64_t value = (int64_t)(hash >> 1), both[2] = {value, -value};
  reduce(p, comm, both, MT_MAX);
  return both[0] == -both[1];
}

static uint64_t fnv(uint64_t hash, const void *data, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    hash = (hash ^ ((const unsigned char *)data)[i]) * 1099511628211u;
  return hash;
}

enum { FNV = 1469598103 };

/* Compute copies of the parameters of one kind. */
static uint64_t hash_params(mk_context *ctx, mt_trainer *t, bool expert) {
  uint64_t hash = FNV;
  for (int i = 0; i < t->model->params.count; i++) {
    const mt_param *param = &t->model->params.item[i];
    if (param->expert != expert) continue;
    double *values = malloc((size_t)param->count * sizeof *values);
    tiny_ok(ctx, mt_trainer_read(t, param->name, MT_VALUE_WEIGHT, values), param->name);
    hash = fnv(hash, values, (size_t)param->count * sizeof *values);
    free(values);
  }
  return hash;
}

typedef struct layout {
  mt_shard shard;
  int ep; /* 0 = all ranks */
  mt_grad_reduce reduce;
  mt_ep_transport transport;
} layout;

static const layout LAYOUTS[] = {
    {MT_SHARD_DDP, 1, MT_GRAD_ALL_REDUCE, MT_EP_BLOCK},
    {MT_SHARD_DIST_OPT, 1, MT_GRAD_ALL_REDUCE, MT_EP_BLOCK},
    {MT_SHARD_DIST_OPT, 1, MT_GRAD_REDUCE_SCATTER, MT_EP_BLOCK},
    {MT_SHARD_DDP, 0, MT_GRAD_ALL_REDUCE, MT_EP_BLOCK},
    {MT_SHARD_DIST_OPT, 0, MT_GRAD_REDUCE_SCATTER, MT_EP_BLOCK},
    {MT_SHARD_DIST_OPT, 0, MT_GRAD_ALL_REDUCE, MT_EP_ROWWISE},
    {MT_SHARD_DDP, 2, MT_GRAD_ALL_REDUCE, MT_EP_ROWWISE},
    {MT_SHARD_DIST_OPT, 2, MT_GRAD_ALL_REDUCE, MT_EP_BLOCK},
    {MT_SHARD_DIST_OPT, 0, MT_GRAD_ALL_REDUCE, MT_EP_DEEPEP_V2},
    {MT_SHARD_FSDP, 1, MT_GRAD_ALL_REDUCE, MT_EP_BLOCK},
    {MT_SHARD_FSDP, 2, MT_GRAD_ALL_REDUCE, MT_EP_BLOCK},
};
enum { N_LAYOUTS = sizeof LAYOUTS / sizeof LAYOUTS[0] };

static mt_config config_of(checker *c, const layout *l) {
  int ranks = c->p->world->size;
  mt_config cfg = tiny_config();
  cfg.ranks = ranks, cfg.ep = l->ep, cfg.shard = l->shard, cfg.grad_reduce = l->reduce;
  cfg.ep_transport = l->transport, cfg.rank_tokens = 24, cfg.global_tokens = 24 * 2 * ranks;
  cfg.lr = 1e-3, cfg.bucket_mib = 0.02, cfg.d_model = 48, cfg.shared_hidden = 48;
  snprintf(c->layout, sizeof c->layout, "shard %d ep %lld reduce %d transport %d on %d", (int)l->shard,
           (long long)mt_config_ep(&cfg), (int)l->reduce, (int)l->transport, ranks);
  return cfg;
}

static mt_config one_rank(const mt_config *cfg) {
  mt_config one = *cfg;
  one.ranks = one.ep = 1, one.shard = MT_SHARD_NONE, one.capacity_factor = 0;
  return one;
}

/* Steps of one rank, each log in turn. */
static void one_rank_logs(const mt_config *cfg, void (*prepare)(mk_context *, mt_trainer *), int steps,
                          mk_step_log *logs) {
  mt_config one = one_rank(cfg);
  tiny_rank r;
  tiny_open(&r, &one);
  if (prepare != NULL) prepare(&r.ctx, r.t);
  for (int n = 0; n < steps; n++) {
    tiny_train(&r.ctx, r.t, 1, false);
    tiny_ok(&r.ctx, mt_trainer_log_read(r.t, &logs[n]), "log");
  }
  tiny_close(&r);
}

/* Payload of the step's own reductions: sums, norm and times (f64), counts of the experts (i64). */
static int64_t log_bytes(const mt_trainer *t) {
  return (int64_t)mk_tensor_bytes(&t->optim.reduce) + (int64_t)mk_tensor_bytes(&t->model->step_counts);
}

/* E-01: replicated parameters are the same bits on all ranks after each of ten steps, experts on their owners. O-02,
 * O-03, O-04: every rank reports the norm of one rank. O-07: without expert parallelism the bytes handed over in a step
 * are those of the gradients and of the log, once. */
static void layouts(checker *c) {
  enum { STEPS = 10 };
  mk_step_log one[STEPS], log;
  for (int i = 0; i < N_LAYOUTS; i++) {
    mt_config cfg = config_of(c, &LAYOUTS[i]);
    mk_context ctx = {.rank = c->p->world->rank};
    mt_trainer *t = NULL;
    one_rank_logs(&cfg, NULL, STEPS, one);
    tiny_ok(&ctx, mt_trainer_create(&ctx, &cfg, c->p->world, &t), c->layout);
    const mt_sharding_ops *ops = t->sharding->ops;
    for (int n = 0; n < STEPS; n++) {
      int64_t wire = mt_trainer_wire_bytes(t);
      tiny_train(&ctx, t, 1, false);
      tiny_ok(&ctx, mt_trainer_log_read(t, &log), "log");
      wire = mt_trainer_wire_bytes(t) - wire;
      int64_t planned = ops->wire_bytes(&t->model->params, &cfg, &t->mesh->plan, t->pp) + log_bytes(t);
      if (mt_config_ep(&cfg) == 1 && wire != planned) fail(c, "wire bytes of a step", (double)planned, (double)wire);
      expect_near(c, "gradient norm", one[n].grad_norm, log.grad_norm, n == 0 ? 1e-6 : 1e-3);
      expect_near(c, "cross-entropy", one[n].sum[MK_SUM_CE], log.sum[MK_SUM_CE], n == 0 ? 1e-6 : 1e-4);
      if (!same(c->p, c->p->world, fnv(FNV, &log.grad_norm, sizeof log.grad_norm))) fail(c, "norm on all ranks", 0, 1);
      if (!same(c->p, c->p->world, hash_params(&ctx, t, false))) fail(c, "replicated parameters of step", n, -1);
      if (!same(c->p, t->mesh->expert, hash_params(&ctx, t, true))) fail(c, "experts of step", n, -1);
    }
    mt_trainer_destroy(t);
  }
}

/* Router weights that send every token to experts 0 and 1 (K = 1) or 0 to 3 (K = 2): scores x.v, -x.v, x.u, -x.u, and 0
 * for the others. */
static void make_hot(mk_context *ctx, mt_trainer *t) {
  for (int64_t l = t->cfg.dense_layers; l < t->cfg.layers; l++) {
    const mt_param *p = mt_params_find(&t->model->params, t->model->set[0].layer[l].unit, MT_PARAM_ROUTER);
    double *values = calloc((size_t)p->count, sizeof *values);
    for (int64_t e = 0; e < 2 * t->cfg.top_k; e++) {
      for (int64_t d = 0; d < t->cfg.d_model; d++) {
        double sign = ((e < 2 ? d * 7 + 1 : d * 5 + 2) / 3) % 2 == 0 ? 1 : -1;
        values[e * t->cfg.d_model + d] = (e % 2 == 0 ? 1 : -1) * sign;
      }
    }
    tiny_ok(ctx, mt_trainer_write(t, p->name, values), p->name);
    free(values);
  }
  tiny_ok(ctx, mt_trainer_weights_changed(t), "pack");
}

/* Names of the calls in a trace, without the bytes, which follow the routing. */
static uint64_t hash_calls(const char *path) {
  char line[256];
  uint64_t hash = FNV;
  FILE *file = fopen(path, "r");
  if (file == NULL) fprintf(stderr, "cannot read the trace %s\n", path), exit(1);
  while (fgets(line, sizeof line, file) != NULL) {
    char *end = line;
    for (int commas = 0; *end != '\0' && commas < 3; end++)
      commas += *end == ',';
    hash = fnv(hash, line, (size_t)(end - line));
  }
  fclose(file);
  return hash;
}

static void check_hot_step(checker *c, const mt_trainer *t, const mk_step_log *one, const mk_step_log *log) {
  double routes = (double)(t->cfg.global_tokens * t->cfg.top_k * t->model->moe_layers);
  expect_near(c, "routes of all ranks", routes, log->sum[MK_SUM_ROUTED], 0);
  expect_near(c, "dropped", 0, log->sum[MK_SUM_DROPPED], 0);
  expect_near(c, "cross-entropy", one->sum[MK_SUM_CE], log->sum[MK_SUM_CE], 1e-5);
  expect_near(c, "balance loss", one->sum[MK_SUM_LB], log->sum[MK_SUM_LB], 1e-5);
  expect_near(c, "gradient norm", one->grad_norm, log->grad_norm, 1e-4);
  expect_near(c, "imbalance", one->imbalance, log->imbalance, 1e-12);
}

/* Rows that arrived at the experts in the last microbatch: on rank 0 all of the group, elsewhere none. */
static void check_rows(checker *c, const mt_trainer *t) {
  int64_t all = t->cfg.rank_tokens * t->cfg.top_k * t->mesh->plan.ep;
  for (int64_t l = t->cfg.dense_layers; l < t->cfg.layers; l++) {
    const mt_ep_layer *ep = &t->model->set[0].layer[l].mlp.ep;
    int64_t sums[2] = {ep->n_recv, 0};
    if (t->ep->ops != &mt_ep_block_ops) return; /* the others keep no count on the host */
    expect_near(c, "rows received", t->mesh->plan.ep_rank == 0 ? (double)all : 0, (double)ep->n_recv, 0);
    reduce(c->p, t->mesh->ep, sums, MT_SUM);
    expect_near(c, "rows of the group", (double)all, (double)sums[0], 0);
  }
}

/* E-03, E-05, E-06: all tokens at the experts of one rank. The steps end, are those of one rank, no row travels twice,
 * all ranks issue the same calls in the same order, and memory stays what was planned. E-04: the same where the experts
 * themselves are sharded and most of them see no token. */
static void hot_experts(checker *c) {
  static const layout of[] = {{MT_SHARD_DIST_OPT, 0, MT_GRAD_ALL_REDUCE, MT_EP_BLOCK},
                              {MT_SHARD_DIST_OPT, 0, MT_GRAD_ALL_REDUCE, MT_EP_ROWWISE},
                              {MT_SHARD_DIST_OPT, 0, MT_GRAD_ALL_REDUCE, MT_EP_DEEPEP_V2},
                              {MT_SHARD_FSDP, 1, MT_GRAD_ALL_REDUCE, MT_EP_BLOCK},
                              {MT_SHARD_FSDP, 0, MT_GRAD_ALL_REDUCE, MT_EP_BLOCK}};
  enum { STEPS = 3 };
  for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
    const layout l = of[i];
    mk_step_log one[STEPS], log;
    char path[] = "/tmp/moemark-calls-XXXXXX";
    size_t planned[MK_MEM_COUNT];
    mk_context ctx = {0};
    mt_comm *world = NULL;
    mt_trainer *t = NULL;
    mt_comm_mpi_config mpi = {.threaded = true, .timeout_s = 60};
    mt_config cfg = config_of(c, &l);
    cfg.top_k = cfg.experts / cfg.ranks / 2, cfg.lr = 0; /* the router stays as it is made */
    close(mkstemp(path));
    one_rank_logs(&cfg, make_hot, STEPS, one);
    tiny_ok(&ctx, mt_comm_mpi_create(&ctx, &mpi, &world), "world");
    tiny_ok(&ctx, mt_comm_trace_create(&ctx, world, path, &world), "trace");
    tiny_ok(&ctx, mt_trainer_create(&ctx, &cfg, world, &t), c->layout);
    make_hot(&ctx, t);
    for (int n = 0; n < STEPS; n++) {
      tiny_train(&ctx, t, 1, false);
      tiny_ok(&ctx, mt_trainer_log_read(t, &log), "log");
      check_hot_step(c, t, &one[n], &log);
    }
    check_rows(c, t);
    tiny_ok(&ctx, mt_plan_memory(&ctx, &cfg, planned), "plan");
    for (int m = 0; m < MK_MEM_COUNT; m++)
      expect_near(c, mk_memory_name((mk_memory)m), (double)planned[m], (double)t->dev->peak_bytes[m], 0);
    mt_trainer_destroy(t);
    mt_comm_destroy(world);
    if (!same(c->p, c->p->world, hash_calls(path))) fail(c, "the same calls on all ranks", 0, 1);
    unlink(path);
  }
}

/* Chosen experts for a whole step: those of rank r are of the r-th part only, so that no two ranks touch the same. */
static int32_t *disjoint_routes(const mt_trainer *t, int rank) {
  const mt_config *cfg = &t->cfg;
  int64_t part = cfg->experts / cfg->ranks, tokens = t->microbatches * t->model->moe_layers * cfg->rank_tokens;
  int32_t *routes = malloc((size_t)(tokens * cfg->top_k) * sizeof *routes);
  for (int64_t i = 0; i < tokens * cfg->top_k; i++)
    routes[i] = (int32_t)(rank * part + (i + i / part) % part); /* top_k <= part: no expert twice */
  return routes;
}

/* Three steps on disjoint routes, every call of this rank in the trace; the last one's log. */
static void train_disjoint(checker *c, const mt_config *cfg, const char *path, mk_step_log *log) {
  mk_context ctx = {0};
  mt_comm *world = NULL;
  mt_trainer *t = NULL;
  mt_comm_mpi_config mpi = {.threaded = true, .timeout_s = 60};
  tiny_ok(&ctx, mt_comm_mpi_create(&ctx, &mpi, &world), "world");
  tiny_ok(&ctx, mt_comm_trace_create(&ctx, world, path, &world), "trace");
  tiny_ok(&ctx, mt_trainer_create(&ctx, cfg, world, &t), c->layout);
  int32_t *routes = disjoint_routes(t, world->rank);
  t->cfg.routing = MK_ROUTING_REPLAY;
  t->routes = routes;
  tiny_train(&ctx, t, 3, false);
  tiny_ok(&ctx, mt_trainer_log_read(t, log), "log");
  mt_trainer_destroy(t);
  mt_comm_destroy(world);
  free(routes);
}

/* E-04: each rank's tokens use experts that no other rank's do. All ranks of fsdp issue the same calls, and after two
 * updates loss and gradient norm are those of ddp, which never moves weights. */
static void sharded_experts(checker *c) {
  const layout sharded = {MT_SHARD_FSDP, 1, MT_GRAD_ALL_REDUCE, MT_EP_BLOCK};
  const layout whole = {MT_SHARD_DDP, 1, MT_GRAD_ALL_REDUCE, MT_EP_BLOCK};
  mk_step_log log, expected;
  char path[] = "/tmp/moemark-calls-XXXXXX";
  mt_config cfg = config_of(c, &whole);
  close(mkstemp(path));
  train_disjoint(c, &cfg, path, &expected);
  cfg = config_of(c, &sharded);
  train_disjoint(c, &cfg, path, &log);
  if (!same(c->p, c->p->world, hash_calls(path))) fail(c, "the same calls on all ranks", 0, 1);
  expect_near(c, "cross-entropy", expected.sum[MK_SUM_CE], log.sum[MK_SUM_CE], 1e-6);
  expect_near(c, "gradient norm", expected.grad_norm, log.grad_norm, 1e-5);
  unlink(path);
}

/* E-08: the path that was asked for is the one that runs, by its own name. */
static void dispatch_path(checker *c) {
  const mt_key *key = mt_config_key_find("ep_transport");
  for (int w = 0; key->words[w] != NULL; w++) {
    const layout l = {MT_SHARD_DDP, 0, MT_GRAD_ALL_REDUCE, (mt_ep_transport)w};
    mk_context ctx = {0};
    mt_trainer *t = NULL;
    mt_config cfg = config_of(c, &l);
    mk_status st = mt_config_check(&ctx, &cfg);
    if (st != MK_OK && strstr(ctx.error.message, key->words[w]) == NULL) fail(c, "a refusal that names it", 1, 0);
    if (st != MK_OK) continue;
    tiny_ok(&ctx, mt_trainer_create(&ctx, &cfg, c->p->world, &t), c->layout);
    if (strcmp(t->ep->ops->name, key->words[w]) != 0) fail(c, t->ep->ops->name, w, -1);
    mt_trainer_destroy(t);
  }
}

static uint64_t train_hash(checker *c, const mt_config *cfg, bool hot, mk_step_log *log) {
  mk_context ctx = {.rank = c->p->world->rank};
  mt_trainer *t = NULL;
  tiny_ok(&ctx, mt_trainer_create(&ctx, cfg, c->p->world, &t), c->layout);
  if (hot) make_hot(&ctx, t);
  tiny_train(&ctx, t, 2, false);
  tiny_ok(&ctx, mt_trainer_log_read(t, log), "log");
  uint64_t hash = hash_params(&ctx, t, true) ^ hash_params(&ctx, t, false);
  mt_trainer_destroy(t);
  return hash;
}

/* P-09: a pool that never drops is dropless, bit for bit, for K = 1, 2, 8. P-07: a pool of the mean where everything
 * goes to one of R ranks keeps 1/R, and says so. */
static void capacity(checker *c) {
  const layout l = {MT_SHARD_DIST_OPT, 0, MT_GRAD_ALL_REDUCE, MT_EP_ROWWISE};
  mk_step_log log, pooled;
  mt_config cfg = config_of(c, &l);
  for (cfg.top_k = 1; cfg.top_k <= 8; cfg.top_k *= cfg.top_k == 2 ? 4 : 2) {
    cfg.capacity_factor = 0;
    uint64_t dropless = train_hash(c, &cfg, false, &log);
    cfg.capacity_factor = (double)cfg.ranks;
    if (train_hash(c, &cfg, false, &pooled) != dropless) fail(c, "parameters, top_k", (double)cfg.top_k, -1);
    expect_near(c, "loss", log.sum[MK_SUM_CE], pooled.sum[MK_SUM_CE], 0);
    expect_near(c, "dropped", 0, pooled.sum[MK_SUM_DROPPED], 0);
  }
  cfg.capacity_factor = 1, cfg.lr = 0, cfg.top_k = cfg.experts / cfg.ranks / 2;
  train_hash(c, &cfg, true, &pooled);
  double share = pooled.sum[MK_SUM_DROPPED] / pooled.sum[MK_SUM_ROUTED];
  expect_near(c, "share that is dropped", 1 - 1.0 / (double)cfg.ranks, share, 1e-12);
  if (pooled.nonfinite) fail(c, "finite", 0, 1);
}

/* O-06: with streams that run at their own pace, delayed at random, 50 steps end in the bits of streams that run at
 * once: a reduction that does not wait for a gradient would show in every step behind it. */
static void overlap(checker *c) {
  const layout l = {MT_SHARD_DDP, 1, MT_GRAD_ALL_REDUCE, MT_EP_BLOCK};
  static const char *const devices[] = {"cpu", "cpu_async"};
  uint64_t hash[2];
  double norm[2];
  mt_config cfg = config_of(c, &l);
  cfg.layers = 2, cfg.rank_tokens = cfg.seq_len, cfg.global_tokens = 2 * cfg.rank_tokens * cfg.ranks;
  for (int i = 0; i < 2; i++) {
    mk_context ctx = {.rank = c->p->world->rank};
    mt_trainer *t = NULL;
    mk_step_log log;
    snprintf(cfg.device, sizeof cfg.device, "%s", devices[i]);
    tiny_ok(&ctx, mt_trainer_create(&ctx, &cfg, c->p->world, &t), devices[i]);
    tiny_train(&ctx, t, 50, false);
    tiny_ok(&ctx, mt_trainer_log_read(t, &log), "log");
    hash[i] = hash_params(&ctx, t, true) ^ hash_params(&ctx, t, false);
    norm[i] = log.grad_norm;
    mt_trainer_destroy(t);
  }
  if (hash[0] != hash[1]) fail(c, "parameters after 50 steps", 0, 1);
  expect_near(c, "gradient norm of step 50", norm[0], norm[1], 0);
}

typedef struct calls {
  int64_t exchanges, setups; /* setups: communicators split off and windows made */
} calls;

static mk_status count_exchange(mt_comm_wrap *wrap, const char *call, const mk_tensor *t) {
  (void)call;
  (void)t;
  ((calls *)wrap->state)->exchanges += 1;
  return MK_OK;
}

static mk_status count_setup(mt_comm_wrap *wrap, const char *call) {
  (void)call;
  ((calls *)wrap->state)->setups += 1;
  return MK_OK;
}

/* S-05: what ranks do together while a trainer is made does not grow with the stages of a rank. */
static void virtual_stages(checker *c) {
  static const mt_wrap_hooks hooks = {.before = count_exchange, .before_setup = count_setup};
  const layout l = {MT_SHARD_NONE, 1, MT_GRAD_ALL_REDUCE, MT_EP_BLOCK};
  calls first = {0};
  for (int schedule = MT_PP_GPIPE; schedule <= MT_PP_V; schedule++) {
    mk_context ctx = {0};
    mt_comm *world = NULL;
    mt_trainer *t = NULL;
    calls n = {0};
    mt_comm_mpi_config mpi = {.threaded = true, .timeout_s = 30};
    mt_config cfg = config_of(c, &l);
    cfg.pp = cfg.ranks, cfg.pp_schedule = (mt_pp_schedule)schedule, cfg.layers = 2 * cfg.ranks + 1;
    tiny_ok(&ctx, mt_comm_mpi_create(&ctx, &mpi, &world), "world");
    tiny_ok(&ctx, mt_comm_wrap_create(world, &hooks, &n, &world), "counting");
    tiny_ok(&ctx, mt_trainer_create(&ctx, &cfg, world, &t), c->layout);
    mt_trainer_destroy(t);
    mt_comm_destroy(world);
    if (schedule == MT_PP_GPIPE) first = n;
    if (n.setups == 0) fail(c, "communicators and windows of a start", 1, 0);
    if (n.setups != first.setups)
      fail(c, "communicators and windows of a start", (double)first.setups, (double)n.setups);
    if (n.exchanges != first.exchanges) fail(c, "exchanges of a start", (double)first.exchanges, (double)n.exchanges);
  }
}

static const struct {
  const char *name;
  void (*run)(checker *c);
} CASES[] = {{"layouts", layouts},
             {"hot_experts", hot_experts},
             {"sharded_experts", sharded_experts},
             {"dispatch_path", dispatch_path},
             {"capacity", capacity},
             {"overlap", overlap},
             {"virtual_stages", virtual_stages}};

int main(int argc, char **argv) {
  mt_comm *world = NULL;
  peers p = {0};
  int failures = 0;
  mt_comm_mpi_config mpi = {.threaded = true, .timeout_s = 60};
  tiny_ok(&p.ctx, mt_comm_mpi_create(&p.ctx, &mpi, &world), "mpi");
  peers_open(&p, world);
  for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
    checker c = {.p = &p, .name = CASES[i].name};
    bool wanted = argc == 1;
    for (int a = 1; a < argc; a++)
      wanted = wanted || strcmp(argv[a], CASES[i].name) == 0;
    if (!wanted) continue;
    CASES[i].run(&c);
    if (world->rank == 0 && c.failures == 0) printf("ok %s on %d ranks\n", CASES[i].name, world->size);
    failures += c.failures;
  }
  peers_close(&p);
  mt_comm_destroy(world);
  return failures > 0;
}
