/* Checkpoints over ranks and layouts. Started under mpirun: checkpoint_check <row>...
 *   resume=shard:ep:ranks:precision[:device[:key=value,...]]
 *                       2n steps in a row equal n, a checkpoint, a new trainer and n more, bit for bit: main
 *                       parameters, both moments, compute copies, counters, losses (C-02, C-06)
 *   reshape=A>B         A, B = shard:ep:ranks; saved by layout A, loaded by B and saved again, loaded by A: its state
 *                       is the old one bit for bit, and the next loss of B is that of A to 1e-5 (C-01, C-09, C-17)
 *   bad=shard:ep:ranks  a shard cut short, altered or away: all ranks refuse it with one message that names it, and
 *                       auto takes the checkpoint before it (C-03, C-04, C-13)
 * A failure prints row, rank, tensor, element, expected, got. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/trainer/support/tiny.h"
#include "trainer/checkpoint/checkpoint_shards.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/step/checkpoint.h"

enum { STEPS = 3 };

typedef struct check {
  mk_context ctx;
  mt_comm *all;
  mk_device *dev; /* for barriers */
  mk_stream *stream;
  const char *name;
  char dir[128];
  int failures;
} check;

/* A trainer and its data. */
typedef struct run {
  mt_trainer *t;
  mt_data *data;
  mt_run_position at;
} run;

static void fail(check *k, const char *what, int64_t index, double expected, double got) {
  fprintf(stderr, "FAIL %s rank %d: %s element %lld: expected %.17g got %.17g\n", k->name, k->ctx.rank, what,
          (long long)index, expected, got);
  k->failures += 1;
}

/* MXFP8 multiplies blocks of 32. */
static void round_sizes(mt_config *c) {
  if (c->precision != MT_MXFP8) return;
  c->d_model = 64, c->head_dim = 16, c->dense_hidden = 96, c->expert_hidden = 32, c->shared_hidden = 32;
  c->rank_tokens = 96;
}

static mt_config config_of(check *k, const char *layout) {
  char shard[16] = "", precision[8] = "fp32", device[16] = "cpu", pairs[128] = "";
  int ep = 1, ranks = 1;
  mt_config c = tiny_config();
  if (sscanf(layout, "%15[^:]:%d:%d:%7[^:]:%15[^:]:%127s", shard, &ep, &ranks, precision, device, pairs) < 3) {
    fprintf(stderr, "'%s' is not shard:ep:ranks[:precision[:device[:key=value,...]]]\n", layout);
    exit(2);
  }
  c.layers = 4, c.vocab = 200; /* a table of 4,800 elements: larger than what is not divided */
  c.ranks = ranks, c.ep = ep, c.lr = 1e-3, c.bucket_mib = 0.02, c.steps = 1000, c.skip_step = true;
  tiny_ok(&k->ctx, mt_config_set(&k->ctx, &c, "shard", shard), "shard");
  tiny_ok(&k->ctx, mt_config_set(&k->ctx, &c, "precision", precision), "precision");
  round_sizes(&c);
  c.global_tokens = c.rank_tokens * 8; /* on 1, 2, 4 and 8 ranks the same step */
  tiny_ok(&k->ctx, mt_config_set(&k->ctx, &c, "device", device), "device");
  tiny_set(&k->ctx, &c, pairs, ",");
  snprintf(c.checkpoint_dir, sizeof c.checkpoint_dir, "%s", k->dir);
  return c;
}

static run open_run(check *k, mt_comm *world, mt_config c, const char *resume) {
  run r = {0};
  snprintf(c.resume, sizeof c.resume, "%.500s", resume);
  tiny_ok(&k->ctx, mt_trainer_create(&k->ctx, &c, world, &r.t), "create");
  tiny_ok(&k->ctx, mt_data_create(&k->ctx, &c, r.t->mesh->plan.dp_rank, &r.data), "data");
  return r;
}

static void close_run(run *r) {
  mt_data_destroy(r->data);
  mt_trainer_destroy(r->t);
}

static void resume(check *k, run *r) { tiny_ok(&k->ctx, mt_checkpoint_resume(r->t, r->data, &r->at), "resume"); }

