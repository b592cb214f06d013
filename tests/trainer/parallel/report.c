/* See report.h. */
#include "tests/trainer/parallel/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/trainer/support/tiny.h"

static const char header[] =
    "ranks,settings,loss_error,gradient_error,gradient_tensor,parameter_error,tolerance,flips,wire_predicted_bytes,"
    "wire_traced_bytes,window_bytes,memory_predicted_bytes,memory_counted_bytes,host_waits_predicted,"
    "host_waits_counted,verdict\n";

report report_begin(mk_context *ctx, mt_comm *world, const char *path) {
  report rep = {.world = world};
  mk_device_config config = {.name = "cpu", .threads = 1};
  tiny_ok(ctx, mk_device_create(ctx, &config, &rep.dev), "device");
  tiny_ok(ctx, mk_stream_create(rep.dev, "report", &rep.stream), "stream");
  if (path == NULL || world->rank != 0) return rep;
  rep.csv = fopen(path, "w");
  if (rep.csv == NULL || fputs(header, rep.csv) < 0) {
    fprintf(stderr, "%s cannot be written\n", path);
    exit(1);
  }
  return rep;
}

/* Results of all ranks, in rank order, to every rank; the caller frees them. */
static result *gather(mk_context *ctx, report *rep, const result *own) {
  result *all = calloc((size_t)rep->world->size, sizeof *all);
  mk_tensor mine = mk_tensor_1d(MK_U8, (int64_t)sizeof *own), theirs = mine;
  theirs.dim[0] *= rep->world->size;
  void *send = NULL, *recv = NULL;
  tiny_ok(ctx, mk_device_alloc(rep->dev, MK_MEM_WORKSPACE, mk_tensor_bytes(&mine), &send), "gather");
  tiny_ok(ctx, mk_device_alloc(rep->dev, MK_MEM_WORKSPACE, mk_tensor_bytes(&theirs), &recv), "gather");
  mine.data = send, theirs.data = recv;
  tiny_ok(ctx, mk_copy_h2d(rep->stream, &mine, own), "gather");
  tiny_ok(ctx, mt_comm_all_gather(rep->world, &mine, &theirs, rep->stream), "gather");
  tiny_ok(ctx, mk_copy_d2h(rep->stream, all, &theirs), "gather");
  tiny_ok(ctx, mk_stream_sync(rep->stream, false), "gather");
  mk_device_free(rep->dev, MK_MEM_WORKSPACE, recv, mk_tensor_bytes(&theirs));
  mk_device_free(rep->dev, MK_MEM_WORKSPACE, send, mk_tensor_bytes(&mine));
  return all;
}

/* Errors: the largest; counts of failures and flips: the sum; costs: the rank with the highest memory peak. */
static result worst(const result *all, int n) {
  result w = all[0];
  for (int r = 1; r < n; r++) {
    w.loss_error = fmax(w.loss_error, all[r].loss_error);
    w.parameter_error = fmax(w.parameter_error, all[r].parameter_error);
    if (!(all[r].gradient_error <= w.gradient_error)) {
      w.gradient_error = all[r].gradient_error;
      memcpy(w.gradient_name, all[r].gradient_name, sizeof w.gradient_name);
    }
    if (w.failures == 0) memcpy(w.first_failure, all[r].first_failure, sizeof w.first_failure);
    w.flips += all[r].flips;
    w.failures += all[r].failures;
    if (all[r].cost.memory_counted > w.cost.memory_counted) w.cost = all[r].cost;
  }
  return w;
}

void report_row(mk_context *ctx, report *rep, const row *r, const result *own) {
  result *all = gather(ctx, rep, own), w = worst(all, rep->world->size);
  const costs *c = &w.cost;
  rep->rows += 1;
  rep->failed += w.failures > 0;
  free(all);
  if (rep->world->rank != 0) return;
  printf(
      "%s %d ranks: %s | loss %.1e gradient %.1e (%s) parameters %.1e | wire %lld | memory %lld of %lld | waits %lld\n",
      w.failures == 0 ? "ok" : "FAIL", rep->world->size, r->text, w.loss_error, w.gradient_error, w.gradient_name,
      w.parameter_error, (long long)c->wire_traced, (long long)c->memory_counted, (long long)c->memory_predicted,
      (long long)c->waits_counted);
  fflush(stdout);
  if (rep->csv == NULL) return;
  fprintf(rep->csv, "%d,%s,%.3g,%.3g,%s,%.3g,%.3g,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,\"%s%s\"\n", rep->world->size,
          r->text, w.loss_error, w.gradient_error, w.gradient_name, w.parameter_error, w.tolerance, (long long)w.flips,
          (long long)c->wire_predicted, (long long)c->wire_traced, (long long)c->window_counted,
          (long long)c->memory_predicted, (long long)c->memory_counted, (long long)c->waits_predicted,
          (long long)c->waits_counted, w.failures == 0 ? "pass" : "fail: ", w.first_failure);
}

void report_refusals(report *rep, const table *t) {
  int64_t refused = 0;
  if (rep->world->rank != 0) return;
  for (int i = 0; i < t->n_refusals; i++) {
    const table_refusal *r = &t->refusals[i];
    refused += r->count;
    printf("refused %lld combinations of %d ranks: %s (e.g. %s)\n", (long long)r->count, rep->world->size, r->reason,
           r->example);
    if (rep->csv == NULL) continue;
    fprintf(rep->csv, "%d,%s,,,,,,,,,,,,,,\"refused %lld combinations: %s\"\n", rep->world->size, r->example,
            (long long)r->count, r->reason);
  }
  printf("%d ranks: %lld legal combinations, %lld refused; %d rows in the table\n", rep->world->size,
         (long long)t->n_legal, (long long)refused, t->n_rows);
}

int64_t report_end(report *rep) {
  if (rep->world->rank == 0)
    printf("%lld rows on %d ranks, %lld failed\n", (long long)rep->rows, rep->world->size, (long long)rep->failed);
  if (rep->csv != NULL && fclose(rep->csv) != 0) {
    fprintf(stderr, "the CSV is not complete: it could not be written\n");
    rep->failed += 1;
  }
  mk_stream_destroy(rep->stream);
  mk_device_destroy(rep->dev);
  return rep->failed;
}
