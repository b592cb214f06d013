/* Causal grouped-query attention, softmax(q k^T / sqrt(hd)) v inside each sequence; q head h reads kv head h/(H/G).
 * Blocked with a running softmax, so that T x T is never materialised for the batch (Dao et al. 2022, arXiv
 * 2205.14135). Backward recomputes the probabilities from lse. Softmax and sums in FP32. */
#ifndef KERNELS_OPS_ATTENTION_ATTENTION_H
#define KERNELS_OPS_ATTENTION_ATTENTION_H

#include "kernels/device/device.h"
#include "kernels/ops/qk_norm_rope/qk_norm_rope.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_attention_fwd_args {
  mk_tensor qkv;  /* [T,(H+2G)*hd], after qk_norm_rope */
  mk_tensor o;    /* out [T,H*hd] */
  mk_tensor lse;  /* out f32 [H,T] (f64 on ref): log sum exp of the scaled scores */
  mk_tensor work; /* u8 [mk_attention_work_bytes] */
  mk_qk_shape shape;
} mk_attention_fwd_args;

typedef struct mk_attention_bwd_args {
  mk_tensor d_o;  /* [T,H*hd] */
  mk_tensor qkv;  /* [T,(H+2G)*hd] */
  mk_tensor o;    /* [T,H*hd] */
  mk_tensor lse;  /* f32 [H,T] */
  mk_tensor dqkv; /* out [T,(H+2G)*hd] */
  mk_tensor work; /* u8 [mk_attention_work_bytes] */
  mk_qk_shape shape;
} mk_attention_bwd_args;

mk_status mk_attention_fwd(mk_stream *stream, const mk_attention_fwd_args *args);
mk_status mk_attention_bwd(mk_stream *stream, const mk_attention_bwd_args *args);

/* Bytes of `work` that both passes need for T tokens on `dev`; never 0. */
size_t mk_attention_work_bytes(mk_device *dev, int64_t tokens, const mk_qk_shape *shape);

#ifdef __cplusplus
}
#endif

#endif
