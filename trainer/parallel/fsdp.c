/* Fully sharded data parallelism (ZeRO-3), full or hybrid: nothing is whole on a rank except what is in use.
 *
 * sharded     compute copy, gradient, main, m and v of each unit, dense and expert parameters apart, over the S ranks
 *             that share a copy (dense: fsdp_shard_ranks, expert: that / ep): the unit's parameters as one flat piece,
 *             padded to 32 S elements, cut into S equal slices. (FSDP2 cuts each tensor by rows and gathers the unit
 *             through a buffer that is copied out; the bytes are the same up to the padding.) S = 1: whole, as in ddp
 * memory      bf16, P parameters, U of the largest unit, R = max of the two prefetch depths + 1:
 *               after_forward  18 P/S + 2 U R + 4 U 2       fsdp_reduce last: 4 P in place of 4 P/S + 4 U 2
 *               kept           18 P/S + 2 P   + 4 U 2
 * wire        a step of M microbatches, handed over per parameter of a layer: gathers G x 2/S, with G = 2M
 *             (after_forward), M (keep_to_backward), M+1 (keep_to_forward); the embedding is gathered M times, the head
 *             M times (keep_to_forward: once); reduce-scatter 4M (each) or 4 (last); hybrid: one all-reduce of 4/S
 * collectives all_gather of a unit at before_use, `prefetch` units ahead; reduce_scatter at after_backward; all_reduce
 *             among the copies right behind it, in the last microbatch only
 * timeline    after_forward, prefetch 1, a layer a letter (G gather, R reduce-scatter, all on the comm stream)
 *             compute   Fa    Fb    Fc    Hd    Bc       Bb       Ba    | Adam
 *             comm   Ga Gb    Gc    Gd    Gc    Gb Rd    Ga Rc    Rb Ra |
 * invariants  a place is overwritten only behind an event that its last reader passed, weights and gradients alike;
 *             gathers are used in the order in which they are issued; none is issued for a step that has not begun,
 *             so that a gather never sees weights of two steps; all ranks issue the calls of a group in one order;
 *             shards are summed in FP32; nothing here waits on the host or allocates. With guard (test mode) released
 *             places are filled with NaN, so that a missing gather cannot pass
 * paper       Rajbhandari et al. 2020, ZeRO, arXiv 1910.02054; Zhao et al. 2023, PyTorch FSDP, arXiv 2304.11277 */
#include "trainer/parallel/fsdp.h"

/* Units of the model's order that come after this use in the same direction; the pass turns at the head. Beyond the
 * embedding's backward pass, which needs no weights, comes the next microbatch of the step. */
static mk_status prefetch(mt_sharding *sh, int unit, mt_use use) {
  bool forward = use == MT_USE_FORWARD;
  int64_t depth = forward ? sh->cfg->fsdp_prefetch : mt_config_prefetch_backward(sh->cfg);
  int step = forward ? 1 : -1, first = unit + step, end = forward ? sh->params->units : 0;
  if (use == MT_USE_BACKWARD && unit == 0) {
    if (sh->last) return MK_OK;
    depth = sh->cfg->fsdp_prefetch, step = 1, first = 0, end = sh->params->units;
  }
  for (int next = first; next != end && depth > 0; next += step, depth--)
    MK_TRY(sh->ctx, mt_fsdp_gather(sh, next));
  return MK_OK;
}

/* Units of the model's order, see mt_pass. */
static mk_status before_use(mt_sharding *sh, int unit, mt_use use) {
  mk_context *ctx = sh->ctx;
  bool weights = unit > 0 || use == MT_USE_FORWARD; /* the embedding's gradient needs none: its gain was kept */
  if (weights) MK_TRY(ctx, mt_fsdp_gather(sh, unit));
  MK_TRY(ctx, prefetch(sh, unit, use));
  if (weights) MK_TRY(ctx, mt_fsdp_wait(sh, unit));
  return use == MT_USE_FORWARD ? MK_OK : mt_fsdp_grad_begin(sh, unit);
}

/* The embedding's table is not needed in the backward pass, the gain of its norm, where it has one, is. */
static mk_status release_embedding(mt_sharding *sh) {
  mt_param *gain = mt_params_find(sh->params, 0, MT_PARAM_EMBED_NORM);
  bool keep = gain != NULL && sh->params->store[0].ranks > 1;
  if (keep) MK_TRY(sh->ctx, mk_copy_d2d(sh->compute, &sh->params->kept_gain, &gain->w));
  MK_TRY(sh->ctx, mt_fsdp_release(sh, 0));
  if (keep) gain->w = sh->params->kept_gain;
  return MK_OK;
}

static mk_status after_forward(mt_sharding *sh, int unit) {
  if (unit == 0 && sh->train) return release_embedding(sh);
  bool keep = sh->train && sh->cfg->fsdp_reshard == MT_KEEP_TO_BACKWARD;
  return keep ? MK_OK : mt_fsdp_release(sh, unit);
}

static mk_status after_backward(mt_sharding *sh, int unit, bool last) {
  bool keep = !last && sh->cfg->fsdp_reshard == MT_KEEP_TO_FORWARD;
  if (!keep && unit > 0) /* the embedding was released before, and may be on its way for the next microbatch */
    MK_TRY(sh->ctx, mt_fsdp_release(sh, unit));
  return mt_fsdp_grad_reduce(sh, unit);
}

/* Gathers of the next step come behind the update of the weights. */
static mk_status after_step(mt_sharding *sh) { return mt_stream_join(sh->ctx, sh->ready, sh->compute, sh->comm); }

static mk_status show(mt_sharding *sh, int unit, bool gradient) {
  if (gradient) return mt_fsdp_grad_show(sh, unit);
  MK_TRY(sh->ctx, mt_fsdp_gather(sh, unit));
  return mt_fsdp_wait(sh, unit);
}

static mk_status hide(mt_sharding *sh, int unit, bool gradient) {
  return gradient ? mt_fsdp_grad_hide(sh, unit) : mt_fsdp_release(sh, unit);
}

static int64_t mem_bytes(const mt_params *params, const mt_config *cfg, const mt_mesh_plan *plan) {
  (void)plan;
  return mt_state_bytes(params, cfg);
}

const mt_sharding_ops mt_fsdp_ops = {
    .name = "fsdp",
    .layout = mt_fsdp_layout,
    .init = mt_fsdp_init,
    .fini = mt_fsdp_fini,
    .before_use = before_use,
    .after_forward = after_forward,
    .after_backward = after_backward,
    .before_step = mt_buckets_wait,
    .after_step = after_step,
    .show = show,
    .hide = hide,
    .wire_bytes = mt_fsdp_wire_bytes,
    .mem_bytes = mem_bytes,
};
