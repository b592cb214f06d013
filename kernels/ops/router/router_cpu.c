/* Router, cpu: one pass over [T,E] each way, tokens split over threads, each row's loops vectorised. Top-k takes K
 * maxima over integer keys that order as the floats do, which beats a sort for K up to about E/4. O(T*E*K). */
#include "kernels/device/cpu/cpu_device.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/device/cpu/vector.h"
#include "kernels/ops/ids.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/router/router.h"
#include "kernels/ops/router/router_draw.h"

enum { PIECE_ELEMENTS = 8192, TAKEN = INT32_MIN };

static const uint32_t lowest_bits = 0x807fffffu; /* key of -inf, and of NaN */

/* exps[e] = exp(logit_e - max) for a row; returns their sum. */
MK_INLINE float exponentials(const float *logits, int64_t experts, float *exps, float *max_out) {
  float max = -INFINITY, sum = 0;
#pragma omp simd reduction(max : max)
  for (int64_t e = 0; e < experts; e++)
    max = logits[e] > max ? logits[e] : max;
#pragma omp simd reduction(+ : sum)
  for (int64_t e = 0; e < experts; e++) {
    exps[e] = mk_expf(logits[e] - max);
    sum += exps[e];
  }
  *max_out = max;
  return sum;
}

MK_INLINE void draw_scores(const mk_router_config *config, int64_t step, int64_t token, int64_t experts,
                           float *scores) {
  int64_t blocks = experts / MK_DRAW_EXPERTS;
#pragma omp simd
  for (int64_t b = 0; b < blocks; b++) {
    mk_rng_block draw = mk_router_draw(config->seed, config->layer, step, config->first_token + token, b);
    scores[b * 4 + 0] = mk_rng_unit(draw.word[0]);
    scores[b * 4 + 1] = mk_rng_unit(draw.word[1]);
    scores[b * 4 + 2] = mk_rng_unit(draw.word[2]);
    scores[b * 4 + 3] = mk_rng_unit(draw.word[3]);
  }
  mk_rng_block draw = mk_router_draw(config->seed, config->layer, step, config->first_token + token, blocks);
  for (int64_t e = blocks * MK_DRAW_EXPERTS; e < experts; e++)
    scores[e] = mk_rng_unit(draw.word[e % MK_DRAW_EXPERTS]);
}

/* Integers that order as the floats do (-0 = +0, NaN with -inf), so that maxima need no care for NaN. */
MK_INLINE int32_t order_key(float value) {
  float positive_zero = value + 0.0f;
  uint32_t bits;
  memcpy(&bits, &positive_zero, sizeof bits);
  bits ^= (uint32_t)((int32_t)bits >> 31) & 0x7fffffffu;
  return (int32_t)(value != value ? lowest_bits : bits);
}

/* K largest of values + bias, the lowest index first among equals. */
MK_INLINE void select_top_k(const float *values, const float *bias, int64_t experts, int64_t top_k, int32_t *idx) {
  int32_t keys[MK_MAX_EXPERTS];
  for (int64_t e = 0; e < experts; e++)
    keys[e] = order_key(bias != NULL ? values[e] + bias[e] : values[e]);
  for (int64_t k = 0; k < top_k; k++) {
    int32_t best = TAKEN, at = INT32_MAX;
#pragma omp simd reduction(max : best)
    for (int32_t e = 0; e < (int32_t)experts; e++)
      best = keys[e] > best ? keys[e] : best;
#pragma omp simd reduction(min : at)
    for (int32_t e = 0; e < (int32_t)experts; e++) {
      int32_t here = keys[e] == best ? e : INT32_MAX;
      at = here < at ? here : at;
    }
    idx[k] = at;
    keys[at] = TAKEN;
  }
}

MK_INLINE void weigh(const mk_router_config *config, const float *scores, const int32_t *idx, int64_t top_k, float *w) {
  float sum = 0;
  for (int64_t k = 0; k < top_k; k++)
    sum += scores[idx[k]];
  float divisor = config->normalize ? sum : 1.0f;
  for (int64_t k = 0; k < top_k; k++)
    w[k] = scores[idx[k]] / divisor * config->scale;
}

