/* Where parameters live: flat compute copies and gradients, optimizer state of the own shard, packed GEMM copies. */
#include "trainer/model/params.h"

#include <string.h>

#include "kernels/base/min_max.h"

mk_dtype mt_compute_dtype(const mt_config *cfg) {
  switch (cfg->precision) {
    case MT_FP32:
      return MK_F32;
    case MT_FP64:
      return MK_F64;
    default:
      return MK_BF16;
  }
}

mk_dtype mt_master_dtype(const mt_config *cfg) { return cfg->precision == MT_FP64 ? MK_F64 : MK_F32; }

mk_tensor mt_param_view(const mt_param *p, const mk_tensor *flat, int64_t offset) {
  mk_tensor view = mk_tensor_slice(flat, offset, p->count);
  view.n_dims = p->n_dims;
  for (int i = 0; i < 3; i++)
    view.dim[i] = i < p->n_dims ? p->dim[i] : 1;
  return view;
}

static void place_whole(mt_params *params, mt_param *p, mk_dtype master, bool main_is_w, mk_arena *optim) {
  p->w = mt_param_view(p, &params->flat_w[p->expert], p->offset);
  p->grad = mt_param_view(p, &params->flat_grad[p->expert], p->offset);
  p->own_w = mk_tensor_slice(&p->w, p->shard_first, p->shard_count);
  p->own_grad = mk_tensor_slice(&p->grad, p->shard_first, p->shard_count);
  p->main = mk_tensor_1d(master, p->shard_count);
  p->m = p->main;
  p->v = p->main;
  if (main_is_w) {
    p->main = p->own_w;
  } else {
    mk_arena_place(optim, &p->main);
  }
  mk_arena_place(optim, &p->m);
  mk_arena_place(optim, &p->v);
}

static bool is_attention(mt_param_role role) { return role == MT_PARAM_QKV || role == MT_PARAM_ATTN_O; }

static bool is_mlp(mt_param_role role) {
  return role == MT_PARAM_SHARED_UP_GATE || role == MT_PARAM_SHARED_DOWN || role == MT_PARAM_EXPERT_UP_GATE ||
         role == MT_PARAM_EXPERT_DOWN;
}

bool mt_role_mxfp8(const mt_config *cfg, mt_param_role role) {
  return (mt_mxfp8_attention(cfg) && is_attention(role)) || (mt_mxfp8_mlp(cfg) && is_mlp(role));
}

static void shape_mxfp8(const mt_param *p, mk_mxfp8 *w_q, mk_mxfp8 *w_t_q) {
  bool grouped = p->n_dims == 3;
  int64_t groups = grouped ? p->dim[0] : 0, n = p->dim[grouped ? 1 : 0], k = p->dim[grouped ? 2 : 1];
  *w_q = mk_mxfp8_shape(groups, n, k);
  *w_t_q = mk_mxfp8_shape(groups, k, n);
}

static void put(mk_arena *arena, mk_tensor *t, mk_dtype dtype, int64_t count) {
  *t = count > 0 ? mk_tensor_1d(dtype, count) : (mk_tensor){0};
  mk_arena_place(arena, t);
}

/* Elements and scales from byte `at` of a role's memory on; returns where they end. */
static int64_t view_mxfp8(const mk_tensor *memory, int64_t at, mk_mxfp8 *m) {
  mk_tensor *parts[] = {&m->q, &m->scale};
  for (int i = 0; i < 2; i++) {
    mk_tensor shape = *parts[i];
    *parts[i] = mk_tensor_slice(memory, at, mk_tensor_count(&shape));
    parts[i]->n_dims = shape.n_dims;
    memcpy(parts[i]->dim, shape.dim, sizeof shape.dim);
    at += mk_arena_bytes(mk_tensor_count(&shape));
  }
  return at;
}

/* Units that are cut are quantised one after the other, so that one place serves all parameters of a role. */
static void place_quantised(mt_params *params, const mt_config *cfg, mk_arena *arena) {
  int64_t bytes[MT_PARAM_ROLE_COUNT] = {0};
  for (int i = 0; i < params->count; i++) {
    const mt_param *p = &params->item[i];
    mk_mxfp8 w_q, w_t_q;
    if (!mt_param_cut(params, p) || !mt_role_mxfp8(cfg, p->role)) continue;
    shape_mxfp8(p, &w_q, &w_t_q);
    int64_t own = mk_arena_bytes(mk_tensor_count(&w_q.q)) + mk_arena_bytes(mk_tensor_count(&w_q.scale)) +
                  mk_arena_bytes(mk_tensor_count(&w_t_q.q)) + mk_arena_bytes(mk_tensor_count(&w_t_q.scale));
    bytes[p->role] = mk_max(bytes[p->role], own);
  }
  for (int role = 0; role < MT_PARAM_ROLE_COUNT; role++)
    put(arena, &params->quantised[role], MK_U8, bytes[role]);
}

