/* What a run of several ranks says of all of them, and what must not depend on how many there are. Runs on two ranks.
 * Prints each difference; the exit status says whether there was one. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/trainer/support/tiny.h"
#include "trainer/step/evaluate.h"
#include "trainer/step/loop.h"

static int failures;

static void expect(bool good, const char *what, double expected, double got) {
  if (good) return;
  fprintf(stderr, "FAIL %s: expected %.9g, got %.9g\n", what, expected, got);
  failures += 1;
}

/* Total of one rank in {"params":[...], ...}. */
static double total_of(const cJSON *parts, int rank) {
  double total = 0;
  for (int i = 0; i < MK_MEM_COUNT; i++)
    total += cJSON_GetNumberValue(cJSON_GetArrayItem(cJSON_GetObjectItem(parts, mk_memory_name((mk_memory)i)), rank));
  return total;
}

static double part_of(const cJSON *parts, mk_memory part) {
  return cJSON_GetNumberValue(cJSON_GetObjectItem(parts, mk_memory_name(part)));
}

static double number_of(const cJSON *record, const char *key) {
  return cJSON_GetNumberValue(cJSON_GetObjectItem(record, key));
}

static bool is_type(const cJSON *record, const char *type) {
  return strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(record, "type")), type) == 0;
}

/* By category, the fullest rank is --plan's; the other one's total is less. */
static void check_plan(const cJSON *start, const size_t plan[MK_MEM_COUNT], double plan_total) {
  const cJSON *planned = cJSON_GetObjectItem(start, "planned_bytes");
  const cJSON *ranks = cJSON_GetObjectItem(start, "planned_bytes_ranks");
  for (int i = 0; i < MK_MEM_COUNT; i++)
    expect(part_of(planned, (mk_memory)i) == (double)plan[i], mk_memory_name((mk_memory)i), (double)plan[i],
           part_of(planned, (mk_memory)i));
  expect(total_of(ranks, 1) == plan_total, "planned by rank 1", plan_total, total_of(ranks, 1));
  expect(total_of(ranks, 0) < 0.9 * plan_total, "planned by rank 0, less than", plan_total, total_of(ranks, 0));
}

static void check_end(const cJSON *end, double plan_total) {
  const cJSON *peak = cJSON_GetObjectItem(end, "peak_bytes"), *ranks = cJSON_GetObjectItem(end, "peak_bytes_ranks");
  const cJSON *reserved = cJSON_GetObjectItem(end, "reserved_bytes_ranks");
  double most = number_of(end, "peak_total_bytes"), sum = 0, larger = 0;
  expect(most <= plan_total && most >= 0.9 * plan_total, "peak of the fullest rank", plan_total, most);
  expect(number_of(end, "peak_rank") == 1, "fullest rank", 1, number_of(end, "peak_rank"));
  for (int i = 0; i < MK_MEM_COUNT; i++)
    sum += part_of(peak, (mk_memory)i);
  expect(sum == total_of(ranks, 1), "peak by category", total_of(ranks, 1), sum);
  for (int r = 0; r < 2; r++)
    larger = fmax(larger, cJSON_GetNumberValue(cJSON_GetArrayItem(reserved, r)));
  expect(number_of(end, "reserved_bytes") == larger && larger > most, "reserved by the process", larger,
         number_of(end, "reserved_bytes"));
}

