/* Gathering and reducing one unit: see fsdp.h. Places are handed from stream to stream by two events each. */
#include "kernels/base/heap.h"
#include "trainer/parallel/fsdp.h"

/* Dense or expert parameters of the unit exist and are cut. */
static bool cut(const mt_sharding *sh, int kind, int unit) {
  return sh->params->store[kind].ranks > 1 && mt_params_unit_count(sh->params, kind, unit) > 0;
}

/* ---- places ---- */

static mk_status create_places(mt_sharding *sh, int ring, mt_fsdp_places *p) {
  mk_context *ctx = sh->ctx;
  int units = sh->params->units;
  p->ring = ring > 0;
  MK_TRY(ctx, mk_heap_array(ctx, (size_t)units, sizeof *p->at, &p->at));
  for (int unit = 0; unit < units; unit++)
    p->at[unit] = MT_FSDP_NOWHERE;
  int count = ring > 0 ? ring : units;
  MK_TRY(ctx, mk_heap_array(ctx, (size_t)count, sizeof *p->place, &p->place));
  p->count = count;
  for (int i = 0; i < count; i++) {
    MK_TRY(ctx, mk_event_create(sh->compute->dev, &p->place[i].filled));
    MK_TRY(ctx, mk_event_create(sh->compute->dev, &p->place[i].freed));
  }
  return MK_OK;
}

static void destroy_places(mk_context *ctx, mt_fsdp_places *p) {
  for (int i = 0; i < p->count; i++) {
    mk_event_destroy(p->place[i].filled);
    mk_event_destroy(p->place[i].freed);
  }
  mk_heap_free(ctx, p->place);
  mk_heap_free(ctx, p->at);
}

mk_status mt_fsdp_init(mt_sharding *sh) {
  MK_TRY(sh->ctx, mk_heap_alloc(sh->ctx, sizeof *sh->fsdp, &sh->fsdp));
  *sh->fsdp = (mt_fsdp){0};
  for (int kind = 0; kind < 2; kind++) {
    const mt_store *s = &sh->params->store[kind];
    MK_TRY(sh->ctx, create_places(sh, s->w_ring, &sh->fsdp->w[kind]));
    MK_TRY(sh->ctx, create_places(sh, s->grad_ring, &sh->fsdp->grad[kind]));
  }
  MK_TRY(sh->ctx, mt_fsdp_uses_make(sh->ctx, sh->cfg, sh->pp->evaluation_list, false, &sh->fsdp->uses[false]));
  return mt_fsdp_uses_make(sh->ctx, sh->cfg, sh->pp->step_list, true, &sh->fsdp->uses[true]);
}

void mt_fsdp_fini(mt_sharding *sh) {
  if (sh->fsdp == NULL) return;
  for (int i = 0; i < 2; i++)
    mt_fsdp_uses_fini(sh->ctx, &sh->fsdp->uses[i]);
  for (int kind = 0; kind < 2; kind++) {
    destroy_places(sh->ctx, &sh->fsdp->grad[kind]);
    destroy_places(sh->ctx, &sh->fsdp->w[kind]);
  }
  mk_heap_free(sh->ctx, sh->fsdp);
}

/* Takes the next place for a unit. A ring is long enough for what is gathered ahead, so its next place is free. */
static mt_fsdp_place *claim(mt_fsdp_places *p, int unit) {
  p->at[unit] = p->ring ? (int)(p->claimed++ % p->count) : unit;
  return &p->place[p->at[unit]];
}

/* Every byte 0xff is NaN in all floating-point types: whoever reads a place that is not filled again shows it. */
static mk_status poison(const mt_sharding *sh, mk_stream *stream, const mk_tensor *memory) {
  return sh->cfg->guard ? mk_fill(stream, memory, 0xff) : MK_OK;
}

/* ---- weights ---- */

