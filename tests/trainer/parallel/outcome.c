/* See outcome.h. */
#include "tests/trainer/parallel/outcome.h"

#include <stdlib.h>
#include <string.h>

#include "tests/trainer/parallel/window_tally.h"
#include "tests/trainer/support/tiny.h"

int32_t *outcome_routes(const outcome *o, int step, int64_t microbatch, int64_t moe_layer) {
  return o->routes + ((step * o->microbatches + microbatch) * o->moe_layers + moe_layer) * o->layer_routes;
}

int64_t outcome_block(const outcome *o, int64_t microbatch) { return microbatch * o->plan.dp + o->plan.dp_rank; }

const outcome_param *outcome_param_find(const outcome *o, const char *name) {
  for (int i = 0; i < o->n_params; i++) {
    if (strcmp(o->param[i].name, name) == 0) return &o->param[i];
  }
  return NULL;
}

static outcome *outcome_make(mt_trainer *t) {
  outcome *o = calloc(1, sizeof *o);
  const mt_params *params = &t->model->params;
  o->cfg = t->cfg;
  o->plan = t->mesh->plan;
  o->n_params = params->count;
  o->param = calloc((size_t)params->count, sizeof *o->param);
  o->moe_layers = mt_config_moe_layers(&t->cfg);
  o->microbatches = t->microbatches;
  o->layer_routes = t->cfg.rank_tokens * t->cfg.top_k;
  size_t bytes = (size_t)(OUTCOME_STEPS * o->microbatches * o->moe_layers * o->layer_routes) * sizeof *o->routes;
  o->routes = malloc(bytes + 1);
  memset(o->routes, -1, bytes);
  o->counts = calloc((size_t)(o->moe_layers * t->cfg.experts) + 1, sizeof *o->counts);
  for (int i = 0; i < params->count; i++) {
    const mt_param *p = &params->item[i];
    bool part = t->cfg.shard == MT_SHARD_DIST_OPT && t->cfg.grad_reduce == MT_GRAD_REDUCE_SCATTER;
    outcome_param *q = &o->param[i];
    memcpy(q->name, p->name, sizeof q->name);
    q->first = p->first, q->count = p->count;
    q->shard_first = p->shard_first, q->shard_count = p->shard_count;
    q->own_first = part ? p->shard_first : 0, q->own_count = part ? p->shard_count : p->count;
    q->initial = calloc((size_t)p->count, sizeof(double));
    q->gradient = calloc((size_t)p->count, sizeof(double));
    q->weight = calloc((size_t)p->count, sizeof(double));
    q->main = calloc((size_t)p->shard_count + 1, sizeof(double));
  }
  return o;
}

void outcome_free(outcome *o) {
  if (o == NULL) return;
  for (int i = 0; i < o->n_params; i++) {
    free(o->param[i].main);
    free(o->param[i].weight);
    free(o->param[i].gradient);
    free(o->param[i].initial);
  }
  free(o->param);
  free(o->counts);
  free(o->routes);
  free(o);
}

typedef enum moment { BEFORE, REDUCED, AFTER } moment;

static void read_params(mk_context *ctx, mt_trainer *t, outcome *o, moment when) {
  int64_t before = mt_trainer_wire_bytes(t);
  for (int i = 0; i < o->n_params; i++) {
    outcome_param *q = &o->param[i];
    double *to = when == BEFORE ? q->initial : when == REDUCED ? q->gradient : q->weight;
    mt_value which = when == REDUCED ? MT_VALUE_GRADIENT : MT_VALUE_WEIGHT;
    tiny_ok(ctx, mt_trainer_read(t, q->name, which, to), q->name);
    if (when == AFTER) tiny_ok(ctx, mt_trainer_read(t, q->name, MT_VALUE_MAIN, q->main), q->name);
  }
  o->read_bytes += mt_trainer_wire_bytes(t) - before;
}

/* Puts the routes of the same tokens in place of the router's choice. */
static void replay_step(outcome *o, const outcome *chosen, int step) {
  size_t bytes = (size_t)(o->moe_layers * o->layer_routes) * sizeof *o->routes;
  for (int64_t m = 0; m < o->microbatches; m++)
    memcpy(outcome_routes(o, step, m, 0), outcome_routes(chosen, step, outcome_block(o, m), 0), bytes);
}

static void run_step(mk_context *ctx, mt_trainer *t, mt_data *data, outcome *o, int step) {
  size_t bytes = (size_t)t->cfg.rank_tokens * sizeof(int32_t);
  int32_t *tokens = malloc(bytes), *labels = malloc(bytes);
  int64_t waits = t->dev->host_waits;
  t->routes = outcome_routes(o, step, 0, 0);
  tiny_ok(ctx, mt_trainer_begin(t), "begin");
  for (int64_t m = 0; m < t->microbatches; m++) {
    tiny_ok(ctx, mt_data_batch(data, t->step - 1, m, tokens, labels), "batch");
    tiny_ok(ctx, mt_trainer_microbatch(t, tokens, labels), "microbatch");
  }
  tiny_ok(ctx, mt_trainer_reduce(t), "reduce");
  if (step == 0) {
    tiny_ok(ctx, mt_trainer_tensor_read(t, &t->model->sums, o->sums), "sums");
    tiny_ok(ctx, mt_trainer_tensor_read(t, &t->model->step_counts, o->counts), "counts");
    o->grad_norm = tiny_state(t).grad_norm;
    read_params(ctx, t, o, REDUCED);
  }
  tiny_ok(ctx, mt_trainer_update(t), "update");
  if (step == 0) o->host_waits = t->dev->host_waits - waits; /* reading values does not count */
  free(labels);
  free(tokens);
}

outcome *outcome_run(mk_context *ctx, const mt_config *cfg, mt_comm *world, const outcome *chosen, const char *name,
                     outcome_fn at_end, void *user) {
  mt_trainer *t = NULL;
  mt_data *data = NULL;
  tiny_ok(ctx, mt_trainer_create(ctx, cfg, world, &t), name);
  tiny_ok(ctx, mt_data_create(ctx, cfg, t->mesh->plan.dp_rank, &data), name);
  window_tally_start(t);
  if (chosen != NULL) t->cfg.routing = MK_ROUTING_REPLAY;
  outcome *o = outcome_make(t);
  read_params(ctx, t, o, BEFORE);
  for (int step = 0; step < OUTCOME_STEPS; step++) {
    if (chosen != NULL) replay_step(o, chosen, step);
    run_step(ctx, t, data, o, step);
  }
  read_params(ctx, t, o, AFTER); /* waits for the device */
  tiny_ok(ctx, mk_device_poll(t->dev), name);
  o->window_bytes = window_tally_bytes(t);
  if (at_end != NULL) at_end(user, t, o);
  mt_data_destroy(data);
  mt_trainer_destroy(t);
  return o;
}
