/* One rank against many: the same token blocks as microbatches of one rank, and side by side on N ranks, must give the
 * same routes, loss, gradients and, after three steps, parameters. Started under mpirun:
 *   parallel_check [--csv FILE | --bare TRACE] pairs|all|all:K/N|<row>...
 * row = settings of the configuration over the tiny model, e.g. "shard=dist_opt ep=2"; pairs and all: table.h; all:K/N
 * is the K-th of N equal parts of all.
 * Every rank runs the one-rank twin itself and compares what it owns. Then the row is compared, bit for bit, with its
 * plain twin: the same layout on the cpu device without guard and recompute, block in place of rowwise. A plain row's
 * twin is itself, run again. routing=replay takes the experts of the one-rank twin (BF16 rounds near ties apart).
 * microbatches=M are those of a step.
 * --bare runs each row once, without twins, prints the predicted bytes of every rank, and leaves the list of its calls
 * in TRACE.<rank>.csv (transport_bytes.sh).
 * Bytes on the wire and through windows, peak memory and host waits are held against their formulas
 * (trainer/step/predict.h).
 * A failure prints row, tensor, index, expected, got. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/trainer/parallel/cache.h"
#include "tests/trainer/parallel/report.h"
#include "tests/trainer/support/tiny.h"

typedef struct harness {
  mk_context ctx, one_ctx;
  mt_comm *world, *self;
  cache ones, plains; /* twins of earlier rows */
  report report;
  char trace[256];
  bool bare;
} harness;

/* Sums of a step carry no error of a gradient: O-03 of the failure cases asks 1e-5 of the norm, S-06 1e-6 of the
 * balance loss. */
static double sum_tolerance_of(const mt_config *c) { return c->precision == MT_FP32 ? 1e-6 : 2e-2; }

static double tolerance_of(const mt_config *c) { return c->precision == MT_FP32 ? 1e-5 : 2e-2; }

static const outcome *one_rank(harness *h, const row *r) {
  mt_config one = row_one_rank(r);
  const outcome *found = cache_find(&h->ones, &one);
  if (found != NULL) return found;
  return cache_add(&h->ones, &one, outcome_run(&h->one_ctx, &one, h->self, NULL, r->text, NULL, NULL));
}

static const outcome *plain(harness *h, const row *r, const outcome *chosen) {
  mt_config run = row_plain(r), key = run;
  if (r->replay) key.routing = MK_ROUTING_REPLAY; /* another run of the same configuration */
  const outcome *found = cache_find(&h->plains, &key);
  if (found != NULL) return found;
  return cache_add(&h->plains, &key, outcome_run(&h->ctx, &run, h->world, chosen, r->text, NULL, NULL));
}

typedef struct measured {
  costs *costs;
  const outcome *one;
} measured;

static void measure(void *user, mt_trainer *t, const outcome *own) {
  measured *m = user;
  costs_predict(m->costs, t, own, m->one);
}

/* The row itself, over a world of its own that is traced into h->trace. */
static outcome *run_traced(harness *h, const row *r, const outcome *chosen, outcome_fn at_end, void *user) {
  mt_comm *part = NULL, *traced = NULL;
  tiny_ok(&h->ctx, mt_comm_split(h->world, 0, h->world->rank, "world", &part), "split");
  tiny_ok(&h->ctx, mt_comm_trace_create(&h->ctx, part, h->trace, &traced), "trace");
  outcome *got = outcome_run(&h->ctx, &r->cfg, traced, chosen, r->text, at_end, user);
  mt_comm_destroy(traced);
  return got;
}

static outcome *run_row(harness *h, const row *r, const outcome *one, costs *c) {
  measured m = {c, one};
  outcome *got = run_traced(h, r, r->replay ? one : NULL, measure, &m);
  costs_trace_read(c, h->trace);
  c->wire_traced -= got->read_bytes;
  return got;
}

