/* Fully sharded data parallelism (ZeRO-3), full or hybrid: nothing is whole on a rank except what is in use.
 *
 * sharded     compute copy, gradient, main, m and v of each unit, dense and expert parameters apart, over the S ranks
 *             that share a copy (dense: fsdp_shard_ranks, expert: that / ep): the unit's parameters as one flat piece,
 *             padded to 32 S elements, cut into S equal slices. (FSDP2 cuts each tensor by rows and gathers the unit
 *             through a buffer that is copied out; the bytes are the same up to the padding.) S = 1: whole, as in ddp
 * memory      dense and expert parameters apart: P of the rank's stages, U of their largest unit, R = larger prefetch
 *             depth + 1; c bytes of a compute copy, f of a gradient or state, k states (bf16 c 2, f 4, k 3; fp32 4, 4,
 *             2; fp64 8, 8, 2):
 *               after_forward  (c + f + k f) P/S + c min(U R, P) + 2 f U      bf16 18 P/S + 2 min(U R, P) + 8 U
 *               kept           (c + f + k f) P/S + c P           + 2 f U      bf16 18 P/S + 2 P           + 8 U
 *               fsdp_reduce last: f P in place of f P/S + 2 f U;  S = 1: (c + f + k f) P
 *             and a copy of the gain of the embedding's norm; mxfp8 as bf16, and for each role of a parameter that is
 *             multiplied so 2 (1 + 1/32) a parameter of the largest: units are quantised in turn, behind their gather
 * wire        a step of M microbatches, handed over per parameter of a layer: gathers G x 2/S (c in place of 2 and f
 *             in place of 4 elsewhere than in bf16), with G = 2M
 *             (after_forward), M+1 (keep_to_forward), or as often as a forward pass of its chunk begins while no other
 *             waits for its backward pass (keep_to_backward): M where F and B take turns, 1 in gpipe and in all but the
 *             last stage of 1f1b. The embedding is gathered M times, the head M times (keep_to_forward: once).
 *             Reduce-scatter 4M (each) or 4 (last); hybrid: one all-reduce of 4/S
 * collectives all_gather of a unit at before_use, `prefetch` uses ahead; reduce_scatter at after_backward, for the head
 *             behind its forward pass; all_reduce among the copies right behind it, in the last microbatch only
 * timeline    after_forward, prefetch 1, a layer a letter (G gather, R reduce-scatter, all on the comm stream)
 *             compute   Fa    Fb    Fc    Hd    Bc       Bb       Ba    | Adam
 *             comm   Ga Gb    Gc    Gd    Gc    Gb Rd    Ga Rc    Rb Ra |
 *             a stage of a and b, gpipe, two microbatches; kept to the backward pass all but the first Ga and Gb go
 *             compute   Fa    Fb    Fa    Fb    Bb    Ba       Bb       Ba    | Adam
 *             comm   Ga Gb    Ga    Gb       Gb Ga    Rb Gb    Ra Ga    Rb Ra |
 *             hybrid, the backward passes of a, b and head d, two microbatches: copies are summed (C) in the last only
 *             compute   Hd    Bb       Ba    |   Hd       Bb          Ba       | Adam
 *             comm   Gd    Gb Rd    Ga Rb Ra |Gd    Gb Rd Cd    Ga Rb Cb Ra Ca |
 * invariants  the order of uses in a step, and what each gathers and releases, is a function of the pipeline list
 *             (fsdp_uses.c), the same on all ranks of a group; so all issue the calls of a group in one order, and a
 *             group's calls stand at one place of the list, which keeps the schedule free of deadlock; gathers are
 *             issued in the order of uses, each behind the release of the unit's use before; none is issued for a step
 *             that has not begun, so that a gather never sees weights of two steps; a place is overwritten only behind
 *             an event that its last reader passed, weights and gradients alike; shards are summed in FP32; nothing
 *             here waits on the host or allocates. With guard (test mode) released places are filled with NaN, so that
 *             a missing gather cannot pass
 * paper       Rajbhandari et al. 2020, ZeRO, arXiv 1910.02054; Zhao et al. 2023, PyTorch FSDP, arXiv 2304.11277 */
#include "trainer/parallel/fsdp.h"

/* Goes on to the use that begins now; behind the last one a step, or an evaluation, begins. */
static mk_status next_use(mt_sharding *sh, int unit, mt_use use) {
  mt_fsdp *f = sh->fsdp;
  const mt_fsdp_uses *uses = &f->uses[sh->train];
  mt_fsdp_use planned = {.unit = MT_FSDP_NOWHERE};
  if (f->next.uses != uses || !mt_fsdp_walk_get(&f->next, &planned)) {
    f->next = f->ahead = mt_fsdp_walk_start(uses);
    mt_fsdp_walk_get(&f->next, &planned);
  }
  MK_CHECK(sh->ctx, planned.unit == unit && planned.use == use, MK_ERR_MISMATCH,
           "fsdp: use %lld of the list is of unit %d, but unit %d is needed", (long long)f->next.before, planned.unit,
           unit);
  f->use = planned;
  mt_fsdp_walk_on(&f->next);
  return MK_OK;
}

/* Gathers the running use and those behind it as far as they may be ahead of their turn, in the order of the list: a
 * unit that is still here from an earlier use lets the others wait. */
static mk_status gather_ahead(mt_sharding *sh) {
  mt_fsdp *f = sh->fsdp;
  int64_t forward = sh->cfg->fsdp_prefetch, backward = mt_config_prefetch_backward(sh->cfg);
  for (mt_fsdp_use u; mt_fsdp_walk_get(&f->ahead, &u); mt_fsdp_walk_on(&f->ahead)) {
    int64_t depth = u.use == MT_USE_BACKWARD ? backward : forward;
    if (f->ahead.before >= f->next.before + depth || (u.gathers && mt_fsdp_here(sh, u.unit))) return MK_OK;
    if (u.gathers) MK_TRY(sh->ctx, mt_fsdp_gather(sh, u.unit));
  }
  return MK_OK;
}

static mk_status before_use(mt_sharding *sh, int unit, mt_use use) {
  mk_context *ctx = sh->ctx;
  bool weights = unit > 0 || use == MT_USE_FORWARD; /* the embedding's gradient needs none: its gain was kept */
  if (weights) MK_TRY(ctx, next_use(sh, unit, use));
  MK_TRY(ctx, gather_ahead(sh));
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
  return sh->fsdp->use.releases ? mt_fsdp_release(sh, unit) : MK_OK;
}

static mk_status after_backward(mt_sharding *sh, int unit, bool last) {
  (void)last;
  if (unit > 0 && sh->fsdp->use.releases) /* the embedding may be on its way for the next microbatch */
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
    .mem_bytes = mt_fsdp_mem_bytes,
};
