/* out[0] += scale * sum of squares, in FP64 over fixed blocks, so that the sum does not depend on threads. */
#ifndef KERNELS_OPS_SQUARED_NORM_SQUARED_NORM_H
#define KERNELS_OPS_SQUARED_NORM_SQUARED_NORM_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_squared_norm_args {
  mk_tensor x;   /* f32 [n] (f64 on ref) */
  mk_tensor out; /* in/out f64 [1] */
  double scale;  /* 1, or 1/replicas for a tensor that several ranks count */
} mk_squared_norm_args;

mk_status mk_squared_norm(mk_stream *stream, const mk_squared_norm_args *args);

#ifdef __cplusplus
}
#endif

#endif