static void print_costs(void *user, mt_trainer *t, const outcome *own) {
  costs c = {0};
  costs_predict(&c, t, own, user);
  printf("bare: wire %lld window %lld read %lld\n", (long long)c.wire_predicted, (long long)c.window_predicted,
         (long long)own->read_bytes);
}

static void run_bare(harness *h, const row *r) {
  outcome *one = (outcome *)one_rank(h, r);
  outcome_free(run_traced(h, r, NULL, print_costs, one));
}

static void check_row(harness *h, const row *r) {
  result res = {.tolerance = tolerance_of(&r->cfg), .sum_tolerance = sum_tolerance_of(&r->cfg), .gradient_name = "-"};
  const outcome *one = one_rank(h, r);
  outcome *got = run_row(h, r, one, &res.cost);
  bool exact_routes = r->cfg.precision == MT_FP32 || got->plan.dp == 1; /* stages alone do the one rank's arithmetic */
  compare_one(&res, r->text, got, one, exact_routes);
  compare_costs(&res, r->text, got);
  compare_bits(&res, r->text, got, plain(h, r, r->replay ? one : NULL));
  report_row(&h->ctx, &h->report, r, &res);
  outcome_free(got);
}

/* One of `parts` equal parts of the table, counted from 1; the last one tells what is refused. */
static void check_table(harness *h, bool pairs_only, int part, int parts) {
  table t = table_make(&h->ctx, h->world->size, pairs_only);
  for (int64_t rows = t.n_rows, i = rows * (part - 1) / parts; i < rows * part / parts; i++)
    check_row(h, &t.rows[i]);
  if (part == parts) report_refusals(&h->report, &t);
  table_free(&t);
}

/* "all" and "all:K/N" with 1 <= K <= N. */
static bool is_all(const char *text, int *part, int *parts) {
  int used = 0;
  *part = *parts = 1;
  if (strcmp(text, "all") == 0) return true;
  return sscanf(text, "all:%d/%d%n", part, parts, &used) == 2 && text[used] == '\0' && *part >= 1 && *part <= *parts;
}

static void check_text(harness *h, const char *text) {
  row r;
  tiny_ok(&h->ctx, row_parse(&h->ctx, text, h->world->size, &r), text);
  if (h->bare) {
    run_bare(h, &r);
  } else {
    check_row(h, &r);
  }
}

static void open_harness(harness *h, const char *csv, const char *trace) {
  const char *folder = getenv("TMPDIR");
  mt_comm_mpi_config mpi = {.threaded = true, .timeout_s = 60};
  tiny_ok(&h->ctx, mt_comm_mpi_create(&h->ctx, &mpi, &h->world), "mpi");
  h->one_ctx.rank = h->world->rank;
  tiny_ok(&h->one_ctx, mt_comm_self_create(&h->one_ctx, &h->self), "self");
  h->report = report_begin(&h->ctx, h->world, csv);
  if (trace != NULL) {
    snprintf(h->trace, sizeof h->trace, "%s.%d.csv", trace, h->world->rank);
  } else {
    snprintf(h->trace, sizeof h->trace, "%s/moemark_trace.%d.csv", folder != NULL ? folder : "/tmp", (int)getpid());
  }
}

int main(int argc, char **argv) {
  harness h = {0};
  bool csv = argc > 2 && strcmp(argv[1], "--csv") == 0;
  h.bare = argc > 2 && strcmp(argv[1], "--bare") == 0;
  open_harness(&h, csv ? argv[2] : NULL, h.bare ? argv[2] : NULL);
  for (int i = csv || h.bare ? 3 : 1; i < argc; i++) {
    int part = 1, parts = 1;
    bool pairs = strcmp(argv[i], "pairs") == 0;
    if (pairs || is_all(argv[i], &part, &parts)) {
      check_table(&h, pairs, part, parts);
    } else {
      check_text(&h, argv[i]);
    }
  }
  int64_t failed = report_end(&h.report);
  cache_clear(&h.plains);
  cache_clear(&h.ones);
  mt_comm_destroy(h.self);
  mt_comm_destroy(h.world);
  return failed > 0;
}