static double train(check *k, run *r, int64_t steps) {
  mk_step_log log = {0};
  size_t bytes = (size_t)r->t->cfg.rank_tokens * sizeof(int32_t);
  int32_t *tokens = malloc(bytes), *labels = malloc(bytes);
  for (int64_t n = 0; n < steps; n++) {
    tiny_ok(&k->ctx, mt_trainer_begin(r->t), "begin");
    for (int64_t m = 0; m < r->t->microbatches; m++) {
      tiny_ok(&k->ctx, mt_data_batch(r->data, r->t->step - 1, m, tokens, labels), "batch");
      tiny_ok(&k->ctx, mt_trainer_microbatch(r->t, tokens, labels), "microbatch");
    }
    tiny_ok(&k->ctx, mt_trainer_finish(r->t), "finish");
    tiny_ok(&k->ctx, mt_trainer_log_read(r->t, &log), "log");
  }
  free(labels);
  free(tokens);
  return log.sum[MK_SUM_CE];
}

static void save(check *k, run *r) {
  char path[MK_MESSAGE_BYTES];
  mt_run_position at = {.trained_s = 1.5};
  tiny_ok(&k->ctx, mt_checkpoint_save(r->t, r->data, r->t->step, &at, path), "save");
}

static void compare(check *k, mt_trainer *a, mt_trainer *b, mt_value which, const char *what) {
  for (int i = 0; i < a->model->params.count; i++) {
    const mt_param *p = &a->model->params.item[i];
    size_t bytes = (size_t)p->count * sizeof(double);
    double *x = calloc(1, bytes), *y = calloc(1, bytes);
    char label[96];
    snprintf(label, sizeof label, "%s of %s", what, p->name);
    tiny_ok(&k->ctx, mt_trainer_read(a, p->name, which, x), p->name);
    tiny_ok(&k->ctx, mt_trainer_read(b, p->name, which, y), p->name);
    for (int64_t e = 0; e < p->count; e++) {
      if (memcmp(&x[e], &y[e], sizeof x[e]) != 0) {
        fail(k, label, e, x[e], y[e]);
        break;
      }
    }
    free(y);
    free(x);
  }
}

static void compare_state(check *k, mt_trainer *a, mt_trainer *b) {
  mk_step_state s[2];
  mt_trainer *const both[] = {a, b};
  compare(k, a, b, MT_VALUE_MAIN, "main");
  compare(k, a, b, MT_VALUE_M, "m");
  compare(k, a, b, MT_VALUE_V, "v");
  compare(k, a, b, MT_VALUE_WEIGHT, "compute copy");
  for (int i = 0; i < 2; i++) {
    tiny_ok(&k->ctx, mk_copy_d2h(both[i]->compute, &s[i], &both[i]->model->state), "state");
    tiny_ok(&k->ctx, mk_stream_sync(both[i]->compute, false), "state");
  }
  if (s[0].step != s[1].step) fail(k, "step", 0, (double)s[0].step, (double)s[1].step);
  if (s[0].taken != s[1].taken) fail(k, "taken", 0, (double)s[0].taken, (double)s[1].taken);
  if (s[0].history != s[1].history) fail(k, "history", 0, (double)s[0].history, (double)s[1].history);
  for (int64_t i = 0; i < s[0].history; i++) {
    if (s[0].loss_history[i] != s[1].loss_history[i]) fail(k, "loss", i, s[0].loss_history[i], s[1].loss_history[i]);
    if (s[0].norm_history[i] != s[1].norm_history[i]) fail(k, "norm", i, s[0].norm_history[i], s[1].norm_history[i]);
  }
}

static void meet(check *k) {
  tiny_ok(&k->ctx, mt_comm_barrier(k->all, k->stream), "barrier");
  tiny_ok(&k->ctx, mk_stream_sync(k->stream, false), "barrier");
}

/* On rank 0, while the others wait. */
static void shell(check *k, const char *fmt, const char *path) {
  char command[1024];
  meet(k);
  snprintf(command, sizeof command, fmt, path);
  if (k->all->rank == 0 && system(command) != 0) fail(k, command, 0, 0, 1);
  meet(k);
}

