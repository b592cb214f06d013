/* y = x converted to y's dtype (f32, bf16, f64), round to nearest even. */
#ifndef KERNELS_OPS_CAST_CAST_H
#define KERNELS_OPS_CAST_CAST_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_cast_args {
  mk_tensor x; /* [n] any shape */
  mk_tensor y; /* out, same count */
} mk_cast_args;

mk_status mk_cast(mk_stream *stream, const mk_cast_args *args);

#ifdef __cplusplus
}
#endif

#endif
