/* Copies of blocks of f32, bf16 or MXFP8 as FP32, straight or transposed, and back. */
#include "kernels/device/cpu/gemm_parts.h"
#include "kernels/ops/mxfp8/mxfp8_leaf.h"

MK_INLINE void load_leaf(const void *src, mk_dtype dtype, int64_t ld, int64_t rows, int64_t cols, float *dst,
                         int64_t dst_ld) {
  for (int64_t r = 0; r < rows; r++) {
    const void *row = mk_at(src, dtype, r * ld);
#pragma omp simd
    for (int64_t c = 0; c < cols; c++)
      dst[r * dst_ld + c] = mk_get(row, dtype, c);
  }
}

MK_VECTOR void mk_cpu_rows_load(const void *src, mk_dtype dtype, int64_t ld, int64_t rows, int64_t cols, float *dst,
                                int64_t dst_ld) {
  if (dtype == MK_BF16) {
    load_leaf(src, MK_BF16, ld, rows, cols, dst, dst_ld);
  } else {
    load_leaf(src, MK_F32, ld, rows, cols, dst, dst_ld);
  }
}

MK_INLINE void store_leaf(const float *src, int64_t src_ld, int64_t rows, int64_t cols, void *dst, mk_dtype dtype,
                          int64_t ld) {
  for (int64_t r = 0; r < rows; r++) {
    void *row = mk_at(dst, dtype, r * ld);
#pragma omp simd
    for (int64_t c = 0; c < cols; c++)
      mk_put(row, dtype, c, src[r * src_ld + c]);
  }
}

MK_VECTOR void mk_cpu_rows_store(const float *src, int64_t src_ld, int64_t rows, int64_t cols, void *dst,
                                 mk_dtype dtype, int64_t ld) {
  if (dtype == MK_BF16) {
    store_leaf(src, src_ld, rows, cols, dst, MK_BF16, ld);
  } else {
    store_leaf(src, src_ld, rows, cols, dst, MK_F32, ld);
  }
}

MK_VECTOR void mk_gemm_mxfp8_load(const uint8_t *q, const uint8_t *scale, int64_t ld, int64_t scale_ld, int64_t rows,
                                  int64_t cols, float *dst, int64_t dst_ld) {
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t at = 0; at < cols; at += MK_MXFP8_BLOCK) {
      float factor = mk_mxfp8_scale(scale[r * scale_ld + at / MK_MXFP8_BLOCK]);
      int64_t end = at + MK_MXFP8_BLOCK < cols ? at + MK_MXFP8_BLOCK : cols;
#pragma omp simd
      for (int64_t c = at; c < end; c++)
        dst[r * dst_ld + c] = mk_mxfp8_decode(q[r * ld + c]) * factor;
    }
  }
}

/* ---- transposing load ---- */

enum { LANES = 8 };

typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4)));
typedef int32_t picks __attribute__((vector_size(LANES * sizeof(int32_t))));

/* LANES x LANES elements of `src`, transposed: three rounds that each interleave row i with row i + 4. */
MK_INLINE void transpose_square(const void *src, mk_dtype dtype, int64_t ld, float *dst, int64_t dst_ld) {
  const picks low = {0, 8, 1, 9, 2, 10, 3, 11}, high = {4, 12, 5, 13, 6, 14, 7, 15};
  lanes in[LANES], out[LANES];
#pragma GCC unroll 8
  for (int i = 0; i < LANES; i++) {
    const void *row = mk_at(src, dtype, i * ld);
    for (int j = 0; j < LANES; j++)
      in[i][j] = mk_get(row, dtype, j);
  }
#pragma GCC unroll 3
  for (int round = 0; round < 3; round++) {
#pragma GCC unroll 4
    for (int i = 0; i < LANES / 2; i++) {
      out[2 * i] = __builtin_shuffle(in[i], in[i + LANES / 2], low);
      out[2 * i + 1] = __builtin_shuffle(in[i], in[i + LANES / 2], high);
    }
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i++)
      in[i] = out[i];
  }
#pragma GCC unroll 8
  for (int i = 0; i < LANES; i++)
    memcpy(dst + i * dst_ld, &in[i], sizeof in[i]);
}

MK_INLINE void transpose_leaf(const void *src, mk_dtype dtype, int64_t ld, int64_t rows, int64_t cols, float *dst,
                              int64_t dst_ld) {
  int64_t full_rows = rows - rows % LANES, full_cols = cols - cols % LANES;
  for (int64_t r = 0; r < full_rows; r += LANES) {
    for (int64_t c = 0; c < full_cols; c += LANES)
      transpose_square(mk_at(src, dtype, r * ld + c), dtype, ld, dst + c * dst_ld + r, dst_ld);
  }
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t c = r < full_rows ? full_cols : 0; c < cols; c++)
      dst[c * dst_ld + r] = mk_get(src, dtype, r * ld + c);
  }
}

MK_VECTOR void mk_gemm_transpose(const void *src, mk_dtype dtype, int64_t ld, int64_t rows, int64_t cols, float *dst,
                                 int64_t dst_ld) {
  if (dtype == MK_BF16) {
    transpose_leaf(src, MK_BF16, ld, rows, cols, dst, dst_ld);
  } else {
    transpose_leaf(src, MK_F32, ld, rows, cols, dst, dst_ld);
  }
}