/* Rank 0 reads the records. */
static void check_records(mk_context *ctx, const mt_config *cfg, const char *path) {
  size_t plan[MK_MEM_COUNT] = {0};
  double plan_total = 0;
  char line[8192];
  int64_t steps = 0;
  FILE *file = fopen(path, "r");
  tiny_ok(ctx, mt_plan_memory(ctx, cfg, plan), "plan");
  for (int i = 0; i < MK_MEM_COUNT; i++)
    plan_total += (double)plan[i];
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    cJSON *record = cJSON_Parse(line);
    if (is_type(record, "start")) check_plan(record, plan, plan_total);
    if (is_type(record, "end")) check_end(record, plan_total);
    if (is_type(record, "step")) {
      double here = total_of(cJSON_GetObjectItem(record, "peak_bytes_ranks"), 1);
      expect(here <= plan_total && here >= 0.9 * plan_total, "peak of rank 1 in a step", plan_total, here);
      if (steps > 0) /* the first step makes what later ones use again */
        expect(number_of(record, "device_allocs") == 0, "allocations in a step", 0, number_of(record, "device_allocs"));
      steps += 1;
    }
    cJSON_Delete(record);
  }
  expect(steps == cfg->steps, "step records", (double)cfg->steps, (double)steps);
  if (file != NULL) fclose(file);
}

/* The last stage has the head, which is most of this model. */
static void check_memory(mt_comm *world) {
  mk_context ctx = {.rank = world->rank};
  char folder[] = "/tmp/moemark-ranks-XXXXXX", path[64];
  mt_config cfg = tiny_config();
  tiny_set(&ctx, &cfg, "ranks=2 ep=1 pp=2 pp_schedule=gpipe vocab=20000 global_tokens=72 steps=6", " ");
  if (world->rank == 0 && mkdtemp(folder) == NULL) exit(1);
  tiny_ok(&ctx, mt_loop_run(&ctx, &cfg, world, folder), "run");
  if (world->rank > 0) return;
  snprintf(path, sizeof path, "%s/records.jsonl", folder);
  check_records(&ctx, &cfg, path);
  unlink(path);
  rmdir(folder);
}

static double eval_loss(mt_comm *world, const char *keys) {
  enum { MOST_TOKENS = 64 };
  int32_t tokens[MOST_TOKENS], labels[MOST_TOKENS];
  mk_context ctx = {.rank = world->rank};
  mt_trainer *t = NULL;
  mt_data *data = NULL;
  mt_stop stop = {0};
  mt_config cfg = tiny_config();
  double loss = 0;
  cfg.ranks = world->size, cfg.routing = MK_ROUTING_RANDOM, cfg.eval_tokens = 96, cfg.global_tokens = 96;
  tiny_set(&ctx, &cfg, keys, " ");
  tiny_ok(&ctx, mt_trainer_create(&ctx, &cfg, world, &t), keys);
  tiny_ok(&ctx, mt_data_create(&ctx, &cfg, t->mesh->plan.dp_rank, &data), keys);
  tiny_ok(&ctx, mt_evaluate(t, data, &stop, tokens, labels, &loss), keys);
  mt_data_destroy(data);
  mt_trainer_destroy(t);
  return loss;
}

/* Random routes are keyed by the token's place in the evaluation: how the tokens are cut changes no route. */
static void check_evaluation(mt_comm *world) {
  mk_context ctx = {.rank = world->rank};
  mt_comm *alone = NULL;
  tiny_ok(&ctx, mt_comm_self_create(&ctx, &alone), "self");
  double whole = eval_loss(alone, "rank_tokens=48"), pieces = eval_loss(alone, "rank_tokens=12");
  double ranks = eval_loss(world, "rank_tokens=12 shard=ddp ep=1"),
         exchanged = eval_loss(world, "rank_tokens=24 shard=ddp");
  expect(fabs(pieces - whole) < 1e-6, "held-out loss with a smaller rank_tokens", whole, pieces);
  expect(fabs(ranks - whole) < 1e-6, "held-out loss on two ranks", whole, ranks);
  expect(fabs(exchanged - whole) < 1e-6, "held-out loss on two expert-parallel ranks", whole, exchanged);
  mt_comm_destroy(alone);
}

int main(void) {
  mk_context ctx = {0};
  mt_comm *world = NULL;
  mt_comm_mpi_config mpi = {.timeout_s = 60};
  tiny_ok(&ctx, mt_comm_mpi_create(&ctx, &mpi, &world), "mpi");
  check_memory(world);
  check_evaluation(world);
  mt_comm_destroy(world);
  return failures > 0;
}