MK_INLINE void forward_token(const mk_router_fwd_args *a, int64_t token) {
  const mk_router_config *config = &a->config;
  int64_t experts = a->logits.dim[1], top_k = a->idx.dim[1];
  const float *logits = (const float *)a->logits.data + token * experts, *bias = a->bias.data;
  float *scores = (float *)a->scores.data + token * experts, max;
  int32_t *idx = (int32_t *)a->idx.data + token * top_k;
  bool random = config->routing == MK_ROUTING_RANDOM;
  float sum = exponentials(logits, experts, scores, &max);
  ((float *)a->lse.data)[token] = (float)((double)max + log((double)sum));
  if (random) {
    draw_scores(config, ((const mk_step_state *)a->state.data)->step, token, experts, scores);
  } else if (config->gating == MK_GATING_SOFTMAX) {
    for (int64_t e = 0; e < experts; e++)
      scores[e] /= sum;
  } else {
    for (int64_t e = 0; e < experts; e++)
      scores[e] = mk_sigmoidf(logits[e]) + (float)MK_SIGMOID_EPSILON;
  }
  if (config->routing == MK_ROUTING_LEARNED || random) {
    select_top_k(random || bias != NULL ? scores : logits, bias, experts, top_k, idx);
  } else if (config->routing == MK_ROUTING_UNIFORM) {
    for (int64_t k = 0; k < top_k; k++)
      idx[k] = (int32_t)((token * top_k + k) % experts);
  }
  weigh(config, scores, idx, top_k, (float *)a->weights.data + token * top_k);
}

MK_VECTOR static void forward_range(const void *args, int64_t first, int64_t count) {
  for (int64_t t = first; t < first + count; t++)
    forward_token(args, t);
}

mk_status mk_router_fwd_cpu(mk_stream *stream, const void *args) {
  const mk_router_fwd_args *a = args;
  mk_context *ctx = stream->dev->ctx;
  int64_t tokens = a->logits.dim[0], experts = a->logits.dim[1];
  const float *lse = a->lse.data;
  double z = 0;
  MK_TRY(ctx, mk_cpu_check_float(stream, MK_OP_router_fwd, a->logits.dtype));
  if (a->config.routing == MK_ROUTING_REPLAY) {
    MK_TRY(ctx, mk_ids_check(stream, "router_fwd", "idx", &a->idx, 0, experts));
  }
  mk_cpu_ranges(tokens, mk_cpu_grain_rows(PIECE_ELEMENTS, experts), forward_range, a);
  for (int64_t t = 0; t < tokens; t++)
    z += (double)lse[t] * (double)lse[t];
  ((double *)a->sums.data)[MK_SUM_RZ] += z / ((const mk_step_state *)a->state.data)->loss_divisor;
  return MK_OK;
}

/* One token of the backward: the factors of its row. */
typedef struct token_grad {
  float dot; /* sum of the chosen scores' gradients times scores */
  float sum; /* sum of the chosen scores */
} token_grad;

/* Gradient of a chosen score from the expert weights: scale and quotient rule of the L1 norm. */
MK_INLINE float weight_gradient(const mk_router_config *config, const token_grad *g, float dweight) {
  return config->scale * (config->normalize ? (dweight - g->dot / g->sum) / g->sum : dweight);
}

MK_INLINE token_grad weight_sums(const float *scores, const int32_t *idx, const float *dweights, int64_t top_k) {
  token_grad g = {0, 0};
  for (int64_t k = 0; k < top_k; k++) {
    g.sum += scores[idx[k]];
    g.dot += scores[idx[k]] * dweights[k];
  }
  return g;
}

