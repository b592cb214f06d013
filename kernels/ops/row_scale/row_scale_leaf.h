/* A row times its weight with the dot product that is the weight's gradient, for the fast CPU kernels. */
#ifndef KERNELS_OPS_ROW_SCALE_ROW_SCALE_LEAF_H
#define KERNELS_OPS_ROW_SCALE_ROW_SCALE_LEAF_H

#include "kernels/device/cpu/vector.h"

enum { MK_ROW_SCALE_TILE = 512 };

/* dx[width] = dy * w (unless dx is NULL), returns <dy, x>. dx may be the memory of x: each element is read before it is
 * written, which is what the simd pragma promises. FP32 sums of tiles are added in FP64, so that the error grows
 * neither with the width nor with that of the vectors. */
MK_INLINE float mk_row_scale_bwd_row(const void *dy, const void *x, void *dx, float w, int64_t width, mk_dtype dtype) {
  double dot = 0;
  for (int64_t first = 0; first < width; first += MK_ROW_SCALE_TILE) {
    int64_t end = width - first < MK_ROW_SCALE_TILE ? width : first + MK_ROW_SCALE_TILE;
    float part = 0;
#pragma omp simd reduction(+ : part)
    for (int64_t f = first; f < end; f++) {
      float g = mk_get(dy, dtype, f);
      part += g * mk_get(x, dtype, f);
      if (dx != NULL) mk_put(dx, dtype, f, g * w);
    }
    dot += (double)part;
  }
  return (float)dot;
}

#endif
