/* MXFP8 on the CPU: one pass over the rows; transposed, over tiles of 32 rows whose columns are quantised side by side.
 * O(N*K). */
#include "kernels/base/min_max.h"
#include "kernels/device/cpu/cpu_device.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/ops/mxfp8/mxfp8_leaf.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/valid_rows.h"

enum { GRAIN_ELEMENTS = 16384, TILE = 64 };

/* ---- along rows ---- */

MK_INLINE void quantize_block(const void *x, mk_dtype dtype, int64_t n, bool rceil, uint8_t *q, uint8_t *scale) {
  uint32_t amax = 0;
#pragma omp simd reduction(max : amax)
  for (int64_t i = 0; i < n; i++) {
    uint32_t size = mk_f32_bits(mk_get(x, dtype, i)) & 0x7fffffffu;
    amax = size > amax ? size : amax;
  }
  uint32_t byte = mk_mxfp8_scale_byte(amax, rceil);
  *scale = (uint8_t)byte;
  if (byte == MK_MXFP8_NAN_SCALE) {
    memset(q, MK_MXFP8_NAN, (size_t)n);
    return;
  }
  float inverse = mk_mxfp8_inverse(byte);
  uint32_t code[MK_MXFP8_BLOCK]; /* narrowed in a loop of its own, which keeps both vectorised */
#pragma omp simd
  for (int64_t i = 0; i < n; i++)
    code[i] = mk_mxfp8_encode(mk_get(x, dtype, i) * inverse);
#pragma omp simd
  for (int64_t i = 0; i < n; i++)
    q[i] = (uint8_t)code[i];
}

MK_INLINE void quantize_row(const mk_mxfp8_quantize_args *a, mk_dtype dtype, int64_t row, int64_t k) {
  bool rceil = a->rule == MK_MXFP8_RCEIL;
  uint8_t *q = (uint8_t *)a->out.q.data + row * k;
  uint8_t *scale = (uint8_t *)a->out.scale.data + row * mk_mxfp8_blocks(k);
  const void *x = mk_at(a->x.data, dtype, row * k);
  int64_t full = k / MK_MXFP8_BLOCK;
  for (int64_t block = 0; block < full; block++) {
    int64_t at = block * MK_MXFP8_BLOCK;
    quantize_block(mk_at(x, dtype, at), dtype, MK_MXFP8_BLOCK, rceil, q + at, scale + block);
  }
  int64_t at = full * MK_MXFP8_BLOCK;
  if (at < k) quantize_block(mk_at(x, dtype, at), dtype, k - at, rceil, q + at, scale + full);
}

MK_VECTOR static void quantize_rows(const void *args, int64_t first, int64_t count) {
  const mk_mxfp8_quantize_args *a = args;
  int64_t k = a->x.dim[a->x.n_dims - 1];
  for (int64_t row = first; row < first + count; row++) {
    if (a->x.dtype == MK_BF16) {
      quantize_row(a, MK_BF16, row, k);
    } else {
      quantize_row(a, MK_F32, row, k);
    }
  }
}

/* ---- transposed ---- */

/* rows x cols elements at x (k a row): scales and codes of the columns, the codes still in rows of TILE. */
MK_INLINE void quantize_columns(const void *x, mk_dtype dtype, int64_t k, int64_t rows, int64_t cols, bool rceil,
                                uint8_t codes[MK_MXFP8_BLOCK][TILE], uint8_t bytes[TILE]) {
  uint32_t amax[TILE] = {0};
  float inverse[TILE];
  for (int64_t r = 0; r < rows; r++) {
    const void *row = mk_at(x, dtype, r * k);
#pragma omp simd
    for (int64_t c = 0; c < cols; c++) {
      uint32_t size = mk_f32_bits(mk_get(row, dtype, c)) & 0x7fffffffu;
      amax[c] = size > amax[c] ? size : amax[c];
    }
  }
#pragma omp simd
  for (int64_t c = 0; c < cols; c++) {
    uint32_t byte = mk_mxfp8_scale_byte(amax[c], rceil);
    bytes[c] = (uint8_t)byte;
    inverse[c] = mk_mxfp8_inverse(byte);
  }
  for (int64_t r = 0; r < rows; r++) {
    const void *row = mk_at(x, dtype, r * k);
#pragma omp simd
    for (int64_t c = 0; c < cols; c++) {
      uint8_t code = mk_mxfp8_encode(mk_get(row, dtype, c) * inverse[c]);
      codes[r][c] = bytes[c] == MK_MXFP8_NAN_SCALE ? MK_MXFP8_NAN : code;
    }
  }
}

