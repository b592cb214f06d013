/* Where parameters live: flat compute copies and gradients, optimizer state of the own shard, packed GEMM copies. */
#include "trainer/model/params.h"

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

static mk_tensor shaped_view(const mt_param *p, const mk_tensor *flat) {
  mk_tensor view = mk_tensor_slice(flat, p->offset, p->count);
  view.n_dims = p->n_dims;
  for (int i = 0; i < 3; i++)
    view.dim[i] = i < p->n_dims ? p->dim[i] : 1;
  return view;
}

static void place_optimizer(mt_param *p, mk_dtype master, bool main_is_w, mk_arena *optim) {
  p->main = mk_tensor_1d(master, p->shard_count);
  p->m = p->main;
  p->v = p->main;
  if (main_is_w) {
    p->main = mk_tensor_slice(&p->w, p->shard_first, p->shard_count);
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

static int64_t bytes_of(const mk_mxfp8 *m) { return mk_tensor_count(&m->q) + mk_tensor_count(&m->scale); }

int64_t mt_param_mxfp8_bytes(const mt_param *p, const mt_config *cfg) {
  if (!mt_role_mxfp8(cfg, p->role)) return 0;
  mk_mxfp8 w_q, w_t_q;
  shape_mxfp8(p, &w_q, &w_t_q);
  return bytes_of(&w_q) + bytes_of(&w_t_q);
}

static void place_mxfp8(mt_param *p, const mt_config *cfg, mk_arena *arena) {
  if (!mt_role_mxfp8(cfg, p->role)) return;
  shape_mxfp8(p, &p->w_q, &p->w_t_q);
  mt_mxfp8_place(arena, &p->w_q);
  mt_mxfp8_place(arena, &p->w_t_q);
}

static void place_packed(mt_param *p, mk_device *dev, mk_arena *workspace) {
  if (!p->overwritten || mk_tensor_present(&p->w_q.q)) return;
  bool grouped = p->n_dims == 3;
  int64_t groups = grouped ? p->dim[0] : 1;
  int64_t n = p->dim[grouped ? 1 : 0], k = p->dim[grouped ? 2 : 1];
  size_t bytes = mk_gemm_pack_bytes(dev, p->w.dtype, groups, n, k);
  p->packed = bytes > 0 ? mk_tensor_1d(MK_U8, (int64_t)bytes) : (mk_tensor){0};
  mk_arena_place(workspace, &p->packed);
}

void mt_params_place(mt_params *params, mk_device *dev, const mt_config *cfg, mk_arena *arenas) {
  mk_dtype compute = mt_compute_dtype(cfg), master = mt_master_dtype(cfg);
  for (int kind = 0; kind < 2; kind++) {
    params->flat_w[kind] = mk_tensor_1d(compute, params->flat_count[kind]);
    params->flat_grad[kind] = mk_tensor_1d(master, params->flat_count[kind]);
    mk_arena_place(&arenas[MK_MEM_PARAMS], &params->flat_w[kind]);
    mk_arena_place(&arenas[MK_MEM_GRADS], &params->flat_grad[kind]);
  }
  for (int i = 0; i < params->count; i++) {
    mt_param *p = &params->item[i];
    p->w = shaped_view(p, &params->flat_w[p->expert]);
    p->grad = shaped_view(p, &params->flat_grad[p->expert]);
    place_optimizer(p, master, compute == master, &arenas[MK_MEM_OPTIM]);
    place_mxfp8(p, cfg, &arenas[MK_MEM_PARAMS]);
    place_packed(p, dev, &arenas[MK_MEM_WORKSPACE]);
  }
}
