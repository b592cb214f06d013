/* The parameter list. Adding a parameter: a role, its name and shape in `add_layer`, and its use in a block file. */
#include "trainer/model/params.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "trainer/parallel/pp_layout.h"

typedef struct builder {
  mt_params *params;
  const mt_config *cfg;
  const mt_mesh_plan *mesh;
  bool counting; /* first pass: only counts entries */
} builder;

static bool is_norm(mt_param_role role) {
  switch (role) {
    case MT_PARAM_EMBED_NORM:
    case MT_PARAM_ATTN_IN_NORM:
    case MT_PARAM_Q_NORM:
    case MT_PARAM_K_NORM:
    case MT_PARAM_ATTN_OUT_NORM:
    case MT_PARAM_MLP_IN_NORM:
    case MT_PARAM_MLP_OUT_NORM:
    case MT_PARAM_HEAD_NORM:
    case MT_PARAM_FF_OUT_NORM:
      return true;
    default:
      return false;
  }
}

static bool decays(const mt_config *cfg, mt_param_role role) {
  if (cfg->decay == MT_DECAY_ALL) return true;
  if (role == MT_PARAM_EMBED) return false;
  return cfg->decay == MT_DECAY_NO_EMBEDDING || !is_norm(role);
}

static void add(builder *b, int unit, mt_param_role role, const char *name, int n_dims, int64_t d0, int64_t d1,
                int64_t d2) {
  mt_params *params = b->params;
  if (b->counting) {
    params->count += 1;
    return;
  }
  mt_param *p = &params->item[params->count];
  bool expert = role == MT_PARAM_EXPERT_UP_GATE || role == MT_PARAM_EXPERT_DOWN;
  int64_t parts = expert ? b->mesh->ep : 1;
  *p = (mt_param){.role = role,
                  .unit = unit,
                  .expert = expert,
                  .decays = decays(b->cfg, role),
                  .n_dims = n_dims,
                  .overwritten = n_dims >= 2 && role != MT_PARAM_EMBED,
                  .dim = {d0 / parts, d1, d2}};
  p->count = p->dim[0] * (n_dims > 1 ? d1 : 1) * (n_dims > 2 ? d2 : 1);
  p->total = p->count * parts;
  p->first = expert ? p->count * b->mesh->ep_rank : 0;
  p->offset = params->flat_count[expert];
  if (unit == 0 || unit == params->units - 1) {
    snprintf(p->name, sizeof p->name, "%s.%s", unit == 0 ? "embed" : "head", name);
  } else {
    snprintf(p->name, sizeof p->name, "layers.%d.%s", unit - 1, name);
  }
  params->index[unit * MT_PARAM_ROLE_COUNT + (int)role] = params->count;
  params->flat_count[expert] += (p->count + MT_PARAM_ALIGN - 1) / MT_PARAM_ALIGN * MT_PARAM_ALIGN;
  params->count += 1;
}

static void add_norm(builder *b, int unit, mt_param_role role, const char *name, int64_t width, bool wanted) {
  if (wanted) add(b, unit, role, name, 1, width, 1, 1);
}

static void add_attention(builder *b, int unit) {
  const mt_config *c = b->cfg;
  int64_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
  bool head = c->qk_norm == MK_QK_NORM_HEAD;
  add_norm(b, unit, MT_PARAM_ATTN_IN_NORM, "attn_in_norm", c->d_model, mt_norm_before(c));
  add(b, unit, MT_PARAM_QKV, "qkv", 2, q + 2 * kv, c->d_model, 1);
  add_norm(b, unit, MT_PARAM_Q_NORM, "q_norm", head ? c->head_dim : q, c->qk_norm != MK_QK_NORM_NONE);
  add_norm(b, unit, MT_PARAM_K_NORM, "k_norm", head ? c->head_dim : kv, c->qk_norm != MK_QK_NORM_NONE);
  add(b, unit, MT_PARAM_ATTN_O, "attn_o", 2, c->d_model, q, 1);
  add_norm(b, unit, MT_PARAM_ATTN_OUT_NORM, "attn_out_norm", c->d_model, mt_norm_after(c));
}

static void add_mlp(builder *b, int unit) {
  const mt_config *c = b->cfg;
  bool dense = unit - 1 < c->dense_layers;
  int64_t hidden = dense ? c->dense_hidden : c->shared_hidden;
  add_norm(b, unit, MT_PARAM_MLP_IN_NORM, "mlp_in_norm", c->d_model, mt_norm_before(c));
  if (!dense) add(b, unit, MT_PARAM_ROUTER, "router", 2, c->experts, c->d_model, 1);
  if (hidden > 0) {
    add(b, unit, MT_PARAM_SHARED_UP_GATE, "shared_up_gate", 2, 2 * hidden, c->d_model, 1);
    add(b, unit, MT_PARAM_SHARED_DOWN, "shared_down", 2, c->d_model, hidden, 1);
    add_norm(b, unit, MT_PARAM_FF_OUT_NORM, "ff_out_norm", c->d_model, c->norm == MT_NORM_HYBRID && !dense);
  }
  if (!dense) {
    add(b, unit, MT_PARAM_EXPERT_UP_GATE, "expert_up_gate", 3, c->experts, 2 * c->expert_hidden, c->d_model);
    add(b, unit, MT_PARAM_EXPERT_DOWN, "expert_down", 3, c->experts, c->d_model, c->expert_hidden);
  }
  add_norm(b, unit, MT_PARAM_MLP_OUT_NORM, "mlp_out_norm", c->d_model, mt_norm_after(c));
}

