/* Embedding: y[t] = scale * table[ids[t]]; backward adds scale * dy[t] into dtable[ids[t]] in token order, so that the
 * sum does not depend on threads. dtypes: table, y, dy one of bf16/f32/f64; ids i32; dtable f32 (f64 on ref). */
#ifndef KERNELS_OPS_EMBEDDING_EMBEDDING_H
#define KERNELS_OPS_EMBEDDING_EMBEDDING_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_embedding_fwd_args {
  mk_tensor ids;   /* i32 [T], each in [0, V) */
  mk_tensor table; /* [V,D] */
  mk_tensor y;     /* out [T,D]; the product is rounded once */
  float scale;
} mk_embedding_fwd_args;

typedef struct mk_embedding_bwd_args {
  mk_tensor ids;    /* i32 [T] */
  mk_tensor dy;     /* [T,D] */
  mk_tensor dtable; /* in/out [V,D], accumulated */
  float scale;
} mk_embedding_bwd_args;

mk_status mk_embedding_fwd(mk_stream *stream, const mk_embedding_fwd_args *args);
mk_status mk_embedding_bwd(mk_stream *stream, const mk_embedding_bwd_args *args);

#ifdef __cplusplus
}
#endif

#endif
