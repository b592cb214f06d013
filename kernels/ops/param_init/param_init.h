/* Initial values as a pure function of (seed, parameter id, global element index): the world size does not matter.
 * normal: truncated normal, mean 0, cut at +-3 std (as Olmo-core 3.0.0 olmo_core/nn/transformer/init.py), drawn as
 * param_draw.h says; constant: value everywhere. Values are rounded to BF16 first when `round_bf16` (Olmo-core draws in
 * BF16). */
#ifndef KERNELS_OPS_PARAM_INIT_PARAM_INIT_H
#define KERNELS_OPS_PARAM_INIT_PARAM_INIT_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_param_init_args {
  mk_tensor main; /* out f32 or bf16 [n] (f64 on ref); bf16 is the rounded f32 value */
  uint64_t seed;
  uint32_t param; /* id of the parameter, from its place in the model */
  int64_t first;  /* global index of element 0 */
  float std;      /* 0: constant */
  float value;
  int32_t round_bf16;
} mk_param_init_args;

mk_status mk_param_init(mk_stream *stream, const mk_param_init_args *args);

#ifdef __cplusplus
}
#endif

#endif
