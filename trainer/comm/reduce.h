/* Reduction of the ranks' contributions on the host, in rank order. */
#ifndef TRAINER_COMM_REDUCE_H
#define TRAINER_COMM_REDUCE_H

#include "trainer/comm/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out[i] = source[0][i] op source[1][i] op ... for n elements, in this order for every i, so that the result does not
 * depend on how a call was cut. BF16 is widened, reduced in FP32 and rounded once. `out` may be one of the sources. MAX
 * keeps NaN. dtype: f32, bf16, f64, i32 or i64. */
void mt_reduce_ranks(mk_dtype dtype, mt_reduce op, const void *const *source, int n_sources, void *out, int64_t n);

#ifdef __cplusplus
}
#endif

#endif