static void check_resume(check *k, mt_comm *world, const char *layout) {
  mt_config c = config_of(k, layout);
  run straight = open_run(k, world, c, "none"), first = open_run(k, world, c, "none");
  double expected = train(k, &straight, 2 * STEPS);
  train(k, &first, STEPS);
  save(k, &first);
  close_run(&first);
  run second = open_run(k, world, c, "auto");
  resume(k, &second);
  if (second.t->step != STEPS || second.at.trained_s != 1.5) fail(k, "step", 0, STEPS, (double)second.t->step);
  double got = train(k, &second, STEPS);
  if (got != expected) fail(k, "cross-entropy of the last step", 0, expected, got);
  compare_state(k, straight.t, second.t);
  close_run(&second);
  close_run(&straight);
}

/* The communicator of the first `ranks` ranks; NULL on the others. */
static mt_comm *part_of(check *k, mt_comm *all, int64_t ranks) {
  mt_comm *part = NULL;
  tiny_ok(&k->ctx, mt_comm_split(all, all->rank < ranks ? 0 : 1, all->rank, "world", &part), "split");
  if (all->rank < ranks) return part;
  mt_comm_destroy(part);
  return NULL;
}

static void check_reshape(check *k, const char *layouts) {
  char of_a[64], path[MT_CHECKPOINT_PATH_BYTES], second[160];
  const char *of_b = strchr(layouts, '>') + 1;
  snprintf(of_a, sizeof of_a, "%.*s", (int)(of_b - layouts - 1), layouts);
  mt_config a = config_of(k, of_a), b = config_of(k, of_b), again = a;
  mt_comm *ranks_a = part_of(k, k->all, a.ranks), *ranks_b = part_of(k, k->all, b.ranks);
  run run_a = {0}, run_b = {0}, run_again = {0};
  double loss_a = 0, loss_b = 0;
  snprintf(second, sizeof second, "%s/second", k->dir);
  snprintf(b.checkpoint_dir, sizeof b.checkpoint_dir, "%s", second);
  snprintf(again.checkpoint_dir, sizeof again.checkpoint_dir, "%s", second);
  if (ranks_a != NULL) {
    run_a = open_run(k, ranks_a, a, "none");
    train(k, &run_a, STEPS);
    save(k, &run_a);
  }
  meet(k);
  if (ranks_b != NULL) {
    mt_checkpoint_path(k->dir, STEPS, path);
    run_b = open_run(k, ranks_b, b, path);
    resume(k, &run_b);
    save(k, &run_b);
    loss_b = train(k, &run_b, 1);
    close_run(&run_b);
  }
  meet(k);
  if (ranks_a != NULL) {
    run_again = open_run(k, ranks_a, again, "auto");
    resume(k, &run_again);
    compare_state(k, run_a.t, run_again.t);
    loss_a = train(k, &run_a, 1);
    if (k->all->rank == 0 && !(fabs(loss_a - loss_b) <= 1e-5 * fabs(loss_a))) fail(k, "next loss", 0, loss_a, loss_b);
    close_run(&run_again);
    close_run(&run_a);
  }
  mt_comm_destroy(ranks_b);
  mt_comm_destroy(ranks_a);
}

/* Damage to the newest of two checkpoints: a command with its folder, and what the message must hold. */
static const struct {
  const char *command, *said;
} DAMAGE[] = {
    {"truncate -s -1 %s/shard-00001.safetensors", "shard-00001.safetensors: "},
    {"printf x | dd of=%s/shard-00001.safetensors bs=1 seek=900 conv=notrunc status=none", "altered"},
    {"rm %s/shard-00001.safetensors", "shard-00001.safetensors: cannot open"},
    {"cd %s && mv shard-00001.safetensors shard-1.safetensors", "shard-00001.safetensors: cannot open"},
    {"rm %s/checkpoint.json", "checkpoint.json: cannot open"},
    {"truncate -s -1 %s/checkpoint.json", "checkpoint.json: does not end in its checksum"},
    {"printf 9 | dd of=%s/checkpoint.json bs=1 seek=50 conv=notrunc status=none", "does not fit its checksum"},
};