static void mark_unit(builder *b, int unit) {
  if (b->counting) return;
  for (int kind = 0; kind < 2; kind++)
    b->params->unit_first[kind][unit] = b->params->flat_count[kind];
}

static void add_unit(builder *b, int unit) {
  const mt_config *c = b->cfg;
  if (unit == 0) {
    add(b, unit, MT_PARAM_EMBED, "table", 2, c->vocab, c->d_model, 1);
    add_norm(b, unit, MT_PARAM_EMBED_NORM, "norm", c->d_model, c->embed_norm);
  } else if (unit == b->params->units - 1) {
    add_norm(b, unit, MT_PARAM_HEAD_NORM, "norm", c->d_model, true);
    add(b, unit, MT_PARAM_HEAD_OUT, "out", 2, c->vocab, c->d_model, 1);
  } else {
    add_attention(b, unit);
    add_mlp(b, unit);
  }
}

/* Units of other pipeline stages stay empty. */
static void build(builder *b) {
  mt_pp_shape shape = mt_pp_shape_of(b->cfg);
  shape.ranks = b->mesh->pp;
  b->params->count = 0;
  for (int unit = 0; unit < b->params->units; unit++) {
    mark_unit(b, unit);
    if (mt_pp_holds_unit(&shape, b->cfg->layers, b->mesh->pp_rank, unit)) add_unit(b, unit);
  }
  mark_unit(b, b->params->units);
}

mk_status mt_params_create(mk_context *ctx, const mt_config *cfg, const mt_mesh_plan *mesh, mt_params *out) {
  mk_status st = MK_OK;
  mt_params params = {
      .ctx = ctx, .units = (int)cfg->layers + 2, .store = {{.ranks = 1, .copies = 1}, {.ranks = 1, .copies = 1}}};
  builder b = {.params = &params, .cfg = cfg, .mesh = mesh, .counting = true};
  build(&b);
  size_t slots = (size_t)params.units * MT_PARAM_ROLE_COUNT;
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)params.count, sizeof *params.item, &params.item), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, slots, sizeof *params.index, &params.index), out);
  for (int kind = 0; kind < 2; kind++) {
    MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)params.units + 1, sizeof(int64_t), &params.unit_first[kind]), out);
  }
  for (size_t i = 0; i < slots; i++)
    params.index[i] = -1;
  b.counting = false;
  build(&b);
  *out = params;
out:
  if (st != MK_OK) mt_params_fini(&params);
  return st;
}

void mt_params_fini(mt_params *params) {
  if (params->ctx == NULL) return;
  for (int kind = 0; kind < 2; kind++)
    mk_heap_free(params->ctx, params->unit_first[kind]);
  mk_heap_free(params->ctx, params->index);
  mk_heap_free(params->ctx, params->item);
  *params = (mt_params){0};
}

mt_param *mt_params_find(const mt_params *params, int unit, mt_param_role role) {
  int place = params->index[unit * MT_PARAM_ROLE_COUNT + (int)role];
  return place < 0 ? NULL : &params->item[place];
}

int64_t mt_params_layers(const mt_params *params, bool dense) {
  int64_t layers = 0;
  for (int unit = 1; unit < params->units - 1; unit++) {
    bool has = mt_params_find(params, unit, MT_PARAM_QKV) != NULL;
    bool routed = mt_params_find(params, unit, MT_PARAM_ROUTER) != NULL;
    layers += has && routed != dense;
  }
  return layers;
}

mt_param *mt_params_by_name(const mt_params *params, const char *name) {
  for (int i = 0; i < params->count; i++) {
    if (strcmp(params->item[i].name, name) == 0) return &params->item[i];
  }
  return NULL;
}

void mt_params_shard(mt_params *params, int dense_ranks, int dense_rank, int expert_ranks, int expert_rank) {
  for (int i = 0; i < params->count; i++) {
    mt_param *p = &params->item[i];
    int ranks = p->expert ? expert_ranks : dense_ranks;
    int rank = p->expert ? expert_rank : dense_rank;
    p->replicated = !mt_param_shards(p->count, ranks);
    p->shard_count = p->replicated ? p->count : p->count / ranks;
    p->shard_first = p->replicated ? 0 : p->shard_count * rank;
  }
}
