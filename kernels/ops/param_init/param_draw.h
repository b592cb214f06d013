/* The value of one parameter element. Plain C in FP64, shared by the backends.
 *
 * Truncated normal by inversion: element i takes word i mod 4 of the Philox block of counter (purpose MK_RNG_INIT,
 * sub = parameter id, index = floor(i/4)); p = Phi(-3) + (word + 1/2) / 2^32 * (Phi(3) - Phi(-3)); the value is
 * std * Phi^-1(p), so that +-3 std is never passed and nothing is redrawn. Phi^-1 is PPND7 of algorithm AS 241
 * (Wichura, Applied Statistics 37 (1988) 477), about seven digits. */
#ifndef KERNELS_OPS_PARAM_INIT_PARAM_DRAW_H
#define KERNELS_OPS_PARAM_INIT_PARAM_DRAW_H

#include <math.h>

#include "kernels/base/dtype.h"
#include "kernels/base/rng.h"
#include "kernels/ops/param_init/param_init.h"

/* Phi^-1(p) for p in [1e-10, 1 - 1e-10]. */
static inline double mk_param_quantile(double p) {
  double q = p - 0.5;
  if (fabs(q) <= 0.425) {
    double r = 0.180625 - q * q;
    double top = ((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179;
    return q * top / (((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0);
  }
  double r = sqrt(-log(q < 0 ? p : 1.0 - p)) - 1.6;
  double top = ((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777;
  double z = top / ((0.12021132975 * r + 0.73700164250) * r + 1.0);
  return q < 0 ? -z : z;
}

static inline double mk_param_normal(uint32_t word) {
  const double low = 0.0013498980316300933; /* Phi(-3) */
  return mk_param_quantile(low + ((double)word + 0.5) * 0x1p-32 * (1.0 - 2.0 * low));
}

static inline double mk_param_rounded(const mk_param_init_args *a, double value) {
  return a->round_bf16 ? (double)mk_bf16_to_f32(mk_f32_to_bf16((float)value)) : value;
}

/* Value of element i of the tensor that `a` initialises. *block carries the draw from one element to the next; `fresh`
 * says that it does not hold the draw of element i - 1. */
static inline double mk_param_value(const mk_param_init_args *a, int64_t i, mk_rng_block *block, bool fresh) {
  if (!(a->std > 0)) return mk_param_rounded(a, (double)a->value);
  uint64_t element = (uint64_t)(a->first + i);
  if (fresh || element % 4 == 0) *block = mk_rng_draw(a->seed, MK_RNG_INIT, a->param, element / 4);
  return mk_param_rounded(a, (double)a->std * mk_param_normal(block->word[element % 4]));
}

#endif
