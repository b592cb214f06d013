/* See costs.h. */
#include "tests/trainer/parallel/costs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/step/predict.h"

/* Counts [R, E] of one microbatch and MoE layer: every source rank's block lies beside the others in the twin. */
static void count_routes(int32_t *counts, const outcome *own, const outcome *one, int step, int64_t m, int64_t layer) {
  const mt_mesh_plan *plan = &own->plan;
  for (int s = 0; s < plan->ep; s++) {
    int64_t block = m * plan->dp + plan->ep_dp_rank * plan->ep + s;
    const int32_t *routes = outcome_routes(one, step, block, layer);
    for (int64_t i = 0; i < own->layer_routes; i++)
      counts[s * own->cfg.experts + routes[i]] += 1;
  }
}

/* Counts of a step, MoE layers of this rank only. */
static int32_t *step_counts(const mt_trainer *t, const outcome *own, const outcome *one, int step) {
  const mt_params *params = &t->model->params;
  int64_t table = own->plan.ep * own->cfg.experts, tables = own->microbatches * own->moe_layers;
  int32_t *counts = calloc((size_t)(tables * table), sizeof *counts), *at = counts;
  for (int64_t m = 0; m < own->microbatches; m++) {
    for (int64_t layer = 0; layer < own->moe_layers; layer++) {
      int unit = (int)(1 + own->cfg.dense_layers + layer);
      if (mt_params_find(params, unit, MT_PARAM_ROUTER) == NULL) continue;
      count_routes(at, own, one, step, m, layer);
      at += table;
    }
  }
  return counts;
}

void costs_predict(costs *c, mt_trainer *t, const outcome *own, const outcome *one) {
  const mt_params *params = &t->model->params;
  for (int step = 0; step < OUTCOME_STEPS; step++) {
    int32_t *counts = step_counts(t, own, one, step);
    mt_wire wire = mt_predict_wire(&t->cfg, &own->plan, params, t->ep, t->pp, counts);
    c->wire_predicted += wire.sharding + wire.optim + wire.ep + wire.pp;
    c->ep_predicted += wire.ep;
    c->sharding_predicted += wire.sharding;
    c->optim_predicted += wire.optim;
    c->counts_predicted += wire.ep_counts;
    c->pp_predicted += wire.pp;
    c->window_predicted += wire.window;
    free(counts);
  }
  const size_t *used = t->dev->peak_bytes;
  c->state_predicted = t->sharding->ops->mem_bytes(params, &t->cfg, &own->plan);
  c->state_counted = (int64_t)(used[MK_MEM_PARAMS] + used[MK_MEM_GRADS] + used[MK_MEM_OPTIM]);
  mt_memory memory = mt_predict_memory(&t->cfg, &own->plan, params, t->ep, t->pp, t->dev);
  c->window_counted = own->window_bytes;
  c->memory_predicted = mt_memory_total(&memory);
  c->memory_counted = (int64_t)t->dev->peak_total_bytes;
  c->waits_predicted = mt_predict_host_waits(&t->cfg, params, t->ep);
  c->waits_counted = own->host_waits;
}

/* Lines: op,purpose,dtype,count,bytes,size */
void costs_trace_read(costs *c, const char *path) {
  char line[256], purpose[32];
  long long bytes = 0;
  FILE *file = fopen(path, "r");
  if (file == NULL || fgets(line, sizeof line, file) == NULL) {
    fprintf(stderr, "the trace %s cannot be read\n", path);
    exit(1);
  }
  while (fgets(line, sizeof line, file) != NULL) {
    if (sscanf(line, "%*[^,],%31[^,],%*[^,],%*[^,],%lld", purpose, &bytes) != 2) {
      fprintf(stderr, "the trace %s has a line '%s'\n", path, line);
      exit(1);
    }
    c->wire_traced += bytes;
    if (strcmp(purpose, "ep") == 0) c->ep_traced += bytes;
  }
  fclose(file);
  remove(path);
}
