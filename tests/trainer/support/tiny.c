/* See tiny.h. */
#include "tests/trainer/support/tiny.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

mt_config tiny_config(void) {
  mt_config c = mt_config_default();
  c.layers = 3, c.dense_layers = 1, c.d_model = 24, c.heads = 4, c.kv_heads = 2, c.head_dim = 6;
  c.dense_hidden = 40, c.experts = 8, c.top_k = 2, c.expert_hidden = 20, c.shared_hidden = 12, c.vocab = 61;
  c.seq_len = 12, c.rank_tokens = 36, c.global_tokens = 36, c.norm = MT_NORM_PERI, c.embed_norm = true;
  c.embed_scale = 0, c.weight_scale = MT_WEIGHT_SCALE_K, c.z_weight = 1e-3, c.lb_weight = 0.02;
  c.router_z_weight = 1e-2, c.init_std = 0.2, c.threads = 1, c.comm_timeout_s = 60;
  return c;
}

void tiny_ok(mk_context *ctx, mk_status st, const char *what) {
  if (st == MK_OK) return;
  fprintf(stderr, "%s: rank %d: %s\n", what, ctx->rank, ctx->error.message);
  for (int i = 0; i < ctx->error.n_frames; i++) {
    fprintf(stderr, "  at %s:%d\n", ctx->error.frames[i].file, ctx->error.frames[i].line);
  }
  exit(1);
}

void tiny_set(mk_context *ctx, mt_config *c, const char *pairs, const char *between) {
  char text[512], *rest = NULL;
  snprintf(text, sizeof text, "%s", pairs);
  for (char *pair = strtok_r(text, between, &rest); pair != NULL; pair = strtok_r(NULL, between, &rest)) {
    char *value = strchr(pair, '=');
    if (value == NULL) {
      fprintf(stderr, "'%s' of '%s' is not KEY=VALUE\n", pair, pairs);
      exit(1);
    }
    *value++ = '\0';
    tiny_ok(ctx, mt_config_set(ctx, c, pair, value), pairs);
  }
}

void tiny_train(mk_context *ctx, mt_trainer *t, int64_t steps, bool only_reduce) {
  mt_data *data = NULL;
  size_t bytes = (size_t)t->cfg.rank_tokens * sizeof(int32_t);
  int32_t *tokens = malloc(bytes), *labels = malloc(bytes);
  tiny_ok(ctx, mt_data_create(ctx, &t->cfg, t->mesh->plan.dp_rank, &data), "data");
  for (int64_t n = 0; n < steps; n++) {
    tiny_ok(ctx, mt_trainer_begin(t), "begin");
    for (int64_t m = 0; m < t->microbatches; m++) {
      tiny_ok(ctx, mt_data_batch(data, t->step - 1, m, tokens, labels), "batch");
      tiny_ok(ctx, mt_trainer_microbatch(t, tokens, labels), "microbatch");
    }
    bool last = only_reduce && n == steps - 1;
    tiny_ok(ctx, last ? mt_trainer_reduce(t) : mt_trainer_finish(t), "finish");
  }
  mt_data_destroy(data);
  free(labels);
  free(tokens);
}

void tiny_open(tiny_rank *r, const mt_config *c) {
  *r = (tiny_rank){0};
  tiny_ok(&r->ctx, mt_comm_self_create(&r->ctx, &r->world), "self");
  tiny_ok(&r->ctx, mt_trainer_create(&r->ctx, c, r->world, &r->t), "create");
}

void tiny_close(tiny_rank *r) {
  mt_trainer_destroy(r->t);
  mt_comm_destroy(r->world);
  if (r->ctx.heap_live == 0) return;
  fprintf(stderr, "%lld blocks of the heap are left\n", r->ctx.heap_live);
  exit(1);
}

double *tiny_values(mk_context *ctx, mt_trainer *t, mt_value which, int64_t *count) {
  const mt_params *params = &t->model->params;
  *count = params->flat_count[0] + params->flat_count[1];
  double *values = calloc((size_t)*count, sizeof *values), *at = values;
  for (int i = 0; i < params->count; i++) {
    tiny_ok(ctx, mt_trainer_read(t, params->item[i].name, which, at), params->item[i].name);
    at += params->item[i].count;
  }
  return values;
}

double tiny_norm_error(const double *a, const double *b, int64_t count) {
  double difference = 0, size = 0;
  for (int64_t i = 0; i < count; i++) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return size > 0 ? sqrt(difference / size) : sqrt(difference);
}

double tiny_param_error(mt_trainer *got, mt_trainer *want, const mt_param *p, mt_value which) {
  const mt_param *q = mt_params_by_name(&want->model->params, p->name);
  double *a = malloc((size_t)p->count * sizeof *a), *b = malloc((size_t)q->count * sizeof *b);
  tiny_ok(got->ctx, mt_trainer_read(got, p->name, which, a), p->name);
  tiny_ok(want->ctx, mt_trainer_read(want, p->name, which, b), p->name);
  double error = tiny_norm_error(a, b + (p->first - q->first), p->count);
  free(b);
  free(a);
  return error;
}

mk_step_state tiny_state(mt_trainer *t) {
  double values[sizeof(mk_step_state)];
  uint8_t bytes[sizeof(mk_step_state)];
  mk_step_state state;
  tiny_ok(t->ctx, mt_trainer_tensor_read(t, &t->model->state, values), "state");
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = (uint8_t)values[i];
  memcpy(&state, bytes, sizeof state);
  return state;
}
