/* The value of one parameter element. Plain C in FP64, shared by the backends.
 *
 * Truncated normal by the polar method (Marsaglia and Bray, SIAM Review 6 (1964) 260), redrawn outside +-3:
 *   attempt a = 0, 1, 2, ... takes words 2(a mod 2) and 2(a mod 2)+1 of the Philox block of counter
 *   (purpose MK_RNG_INIT, sub = parameter id, index = element + 2^56 * floor(a/2));
 *   u_j = (top 24 bits of word_j + 1/2) / 2^23 - 1, in (-1, 1), never 0; q = u_0^2 + u_1^2;
 *   q >= 1: next attempt; z = u_0 sqrt(-2 ln(q) / q); |z| > 3: next attempt; the value is std * z.
 * An attempt succeeds with probability 0.78; after 512 attempts the value is 0. */
#ifndef KERNELS_OPS_PARAM_INIT_PARAM_DRAW_H
#define KERNELS_OPS_PARAM_INIT_PARAM_DRAW_H

#include <math.h>

#include "kernels/base/dtype.h"
#include "kernels/base/rng.h"
#include "kernels/ops/param_init/param_init.h"

static inline double mk_param_signed_unit(uint32_t word) { return ((double)(word >> 8) + 0.5) * 0x1p-23 - 1.0; }

static inline double mk_param_normal(uint64_t seed, uint32_t param, uint64_t element) {
  for (uint64_t block = 0; block < 256; block++) {
    mk_rng_block draw = mk_rng_draw(seed, MK_RNG_INIT, param, element + (block << 56));
    for (int pair = 0; pair < 4; pair += 2) {
      double u0 = mk_param_signed_unit(draw.word[pair]), u1 = mk_param_signed_unit(draw.word[pair + 1]);
      double q = u0 * u0 + u1 * u1;
      if (q >= 1.0) continue;
      double z = u0 * sqrt(-2.0 * log(q) / q);
      if (fabs(z) <= 3.0) return z;
    }
  }
  return 0.0;
}

static inline double mk_param_value(const mk_param_init_args *a, int64_t i) {
  double value = (double)a->value;
  if (a->std > 0) value = (double)a->std * mk_param_normal(a->seed, a->param, (uint64_t)(a->first + i));
  return a->round_bf16 ? (double)mk_bf16_to_f32(mk_f32_to_bf16((float)value)) : value;
}

#endif