static void place_mxfp8(const mt_params *params, mt_param *p, const mt_config *cfg, mk_arena *arena) {
  if (!mt_role_mxfp8(cfg, p->role)) return;
  shape_mxfp8(p, &p->w_q, &p->w_t_q);
  if (mt_param_cut(params, p)) {
    const mk_tensor *memory = &params->quantised[p->role];
    view_mxfp8(memory, view_mxfp8(memory, 0, &p->w_q), &p->w_t_q);
    return;
  }
  mt_mxfp8_place(arena, &p->w_q);
  mt_mxfp8_place(arena, &p->w_t_q);
}

/* Shards of a cut unit: slices of the buffer's. */
static void place_cut(mt_params *params, mt_param *p) {
  const mt_store *s = &params->store[p->expert];
  int64_t unit = params->unit_first[p->expert][p->unit];
  int64_t piece = mt_params_unit_count(params, p->expert, p->unit) / s->ranks;
  int64_t own = p->shard_count == 0 ? 0 : p->offset + p->shard_first - unit - s->rank * piece;
  int64_t at = unit / s->ranks + own;
  p->w = (mk_tensor){0};
  p->grad = s->grad_ring > 0 ? (mk_tensor){0} : mt_param_view(p, &params->flat_grad[p->expert], p->offset);
  p->own_w = mk_tensor_slice(&s->own_w, at, p->shard_count);
  p->own_grad = s->grad_ring > 0 ? mk_tensor_slice(&s->own_grad, at, p->shard_count)
                                 : mk_tensor_slice(&p->grad, p->shard_first, p->shard_count);
  p->main = mk_tensor_slice(&s->main, at, p->shard_count);
  p->m = mk_tensor_slice(&s->m, at, p->shard_count);
  p->v = mk_tensor_slice(&s->v, at, p->shard_count);
}

static void place_store(mt_params *params, int kind, mk_dtype compute, mk_dtype master, mk_arena *arenas) {
  mt_store *s = &params->store[kind];
  mt_store_counts n = mt_params_counts(params, kind);
  params->flat_w[kind] = mk_tensor_1d(compute, n.w);
  params->flat_grad[kind] = mk_tensor_1d(master, n.grad);
  mk_arena_place(&arenas[MK_MEM_PARAMS], &params->flat_w[kind]);
  mk_arena_place(&arenas[MK_MEM_GRADS], &params->flat_grad[kind]);
  put(&arenas[MK_MEM_PARAMS], &s->own_w, compute, n.own_w);
  put(&arenas[MK_MEM_GRADS], &s->own_grad, master, n.own_grad);
  if (compute == master) {
    s->main = s->own_w;
  } else {
    put(&arenas[MK_MEM_OPTIM], &s->main, master, n.optim);
  }
  put(&arenas[MK_MEM_OPTIM], &s->m, master, n.optim);
  put(&arenas[MK_MEM_OPTIM], &s->v, master, n.optim);
}

static void place_packed(mt_params *params, mt_param *p, mk_device *dev, mk_arena *workspace) {
  if (!p->overwritten || mt_param_cut(params, p) || mk_tensor_present(&p->w_q.q)) return;
  bool grouped = p->n_dims == 3;
  int64_t groups = grouped ? p->dim[0] : 1;
  int64_t n = p->dim[grouped ? 1 : 0], k = p->dim[grouped ? 2 : 1];
  size_t bytes = mk_gemm_pack_bytes(dev, p->w.dtype, groups, n, k);
  p->packed = bytes > 0 ? mk_tensor_1d(MK_U8, (int64_t)bytes) : (mk_tensor){0};
  mk_arena_place(workspace, &p->packed);
}

void mt_params_place(mt_params *params, mk_device *dev, const mt_config *cfg, mk_arena *arenas) {
  mk_dtype compute = mt_compute_dtype(cfg), master = mt_master_dtype(cfg);
  for (int kind = 0; kind < 2; kind++)
    place_store(params, kind, compute, master, arenas);
  const mt_param *gain = mt_params_find(params, 0, MT_PARAM_EMBED_NORM);
  if (gain != NULL && params->store[0].ranks > 1) put(&arenas[MK_MEM_PARAMS], &params->kept_gain, compute, gain->count);
  place_quantised(params, cfg, &arenas[MK_MEM_PARAMS]);
  for (int i = 0; i < params->count; i++) {
    mt_param *p = &params->item[i];
    if (mt_param_cut(params, p)) {
      place_cut(params, p);
    } else {
      place_whole(params, p, master, compute == master, &arenas[MK_MEM_OPTIM]);
    }
    place_mxfp8(params, p, cfg, &arenas[MK_MEM_PARAMS]);
    place_packed(params, p, dev, &arenas[MK_MEM_WORKSPACE]);
  }
}
