/* Router, reference: one token at a time, FP64 arithmetic, any dtype. O(T*E*K). */
#include <math.h>

#include "kernels/ops/ids.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/ref_access.h"
#include "kernels/ops/router/router.h"
#include "kernels/ops/router/router_draw.h"

static double score(const mk_router_fwd_args *a, int64_t token, int64_t expert, double lse, int64_t step) {
  const mk_router_config *config = &a->config;
  if (config->routing == MK_ROUTING_RANDOM) {
    mk_rng_block draw =
        mk_router_draw(config->seed, config->layer, step, config->first_token + token, expert / MK_DRAW_EXPERTS);
    return mk_rng_unit(draw.word[expert % MK_DRAW_EXPERTS]);
  }
  double logit = mk_ref_get(&a->logits, token * a->logits.dim[1] + expert);
  if (config->gating == MK_GATING_SOFTMAX) return exp(logit - lse);
  return 1.0 / (1.0 + exp(-logit)) + MK_SIGMOID_EPSILON;
}

/* What top-k compares for expert element `i` of [T,E]; NaN becomes the lowest value. */
static double selection_key(const mk_router_fwd_args *a, int64_t i) {
  bool biased = mk_tensor_present(&a->bias);
  const mk_tensor *values = a->config.routing == MK_ROUTING_RANDOM || biased ? &a->scores : &a->logits;
  double key = mk_ref_get(values, i);
  if (biased) key += mk_ref_get(&a->bias, i % a->logits.dim[1]);
  return isnan(key) ? -INFINITY : key;
}

static void select_top_k(const mk_router_fwd_args *a, int64_t token) {
  int64_t experts = a->logits.dim[1], top_k = a->idx.dim[1];
  bool taken[MK_MAX_EXPERTS] = {false};
  for (int64_t k = 0; k < top_k; k++) {
    int64_t best = -1;
    for (int64_t e = 0; e < experts; e++) {
      if (taken[e]) continue;
      if (best < 0 || selection_key(a, token * experts + e) > selection_key(a, token * experts + best)) best = e;
    }
    taken[best] = true;
    mk_ref_set(&a->idx, token * top_k + k, (double)best);
  }
}

static void weigh(const mk_router_fwd_args *a, int64_t token) {
  int64_t experts = a->logits.dim[1], top_k = a->idx.dim[1];
  double sum = 0;
  for (int64_t k = 0; k < top_k; k++) {
    sum += mk_ref_get(&a->scores, token * experts + (int64_t)mk_ref_get(&a->idx, token * top_k + k));
  }
  for (int64_t k = 0; k < top_k; k++) {
    double weight = mk_ref_get(&a->scores, token * experts + (int64_t)mk_ref_get(&a->idx, token * top_k + k));
    if (a->config.normalize) weight /= sum;
    mk_ref_set(&a->weights, token * top_k + k, weight * (double)a->config.scale);
  }
}

mk_status mk_router_fwd_ref(mk_stream *stream, const void *args) {
  const mk_router_fwd_args *a = args;
  const mk_step_state *state = a->state.data;
  int64_t tokens = a->logits.dim[0], experts = a->logits.dim[1], top_k = a->idx.dim[1];
  double z = 0;
  if (a->config.routing == MK_ROUTING_REPLAY) {
    MK_TRY(stream->dev->ctx, mk_ids_check(stream, "router_fwd", "idx", &a->idx, 0, experts));
  }
  for (int64_t t = 0; t < tokens; t++) {
    double lse = mk_ref_log_sum_exp(&a->logits, t * experts, experts);
    mk_ref_set(&a->lse, t, lse);
    z += mk_ref_get(&a->lse, t) * mk_ref_get(&a->lse, t);
    for (int64_t e = 0; e < experts; e++)
      mk_ref_set(&a->scores, t * experts + e, score(a, t, e, lse, state->step));
    for (int64_t k = 0; k < top_k; k++) {
      int64_t route = t * top_k + k;
      if (a->config.routing == MK_ROUTING_UNIFORM) mk_ref_set(&a->idx, route, (double)(route % experts));
    }
    if (a->config.routing == MK_ROUTING_LEARNED || a->config.routing == MK_ROUTING_RANDOM) select_top_k(a, t);
    weigh(a, t);
  }
  ((double *)a->sums.data)[MK_SUM_RZ] += z / state->loss_divisor;
  return MK_OK;
}

/* ds += gradients of the expert weights: scale, quotient rule of the L1 norm, gather. */
static void add_weight_gradient(const mk_router_bwd_args *a, int64_t token, double *ds) {
  int64_t experts = a->logits.dim[1], top_k = a->idx.dim[1];
  double sum = 0, dot = 0;
  for (int64_t k = 0; k < top_k; k++) {
    int64_t r = token * top_k + k;
    double s = mk_ref_get(&a->scores, token * experts + (int64_t)mk_ref_get(&a->idx, r));
    sum += s;
    dot += s * mk_ref_get(&a->dweights, r);
  }
  for (int64_t k = 0; k < top_k; k++) {
    int64_t r = token * top_k + k;
    double dw = mk_ref_get(&a->dweights, r);
    if (a->config.normalize) dw = (dw - dot / sum) / sum;
    ds[(int64_t)mk_ref_get(&a->idx, r)] += dw * (double)a->config.scale;
  }
}

/* ds += gradient of the load-balancing loss, for sigmoid through scores / row sum. */
static void add_balance_gradient(const mk_router_bwd_args *a, int64_t token, double *ds) {
  int64_t experts = a->logits.dim[1], group = token / (a->logits.dim[0] / a->lb_coef.dim[0]);
  double sum = 0, dot = 0;
  for (int64_t e = 0; e < experts; e++) {
    double s = mk_ref_get(&a->scores, token * experts + e);
    sum += s;
    dot += s * mk_ref_get(&a->lb_coef, group * experts + e);
  }
  for (int64_t e = 0; e < experts; e++) {
    double coef = mk_ref_get(&a->lb_coef, group * experts + e);
    ds[e] += a->config.gating == MK_GATING_SIGMOID ? (coef - dot / sum) / sum : coef;
  }
}

mk_status mk_router_bwd_ref(mk_stream *stream, const void *args) {
  const mk_router_bwd_args *a = args;
  const mk_step_state *state = a->state.data;
  int64_t tokens = a->logits.dim[0], experts = a->logits.dim[1];
  (void)stream;
  for (int64_t t = 0; t < tokens; t++) {
    double ds[MK_MAX_EXPERTS] = {0}, dot = 0, lse = mk_ref_get(&a->lse, t);
    double z = 2.0 * (double)a->rz_weight * lse / state->loss_divisor;
    bool learned = a->config.routing != MK_ROUTING_RANDOM;
    if (learned) {
      add_weight_gradient(a, t, ds);
      add_balance_gradient(a, t, ds);
    }
    for (int64_t e = 0; e < experts; e++)
      dot += ds[e] * mk_ref_get(&a->scores, t * experts + e);
    for (int64_t e = 0; e < experts; e++) {
      double s = mk_ref_get(&a->scores, t * experts + e), sigmoid = s - MK_SIGMOID_EPSILON, d = 0;
      if (learned) d = a->config.gating == MK_GATING_SOFTMAX ? s * (ds[e] - dot) : ds[e] * sigmoid * (1.0 - sigmoid);
      if (a->rz_weight != 0) d += z * exp(mk_ref_get(&a->logits, t * experts + e) - lse);
      mk_ref_set(&a->dlogits, t * experts + e, d);
    }
  }
  return MK_OK;
}