/* Block row `band` (32 rows of x [n,k] at element `first`) into q [k,n] and scale [k,n/32], also at `first`. */
MK_INLINE void quantize_band(const mk_mxfp8_quantize_args *a, mk_dtype dtype, int64_t group, int64_t band, int64_t n,
                             int64_t k) {
  uint8_t codes[MK_MXFP8_BLOCK][TILE], bytes[TILE];
  int64_t row = band * MK_MXFP8_BLOCK, rows = mk_min(MK_MXFP8_BLOCK, n - row), blocks = mk_mxfp8_blocks(n);
  const void *x = mk_at(a->x.data, dtype, (group * n + row) * k);
  uint8_t *q = (uint8_t *)a->out.q.data + group * k * n + row;
  uint8_t *scale = (uint8_t *)a->out.scale.data + group * k * blocks + band;
  for (int64_t first = 0; first < k; first += TILE) {
    int64_t cols = mk_min(TILE, k - first);
    quantize_columns(mk_at(x, dtype, first), dtype, k, rows, cols, a->rule == MK_MXFP8_RCEIL, codes, bytes);
    for (int64_t c = 0; c < cols; c++) {
      scale[(first + c) * blocks] = bytes[c];
      for (int64_t r = 0; r < rows; r++)
        q[(first + c) * n + r] = codes[r][c];
    }
  }
}

MK_VECTOR static void quantize_bands(const void *args, int64_t first, int64_t count) {
  const mk_mxfp8_quantize_args *a = args;
  int64_t n = a->x.dim[a->x.n_dims - 2], k = a->x.dim[a->x.n_dims - 1], bands = mk_mxfp8_blocks(n);
  for (int64_t i = first; i < first + count; i++) {
    if (a->x.dtype == MK_BF16) {
      quantize_band(a, MK_BF16, i / bands, i % bands, n, k);
    } else {
      quantize_band(a, MK_F32, i / bands, i % bands, n, k);
    }
  }
}

mk_status mk_mxfp8_quantize_cpu(mk_stream *stream, const void *args) {
  const mk_mxfp8_quantize_args *a = args;
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_mxfp8_quantize, a->x.dtype));
  int64_t groups = a->x.n_dims == 3 ? a->x.dim[0] : 1;
  int64_t n = a->x.dim[a->x.n_dims - 2], k = a->x.dim[a->x.n_dims - 1];
  if (a->transpose) {
    int64_t grain = mk_cpu_grain_rows(GRAIN_ELEMENTS, MK_MXFP8_BLOCK * k);
    mk_cpu_ranges(groups * mk_mxfp8_blocks(n), grain, quantize_bands, a);
    return MK_OK;
  }
  mk_cpu_ranges(groups == 1 ? mk_valid_rows(&a->rows, n) : groups * n, mk_cpu_grain_rows(GRAIN_ELEMENTS, k),
                quantize_rows, a);
  return MK_OK;
}

/* ---- and back ---- */

MK_INLINE void dequantize_row(const mk_mxfp8_dequantize_args *a, mk_dtype dtype, int64_t row) {
  int64_t k = a->y.dim[1];
  const uint8_t *q = (const uint8_t *)a->x.q.data + row * k;
  const uint8_t *scale = (const uint8_t *)a->x.scale.data + row * mk_mxfp8_blocks(k);
  void *y = mk_at(a->y.data, dtype, row * k);
  for (int64_t at = 0; at < k; at += MK_MXFP8_BLOCK) {
    float factor = mk_mxfp8_scale(scale[at / MK_MXFP8_BLOCK]);
    int64_t end = mk_min(at + MK_MXFP8_BLOCK, k);
#pragma omp simd
    for (int64_t i = at; i < end; i++)
      mk_put(y, dtype, i, mk_mxfp8_decode(q[i]) * factor);
  }
}

MK_VECTOR static void dequantize_rows(const void *args, int64_t first, int64_t count) {
  const mk_mxfp8_dequantize_args *a = args;
  for (int64_t row = first; row < first + count; row++) {
    if (a->y.dtype == MK_BF16) {
      dequantize_row(a, MK_BF16, row);
    } else {
      dequantize_row(a, MK_F32, row);
    }
  }
}

mk_status mk_mxfp8_dequantize_cpu(mk_stream *stream, const void *args) {
  const mk_mxfp8_dequantize_args *a = args;
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_mxfp8_dequantize, a->y.dtype));
  mk_cpu_ranges(mk_valid_rows(&a->rows, a->y.dim[0]), mk_cpu_grain_rows(GRAIN_ELEMENTS, a->y.dim[1]), dequantize_rows,
                a);
  return MK_OK;
}
