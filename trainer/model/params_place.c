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

static void place_packed(mt_param *p, mk_device *dev, mk_arena *workspace) {
  if (!p->overwritten) return;
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
    place_packed(p, dev, &arenas[MK_MEM_WORKSPACE]);
  }
}
