/* The router of a MoE layer: FP32 logits, scores, top-k, weights, counts; statistics for the balance loss.
 * Backward joins the gradients of weights, balance loss and z-loss (Olmo-core 3.0.0 olmo_core/nn/moe/v2/router.py). */
#include "trainer/model/recompute.h"

static mk_router_config config_of(const mt_model *m, const mt_pass *p, const mt_layer *l) {
  const mt_config *c = m->cfg;
  return (mk_router_config){.gating = c->gating,
                            .routing = c->routing,
                            .normalize = c->norm_topk,
                            .scale = c->weight_scale == MT_WEIGHT_SCALE_K ? (float)c->top_k : 1.0f,
                            .seed = (uint64_t)c->seed,
                            .layer = (uint32_t)l->unit,
                            .first_token = p->first_token};
}

/* Slice of a [moe,groups,E] tensor for one layer, as [groups,E]. */
static mk_tensor layer_slice(const mk_tensor *t, int moe) {
  mk_tensor slice = mk_tensor_rows(t, moe, 1);
  return mk_tensor_as_2d(&slice, t->dim[1], t->dim[2]);
}

/* Tests: the layer's chosen experts from the host before the router runs (replay), or to the host after it. */
static mk_status routes_copy(const mt_model *m, const mt_pass *p, const mt_layer *l, bool before) {
  bool give = m->cfg->routing == MK_ROUTING_REPLAY;
  const mk_tensor *idx = &l->mlp.ep.idx;
  if (p->routes == NULL || give != before || (!give && p->replay)) return MK_OK;
  int32_t *host = p->routes + (l->unit - 1 - m->cfg->dense_layers) * mk_tensor_count(idx);
  return give ? mk_copy_h2d(p->stream, idx, host) : mk_copy_d2h(p->stream, host, idx);
}

/* logits [T,E], scores [T,E] and lse [T]. Where the routes are kept they are given, and the weights that come with them
 * go where nobody reads them: no draw and no top-k is repeated. The backward pass of random routing reads no scores. */
static mk_status gate_forward(mt_model *m, const mt_pass *p, mt_layer *l, const mk_tensor *x) {
  mt_mlp *a = &l->mlp;
  bool given = !mt_makes(p, MT_PART_ROUTES);
  mk_router_config config = config_of(m, p, l);
  if (given) config.routing = MK_ROUTING_REPLAY;
  if (!given) MK_TRY(m->ctx, routes_copy(m, p, l, true));
  MK_TRY(m->ctx, mt_linear_forward(m, p, l->unit, MT_PARAM_ROUTER, x, &a->logits));
  MK_TRY(m->ctx, mk_router_fwd(p->stream, &(mk_router_fwd_args){.logits = a->logits,
                                                                .state = m->state,
                                                                .scores = a->scores,
                                                                .idx = a->ep.idx,
                                                                .weights = given ? m->scratch.dweights : a->ep.weights,
                                                                .lse = a->lse,
                                                                .sums = mt_pass_sums(m, p),
                                                                .config = config}));
  return given ? MK_OK : routes_copy(m, p, l, false);
}

mk_status mt_router_forward(mt_model *m, const mt_pass *p, mt_layer *l, const mk_tensor *x) {
  mk_context *ctx = m->ctx;
  mt_mlp *a = &l->mlp;
  mk_tensor none = {0};
  if (mt_makes(p, MT_PART_SCORES)) MK_TRY(ctx, gate_forward(m, p, l, x));
  if (!mt_makes(p, MT_PART_ROUTES)) return MK_OK;
  bool counted = p->train && !p->replay;
  mk_tensor step_counts = counted ? mk_tensor_slice(&m->step_counts, l->moe * m->cfg->experts, m->cfg->experts) : none;
  mk_tensor counts = layer_slice(&p->set->counts, l->moe_in_chunk);
  MK_TRY(ctx, mk_route_count(p->stream, &(mk_route_count_args){.idx = a->ep.idx,
                                                               .counts = counts,
                                                               .position = a->ep.position,
                                                               .total = a->ep.total,
                                                               .step_counts = step_counts}));
  if (!counted) return MK_OK;
  return mk_load_balance_stats(
      p->stream, &(mk_load_balance_stats_args){.scores = a->scores,
                                               .score_sum = layer_slice(&p->set->score_sum, l->moe_in_chunk),
                                               .renormalize = m->cfg->gating == MK_GATING_SIGMOID});
}

/* In: scratch.dweights. Out: dx [T,D] = (add ? dx : 0) + router's part. */
mk_status mt_router_backward(mt_model *m, const mt_pass *p, mt_layer *l, const mk_tensor *x, mk_tensor *dx, bool add) {
  mt_mlp *a = &l->mlp;
  mk_tensor *dlogits = &m->scratch.dlogits;
  MK_TRY(m->ctx, mk_router_bwd(p->stream, &(mk_router_bwd_args){.logits = a->logits,
                                                                .scores = a->scores,
                                                                .idx = a->ep.idx,
                                                                .weights = a->ep.weights,
                                                                .lse = a->lse,
                                                                .dweights = m->scratch.dweights,
                                                                .lb_coef = layer_slice(&m->lb_coef, l->moe_in_chunk),
                                                                .state = m->state,
                                                                .dlogits = *dlogits,
                                                                .rz_weight = (float)m->cfg->router_z_weight,
                                                                .config = config_of(m, p, l)}));
  return mt_linear_backward(m, p, l->unit, MT_PARAM_ROUTER, x, dlogits, add ? dx : NULL, dx);
}
