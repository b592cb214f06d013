/* y = a + b elementwise, FP32 sum rounded once; y may alias a or b. */
#ifndef KERNELS_OPS_ADD_ADD_H
#define KERNELS_OPS_ADD_ADD_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_add_args {
  mk_tensor a, b;
  mk_tensor y;
} mk_add_args;

mk_status mk_add(mk_stream *stream, const mk_add_args *args);

#ifdef __cplusplus
}
#endif

#endif