static void check_bad(check *k, mt_comm *ranks, const char *layout) {
  char path[MT_CHECKPOINT_PATH_BYTES];
  mt_config c = config_of(k, layout);
  mt_checkpoint_path(k->dir, STEPS, path);
  for (size_t i = 0; i < sizeof DAMAGE / sizeof DAMAGE[0]; i++) {
    shell(k, "rm -rf '%s'", k->dir);
    run r = open_run(k, ranks, c, "none");
    train(k, &r, STEPS - 1);
    save(k, &r);
    train(k, &r, 1);
    save(k, &r);
    close_run(&r);
    shell(k, DAMAGE[i].command, path);
    r = open_run(k, ranks, c, "auto");
    resume(k, &r);
    if (r.t->step != STEPS - 1) fail(k, DAMAGE[i].command, (int64_t)i, STEPS - 1, (double)r.t->step);
    close_run(&r);
    r = open_run(k, ranks, c, path);
    mk_status st = mt_checkpoint_resume(r.t, r.data, &r.at);
    bool told = strstr(k->ctx.error.message, DAMAGE[i].said) != NULL;
    if (st == MK_OK || !told) fail(k, DAMAGE[i].command, (int64_t)i, MK_ERR_FORMAT, st);
    if (!told) fprintf(stderr, "rank %d said: %s\n", k->ctx.rank, k->ctx.error.message);
    mk_error_clear(&k->ctx);
    close_run(&r);
  }
}

/* resume= and bad= run on all ranks or on a part of them; the others wait. */
static void check_on_part(check *k, const char *layout, void (*run_check)(check *, mt_comm *, const char *)) {
  mt_config c = config_of(k, layout);
  mt_comm *ranks = part_of(k, k->all, c.ranks);
  if (ranks != NULL) run_check(k, ranks, layout);
  mt_comm_destroy(ranks);
}

static void check_row(check *k, const char *text) {
  const char *layout = strchr(text, '=');
  k->name = text;
  k->failures = 0;
  shell(k, "rm -rf '%s'", k->dir);
  if (layout != NULL && strncmp(text, "resume=", 7) == 0) {
    check_on_part(k, layout + 1, check_resume);
  } else if (layout != NULL && strncmp(text, "reshape=", 8) == 0 && strchr(layout, '>') != NULL) {
    check_reshape(k, layout + 1);
  } else if (layout != NULL && strncmp(text, "bad=", 4) == 0 && config_of(k, layout + 1).ranks == k->all->size) {
    check_bad(k, k->all, layout + 1);
  } else {
    fprintf(stderr, "'%s' is not a row\n", text);
    exit(2);
  }
  shell(k, "rm -rf '%s'", k->dir);
}

int main(int argc, char **argv) {
  check k = {0};
  int failures = 0;
  mt_comm_mpi_config mpi = {.threaded = true, .timeout_s = 60};
  mk_device_config cpu = {.name = "cpu", .threads = 1};
  tiny_ok(&k.ctx, mt_comm_mpi_create(&k.ctx, &mpi, &k.all), "mpi");
  tiny_ok(&k.ctx, mk_device_create(&k.ctx, &cpu, &k.dev), "device");
  tiny_ok(&k.ctx, mk_stream_create(k.dev, "check", &k.stream), "stream");
  const char *base = getenv("TMPDIR"); /* the same on all ranks of this machine; the parent is mpirun */
  snprintf(k.dir, sizeof k.dir, "%.80s/moemark-check-%ld", base != NULL ? base : "/tmp", (long)getppid());
  for (int i = 1; i < argc; i++) {
    check_row(&k, argv[i]);
    if (k.all->rank == 0 && k.failures == 0) printf("ok %s on %d ranks\n", argv[i], k.all->size);
    failures += k.failures;
  }
  mk_stream_destroy(k.stream);
  mk_device_destroy(k.dev);
  mt_comm_destroy(k.all);
  return failures > 0;
}
