/* Values of quantised elements in FP64, for the reference kernels: from the formulas of the format, not from bits. */
#ifndef KERNELS_OPS_MXFP8_MXFP8_VALUES_H
#define KERNELS_OPS_MXFP8_MXFP8_VALUES_H

#include <math.h>

#include "kernels/ops/mxfp8/mxfp8.h"

/* E4M3 (OCP FP8, no infinity): sign, 4 bits of exponent (bias 7), 3 bits of mantissa; 0x7F and 0xFF are NaN. */
static inline double mk_e4m3_value(uint8_t code) {
  int exponent = code >> 3 & 15, mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return NAN;
  double size = exponent == 0 ? ldexp(mantissa, -9) : ldexp(8 + mantissa, exponent - 10);
  return code & 0x80 ? -size : size;
}

/* E8M0 (OCP MX): 2^(byte - 127), 255 is NaN. */
static inline double mk_e8m0_value(uint8_t byte) { return byte == 255 ? NAN : ldexp(1, byte - 127); }

/* Element (row, col) of a quantised matrix of k columns whose rows start at row 0 of q, over all groups. */
static inline double mk_mxfp8_value(const mk_mxfp8 *m, int64_t row, int64_t col, int64_t k) {
  const uint8_t *q = (const uint8_t *)m->q.data, *scale = (const uint8_t *)m->scale.data;
  return mk_e4m3_value(q[row * k + col]) * mk_e8m0_value(scale[row * mk_mxfp8_blocks(k) + col / MK_MXFP8_BLOCK]);
}

#endif
