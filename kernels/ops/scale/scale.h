/* x *= factor in place (f32, f64): the division by the group size before a sum over ranks. */
#ifndef KERNELS_OPS_SCALE_SCALE_H
#define KERNELS_OPS_SCALE_SCALE_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_scale_args {
  mk_tensor x;
  double factor;
} mk_scale_args;

mk_status mk_scale(mk_stream *stream, const mk_scale_args *args);

#ifdef __cplusplus
}
#endif

#endif