static mk_status gather_kind(mt_sharding *sh, int kind, int unit) {
  mk_context *ctx = sh->ctx;
  mt_fsdp_places *p = &sh->fsdp->w[kind];
  if (!cut(sh, kind, unit) || p->at[unit] != MT_FSDP_NOWHERE) return MK_OK;
  const mt_fsdp_place *place = claim(p, unit);
  mk_tensor whole = mt_params_unit_memory(sh->params, kind, unit, p->at[unit], false);
  mk_tensor own = mt_params_own_w(sh->params, kind, unit);
  MK_TRY(ctx, mk_stream_wait(sh->comm, place->freed));
  MK_TRY(ctx, mt_comm_all_gather(sh->mesh->shard[kind], &own, &whole, sh->comm));
  return mk_event_record(place->filled, sh->comm);
}

mk_status mt_fsdp_gather(mt_sharding *sh, int unit) {
  MK_TRY(sh->ctx, gather_kind(sh, 0, unit));
  return gather_kind(sh, 1, unit);
}

bool mt_fsdp_here(const mt_sharding *sh, int unit) {
  return sh->fsdp->w[0].at[unit] != MT_FSDP_NOWHERE || sh->fsdp->w[1].at[unit] != MT_FSDP_NOWHERE;
}

mk_status mt_fsdp_wait(mt_sharding *sh, int unit) {
  for (int kind = 0; kind < 2; kind++) {
    const mt_fsdp_places *p = &sh->fsdp->w[kind];
    if (!cut(sh, kind, unit)) continue;
    mk_tensor whole = mt_params_unit_memory(sh->params, kind, unit, p->at[unit], false);
    MK_TRY(sh->ctx, mk_stream_wait(sh->compute, p->place[p->at[unit]].filled));
    mt_params_bind(sh->params, kind, unit, &whole, false);
  }
  return MK_OK;
}

mk_status mt_fsdp_release(mt_sharding *sh, int unit) {
  for (int kind = 0; kind < 2; kind++) {
    mt_fsdp_places *p = &sh->fsdp->w[kind];
    if (!cut(sh, kind, unit) || p->at[unit] == MT_FSDP_NOWHERE) continue;
    mk_tensor whole = mt_params_unit_memory(sh->params, kind, unit, p->at[unit], false);
    mt_params_bind(sh->params, kind, unit, NULL, false);
    MK_TRY(sh->ctx, poison(sh, sh->compute, &whole));
    MK_TRY(sh->ctx, mk_event_record(p->place[p->at[unit]].freed, sh->compute));
    p->at[unit] = MT_FSDP_NOWHERE;
  }
  return MK_OK;
}

/* ---- gradients ---- */

/* GEMM weight gradients are overwritten by the backward pass; the others are added to. */
static mk_status clear_added(mt_sharding *sh, int kind, int unit) {
  for (int role = 0; role < MT_PARAM_ROLE_COUNT; role++) {
    const mt_param *p = mt_params_find(sh->params, unit, (mt_param_role)role);
    if (p == NULL || p->expert != (kind == 1) || p->overwritten) continue;
    MK_TRY(sh->ctx, mk_fill(sh->compute, &p->grad, 0));
  }
  return MK_OK;
}

/* Lets the unit's gradients point to a place of the ring that `first_user` may write. */
static mk_status grad_place(mt_sharding *sh, int kind, int unit, mk_stream *first_user, mk_tensor *whole) {
  mt_fsdp_places *p = &sh->fsdp->grad[kind];
  const mt_fsdp_place *place = claim(p, unit);
  *whole = mt_params_unit_memory(sh->params, kind, unit, p->at[unit], true);
  mt_params_bind(sh->params, kind, unit, whole, true);
  return mk_stream_wait(first_user, place->freed);
}

mk_status mt_fsdp_grad_begin(mt_sharding *sh, int unit) {
  for (int kind = 0; kind < 2; kind++) {
    mk_tensor whole;
    if (!cut(sh, kind, unit) || !sh->fsdp->grad[kind].ring) continue;
    MK_TRY(sh->ctx, grad_place(sh, kind, unit, sh->compute, &whole));
    MK_TRY(sh->ctx, clear_added(sh, kind, unit));
  }
  return MK_OK;
}

/* Sum over the ranks of a copy into the own shard. Earlier microbatches join through the own slice: what this rank
 * sends there is its part of the sum, and every slice has one owner. */