/* dlogit = s (ds - <ds, s>) + z s, where ds is lb_coef plus, at the chosen experts, the weights' gradient. */
MK_INLINE void softmax_row(const mk_router_bwd_args *a, int64_t token, const float *coef, float z, float *dlogits) {
  int64_t experts = a->scores.dim[1], top_k = a->idx.dim[1];
  const float *scores = (const float *)a->scores.data + token * experts;
  const int32_t *idx = (const int32_t *)a->idx.data + token * top_k;
  const float *dweights = (const float *)a->dweights.data + token * top_k;
  token_grad g = weight_sums(scores, idx, dweights, top_k);
  float dot = 0;
#pragma omp simd reduction(+ : dot)
  for (int64_t e = 0; e < experts; e++)
    dot += coef[e] * scores[e];
  for (int64_t k = 0; k < top_k; k++)
    dot += weight_gradient(&a->config, &g, dweights[k]) * scores[idx[k]];
#pragma omp simd
  for (int64_t e = 0; e < experts; e++)
    dlogits[e] = scores[e] * (coef[e] - dot + z);
  for (int64_t k = 0; k < top_k; k++) {
    dlogits[idx[k]] += scores[idx[k]] * weight_gradient(&a->config, &g, dweights[k]);
  }
}

/* dlogit = sigmoid' * ds + z softmax; the load-balancing part of ds goes through score / row sum. */
MK_INLINE void sigmoid_row(const mk_router_bwd_args *a, int64_t token, const float *coef, float z, float *dlogits) {
  int64_t experts = a->scores.dim[1], top_k = a->idx.dim[1];
  const float *scores = (const float *)a->scores.data + token * experts;
  const float *logits = (const float *)a->logits.data + token * experts, lse = ((const float *)a->lse.data)[token];
  const int32_t *idx = (const int32_t *)a->idx.data + token * top_k;
  const float *dweights = (const float *)a->dweights.data + token * top_k;
  token_grad g = weight_sums(scores, idx, dweights, top_k);
  float dot = 0, sum = 0;
#pragma omp simd reduction(+ : dot, sum)
  for (int64_t e = 0; e < experts; e++) {
    dot += coef[e] * scores[e];
    sum += scores[e];
  }
  float mean = dot / sum;
#pragma omp simd
  for (int64_t e = 0; e < experts; e++) {
    float sigmoid = scores[e] - (float)MK_SIGMOID_EPSILON;
    float softmax = z != 0.0f ? z * mk_expf(logits[e] - lse) : 0.0f;
    dlogits[e] = (coef[e] - mean) / sum * sigmoid * (1.0f - sigmoid) + softmax;
  }
  for (int64_t k = 0; k < top_k; k++) {
    float sigmoid = scores[idx[k]] - (float)MK_SIGMOID_EPSILON;
    dlogits[idx[k]] += weight_gradient(&a->config, &g, dweights[k]) * sigmoid * (1.0f - sigmoid);
  }
}

MK_INLINE void backward_token(const mk_router_bwd_args *a, int64_t token) {
  int64_t experts = a->scores.dim[1], group = token / (a->scores.dim[0] / a->lb_coef.dim[0]);
  const float *logits = (const float *)a->logits.data + token * experts, lse = ((const float *)a->lse.data)[token];
  const float *coef = (const float *)a->lb_coef.data + group * experts;
  float *dlogits = (float *)a->dlogits.data + token * experts;
  double divisor = ((const mk_step_state *)a->state.data)->loss_divisor;
  float z = a->rz_weight != 0.0f ? (float)(2.0 * (double)a->rz_weight * (double)lse / divisor) : 0.0f;
  if (a->config.routing == MK_ROUTING_RANDOM) {
#pragma omp simd
    for (int64_t e = 0; e < experts; e++)
      dlogits[e] = z != 0.0f ? z * mk_expf(logits[e] - lse) : 0.0f;
  } else if (a->config.gating == MK_GATING_SOFTMAX) {
    softmax_row(a, token, coef, z, dlogits);
  } else {
    sigmoid_row(a, token, coef, z, dlogits);
  }
}

MK_VECTOR static void backward_range(const void *args, int64_t first, int64_t count) {
  for (int64_t t = first; t < first + count; t++)
    backward_token(args, t);
}

mk_status mk_router_bwd_cpu(mk_stream *stream, const void *args) {
  const mk_router_bwd_args *a = args;
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_router_bwd, a->scores.dtype));
  mk_cpu_ranges(a->scores.dim[0], mk_cpu_grain_rows(PIECE_ELEMENTS, a->scores.dim[1]), backward_range, a);
  return MK_OK;
}
