/* Units cut over ranks: how large, where, and whose. See mt_store in params.h. */
#include "trainer/model/params.h"

#include "kernels/base/min_max.h"

/* Moves each unit up so that its size is a multiple of ranks x MT_PARAM_ALIGN; parameters follow their unit. */
static void pad_units(mt_params *params, int kind, int ranks) {
  int64_t step = (int64_t)ranks * MT_PARAM_ALIGN, first = 0, *at = params->unit_first[kind];
  int item = 0;
  for (int unit = 0; unit < params->units; unit++) {
    int64_t count = (mt_params_unit_count(params, kind, unit) + step - 1) / step * step, moved = first - at[unit];
    for (; item < params->count && params->item[item].unit == unit; item++) {
      if (params->item[item].expert == (kind == 1)) params->item[item].offset += moved;
    }
    at[unit] = first;
    first += count;
    params->store[kind].largest = mk_max(params->store[kind].largest, count);
  }
  at[params->units] = first;
  params->flat_count[kind] = first;
}

/* What of the parameter lies in the own piece of its unit. */
static void own_part(const mt_params *params, mt_param *p) {
  const mt_store *s = &params->store[p->expert];
  int64_t piece = mt_params_unit_count(params, p->expert, p->unit) / s->ranks;
  int64_t begin = params->unit_first[p->expert][p->unit] + s->rank * piece, end = begin + piece;
  int64_t first = p->offset > begin ? p->offset : begin;
  int64_t last = p->offset + p->count < end ? p->offset + p->count : end;
  p->replicated = false;
  p->shard_first = first < last ? first - p->offset : 0;
  p->shard_count = first < last ? last - first : 0;
}

void mt_params_cut(mt_params *params, int kind, const mt_store *store) {
  params->store[kind] = *store;
  if (store->ranks == 1) return;
  pad_units(params, kind, store->ranks);
  mt_store *s = &params->store[kind];
  if (s->w_ring * s->largest >= params->flat_count[kind]) s->w_ring = 0;
  for (int i = 0; i < params->count; i++) {
    if (params->item[i].expert == (kind == 1)) own_part(params, &params->item[i]);
  }
}

mk_tensor mt_params_unit_memory(const mt_params *params, int kind, int unit, int place, bool gradient) {
  const mt_store *s = &params->store[kind];
  bool ring = gradient ? s->grad_ring > 0 : s->w_ring > 0;
  int64_t first = ring ? place * s->largest : params->unit_first[kind][unit];
  return mk_tensor_slice(gradient ? &params->flat_grad[kind] : &params->flat_w[kind], first,
                         mt_params_unit_count(params, kind, unit));
}

mk_tensor mt_params_own_slice(const mt_params *params, int kind, int unit, const mk_tensor *whole) {
  const mt_store *s = &params->store[kind];
  int64_t piece = mt_params_unit_count(params, kind, unit) / s->ranks;
  return mk_tensor_slice(whole, s->rank * piece, piece);
}

static mk_tensor shard_of(const mt_params *params, int kind, int unit, const mk_tensor *shards) {
  int ranks = params->store[kind].ranks;
  return mk_tensor_slice(shards, params->unit_first[kind][unit] / ranks,
                         mt_params_unit_count(params, kind, unit) / ranks);
}

mk_tensor mt_params_own_w(const mt_params *params, int kind, int unit) {
  return shard_of(params, kind, unit, &params->store[kind].own_w);
}

mk_tensor mt_params_own_grad(const mt_params *params, int kind, int unit) {
  if (params->store[kind].grad_ring > 0) return shard_of(params, kind, unit, &params->store[kind].own_grad);
  mk_tensor whole = mt_params_unit_memory(params, kind, unit, 0, true);
  return mt_params_own_slice(params, kind, unit, &whole);
}

static mk_tensor view_in(const mt_params *params, const mt_param *p, const mk_tensor *memory) {
  if (memory == NULL) return (mk_tensor){0};
  return mt_param_view(p, memory, p->offset - params->unit_first[p->expert][p->unit]);
}

void mt_params_bind(mt_params *params, int kind, int unit, const mk_tensor *memory, bool gradient) {
  for (int role = 0; role < MT_PARAM_ROLE_COUNT; role++) {
    mt_param *p = mt_params_find(params, unit, (mt_param_role)role);
    if (p == NULL || p->expert != (kind == 1)) continue;
    *(gradient ? &p->grad : &p->w) = view_in(params, p, memory);
  }
}

static int64_t whole_count(const mt_params *params, int kind, int ring) {
  return ring > 0 ? ring * params->store[kind].largest : params->flat_count[kind];
}

mt_store_counts mt_params_counts(const mt_params *params, int kind) {
  const mt_store *s = &params->store[kind];
  int64_t shards = s->ranks > 1 ? params->flat_count[kind] / s->ranks : 0;
  return (mt_store_counts){.w = whole_count(params, kind, s->w_ring),
                           .grad = whole_count(params, kind, s->grad_ring),
                           .own_w = shards,
                           .own_grad = s->grad_ring > 0 ? shards : 0,
                           .optim = shards};
}