static mk_status scatter(mt_sharding *sh, int kind, int unit, const mk_tensor *whole) {
  mk_tensor own = mt_params_own_grad(sh->params, kind, unit);
  if (sh->fsdp->grad[kind].ring && !sh->first) {
    mk_tensor mine = mt_params_own_slice(sh->params, kind, unit, whole);
    MK_TRY(sh->ctx, mk_add(sh->comm, &(mk_add_args){.a = mine, .b = own, .y = mine}));
  }
  return mt_comm_reduce_scatter(sh->mesh->shard[kind], whole, &own, MT_SUM, sh->comm);
}

static mk_status leave(mt_sharding *sh, int kind, int unit, mk_stream *last_user, const mk_tensor *whole) {
  mt_fsdp_places *p = &sh->fsdp->grad[kind];
  mt_params_bind(sh->params, kind, unit, NULL, true);
  MK_TRY(sh->ctx, poison(sh, last_user, whole));
  MK_TRY(sh->ctx, mk_event_record(p->place[p->at[unit]].freed, last_user));
  p->at[unit] = MT_FSDP_NOWHERE;
  return MK_OK;
}

static mk_status reduce_cut(mt_sharding *sh, int kind, int unit) {
  mk_context *ctx = sh->ctx;
  const mt_fsdp_places *p = &sh->fsdp->grad[kind];
  int at = p->ring ? p->at[unit] : unit;
  if (!p->ring && !sh->last) return MK_OK;
  mk_tensor whole = mt_params_unit_memory(sh->params, kind, unit, at, true);
  MK_TRY(ctx, mt_stream_join(ctx, p->place[at].filled, sh->compute, sh->comm));
  MK_TRY(ctx, scatter(sh, kind, unit, &whole));
  return p->ring ? leave(sh, kind, unit, sh->comm, &whole) : MK_OK;
}

/* Hybrid: the same shard of every copy; the whole unit where one rank holds a copy. */
static mk_status reduce_copies(mt_sharding *sh, int kind, int unit) {
  bool is_cut = sh->params->store[kind].ranks > 1;
  mk_tensor own =
      is_cut ? mt_params_own_grad(sh->params, kind, unit) : mt_params_unit_memory(sh->params, kind, unit, 0, true);
  if (!is_cut) MK_TRY(sh->ctx, mt_stream_join(sh->ctx, sh->ready, sh->compute, sh->comm));
  return mt_comm_all_reduce(sh->mesh->copies[kind], &own, &own, MT_SUM, sh->comm);
}

mk_status mt_fsdp_grad_reduce(mt_sharding *sh, int unit) {
  for (int kind = 0; kind < 2; kind++) {
    if (mt_params_unit_count(sh->params, kind, unit) == 0) continue;
    if (cut(sh, kind, unit)) MK_TRY(sh->ctx, reduce_cut(sh, kind, unit));
    if (sh->last && sh->mesh->plan.copies > 1) MK_TRY(sh->ctx, reduce_copies(sh, kind, unit));
  }
  return MK_OK;
}

mk_status mt_fsdp_grad_show(mt_sharding *sh, int unit) {
  mk_context *ctx = sh->ctx;
  for (int kind = 0; kind < 2; kind++) {
    mk_tensor whole, own;
    if (!cut(sh, kind, unit)) continue;
    if (sh->fsdp->grad[kind].ring) {
      MK_TRY(ctx, grad_place(sh, kind, unit, sh->comm, &whole));
    } else {
      whole = mt_params_unit_memory(sh->params, kind, unit, 0, true);
    }
    own = mt_params_own_grad(sh->params, kind, unit);
    MK_TRY(ctx, mt_comm_all_gather(sh->mesh->shard[kind], &own, &whole, sh->comm));
  }
  return mt_stream_join(ctx, sh->reduced, sh->comm, sh->compute);
}

mk_status mt_fsdp_grad_hide(mt_sharding *sh, int unit) {
  for (int kind = 0; kind < 2; kind++) {
    const mt_fsdp_places *p = &sh->fsdp->grad[kind];
    if (!cut(sh, kind, unit) || !p->ring) continue;
    mk_tensor whole = mt_params_unit_memory(sh->params, kind, unit, p->at[unit], true);
    MK_TRY(sh->ctx, leave(sh, kind, unit, sh->compute, &whole));
  }
  return MK_OK;
}
