/* Router: scores, top-k and weights from FP32 logits; backward joins the gradients of the expert weights, the
 * load-balancing loss and the router z-loss in one pass over [T,E].
 * Order of the forward (Olmo-core 3.0.0, olmo_core/nn/moe/v2/router.py): lse_t = logsumexp(logits_t); scores = softmax
 * over all E, or sigmoid + 1e-7; mode random: scores <- U[0,1) (router_draw.h), for weights and losses alike, and the
 * only gradient that reaches the logits is the z-loss's; top-k of scores + bias, lowest index first on ties, K
 * distinct; mode uniform: idx = (t*K + k) mod E with learned scores; mode replay: idx is given; weights = scores at
 * idx; normalize: w /= sum_k w (no epsilon); w *= scale. Learned scores without a bias are ordered as the logits are,
 * so the selection reads the logits: rounding of the scores then cannot make a tie. NaN ranks lowest, so ids are legal
 * and distinct whatever the logits; the non-finite row shows in lse and so in the sums. sums[MK_SUM_RZ] += sum_t
 * lse_t^2 / divisor, added in token order in FP64, independent of threads. */
#ifndef KERNELS_OPS_ROUTER_ROUTER_H
#define KERNELS_OPS_ROUTER_ROUTER_H

#include "kernels/device/device.h"
#include "kernels/ops/step_state/step_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits of every op that takes experts: their tables live on the stack. */
enum { MK_MAX_EXPERTS = 1024, MK_MAX_TOP_K = 64 };

/* Added to sigmoid scores so that a row of them never sums to 0 (Olmo-core 3.0.0, sigmoid_stability_epsilon). */
#define MK_SIGMOID_EPSILON 1e-7

typedef enum mk_gating { MK_GATING_SOFTMAX, MK_GATING_SIGMOID } mk_gating;
typedef enum mk_routing { MK_ROUTING_LEARNED, MK_ROUTING_RANDOM, MK_ROUTING_UNIFORM, MK_ROUTING_REPLAY } mk_routing;

typedef struct mk_router_config {
  mk_gating gating;
  mk_routing routing;
  int32_t normalize; /* 1: L1 norm over the K weights */
  float scale;       /* K where the weights sum to K, else 1 (times expert_weight_scale) */
  uint64_t seed;
  uint32_t layer;
  int64_t first_token; /* global index of token 0 of this microbatch inside the step */
} mk_router_config;

/* Dtypes: f32, or f64 on ref; the same for all floating tensors of a call. */
typedef struct mk_router_fwd_args {
  mk_tensor logits;  /* f32 [T,E] */
  mk_tensor bias;    /* optional f32 [E], for selection only */
  mk_tensor state;   /* u8 [sizeof(mk_step_state)]: step, divisor */
  mk_tensor scores;  /* out f32 [T,E]: softmax or sigmoid of the logits, or the random draws */
  mk_tensor idx;     /* out i32 [T,K]; input in replay mode */
  mk_tensor weights; /* out f32 [T,K] */
  mk_tensor lse;     /* out f32 [T] */
  mk_tensor sums;    /* in/out f64 [MK_SUM_COUNT] */
  mk_router_config config;
} mk_router_fwd_args;

typedef struct mk_router_bwd_args {
  mk_tensor logits;   /* f32 [T,E] as in forward */
  mk_tensor scores;   /* f32 [T,E] */
  mk_tensor idx;      /* i32 [T,K] */
  mk_tensor weights;  /* f32 [T,K] */
  mk_tensor lse;      /* f32 [T] */
  mk_tensor dweights; /* f32 [T,K] */
  mk_tensor lb_coef;  /* f32 [groups,E]: d(weighted LB loss)/d(score), for sigmoid d/d(score / row sum);
                       * groups divides T (1, or one per sequence); ignored in random mode */
  mk_tensor state;    /* divisor */
  mk_tensor dlogits;  /* out f32 [T,E]; may alias logits */
  float rz_weight;    /* router z-loss weight */
  mk_router_config config;
} mk_router_bwd_args;

mk_status mk_router_fwd(mk_stream *stream, const mk_router_fwd_args *args);
mk_status mk_router_bwd(mk_stream *stream, const mk_router_bwd_args *args);

#ifdef __cplusplus
}
#endif

#endif
