/* QK-norm and RoPE on a packed projection [T,(H+2G)*hd], rows q heads | k heads | v heads.
 * Order: RMSNorm of q and k (per head with one gain [hd] for all q heads and one for all k heads; or over the full
 * projected width with gains [H*hd], [G*hd]; or none), optional clamp of q, k, v to +-clip (Hugging Face OLMoE: after
 * the norm), then RoPE on q and k: half-rotated layout, inv_freq_i = theta^(-2i/hd), position = t mod seq_len.
 * All in FP32, rounded once. v is copied. Backward undoes RoPE, passes the clamp's mask and the norm. */
#ifndef KERNELS_OPS_QK_NORM_ROPE_QK_NORM_ROPE_H
#define KERNELS_OPS_QK_NORM_ROPE_QK_NORM_ROPE_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mk_qk_norm { MK_QK_NORM_NONE, MK_QK_NORM_HEAD, MK_QK_NORM_FULL } mk_qk_norm;

typedef struct mk_qk_shape {
  int64_t heads;    /* H */
  int64_t kv_heads; /* G, divides H */
  int64_t head_dim; /* hd, even */
  int64_t seq_len;  /* S, divides T */
} mk_qk_shape;

typedef struct mk_qk_norm_rope_fwd_args {
  mk_tensor qkv;    /* [T,(H+2G)*hd] */
  mk_tensor q_gain; /* [hd] or [H*hd]; absent with MK_QK_NORM_NONE */
  mk_tensor k_gain; /* [hd] or [G*hd] */
  mk_tensor rope;   /* f32 [S, hd]: cos (hd/2) | sin (hd/2) per position, filled by mk_rope_table (f64 on ref) */
  mk_tensor out;    /* out [T,(H+2G)*hd]; may alias qkv only when backward is not needed */
  mk_tensor rstd;   /* out f32 [T,H+G]: head norm uses all columns, full norm columns 0 (q) and 1 (k) */
  mk_qk_shape shape;
  mk_qk_norm norm;
  float eps;
  float clip; /* 0 = none */
} mk_qk_norm_rope_fwd_args;

typedef struct mk_qk_norm_rope_bwd_args {
  mk_tensor dout; /* [T,(H+2G)*hd] */
  mk_tensor qkv;  /* as in forward, before the norm */
  mk_tensor q_gain;
  mk_tensor k_gain;
  mk_tensor rope;
  mk_tensor rstd;
  mk_tensor dqkv;    /* out [T,(H+2G)*hd]; may alias dout */
  mk_tensor dq_gain; /* in/out f32, accumulated; absent with MK_QK_NORM_NONE */
  mk_tensor dk_gain;
  mk_qk_shape shape;
  mk_qk_norm norm;
  float eps;
  float clip;
} mk_qk_norm_rope_bwd_args;

mk_status mk_qk_norm_rope_fwd(mk_stream *stream, const mk_qk_norm_rope_fwd_args *args);
mk_status mk_qk_norm_rope_bwd(mk_stream *stream, const mk_qk_norm_rope_bwd_args *args);

/* Host: fills table[S*hd] (cos | sin per position) in double precision. */
void mk_rope_table(double *table, int64_t seq_len, int64_t head_dim, double theta);

#ifdef __cplusplus
}
#endif

#endif
