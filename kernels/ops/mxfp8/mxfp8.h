/* MXFP8: E4M3 elements with one E8M0 scale (byte b = 2^(b-127)) for every 32 of them along the contracted dimension
 * (OCP Microscaling Formats v1.0; Olmo-core 3.0.0 olmo_core/kernels/mxfp8_utils.py). A shorter last block has a scale
 * of its own, which is what padding with zeros gives.
 *
 *   rceil  scale = smallest 2^s >= amax / 448: nothing saturates
 *   floor  scale = 2^(floor(log2 amax) - 8), the OCP rule: amax above 448 * 2^s saturates to 448 * 2^s
 * s is clamped to [-127, 127]; an element is E4M3(x * 2^-s), to nearest even, saturating at +-448, subnormals kept; the
 * exponent is taken from the bits, never from a rounded logarithm. A block of zeros has byte 0 and zeros, signs kept.
 * A block with a NaN or an infinity has scale byte 255 and elements 0x7F: all of it reads back as NaN, so that the
 * detector of non-finite losses fires (Olmo-core turns NaN into 0 there and infinity into 448 * 2^127).
 * Reading back is exact in FP32 and, from scale byte 3 on, in BF16; only 256 * 2^120, which FLT_MAX rounds to under
 * rceil, has no FP32 number and reads as infinity. */
#ifndef KERNELS_OPS_MXFP8_MXFP8_H
#define KERNELS_OPS_MXFP8_MXFP8_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MK_MXFP8_BLOCK = 32 };

typedef enum mk_mxfp8_rule { MK_MXFP8_RCEIL, MK_MXFP8_FLOOR } mk_mxfp8_rule;

/* A quantised matrix, or a stack of them. Columns are the contracted dimension. */
typedef struct mk_mxfp8 {
  mk_tensor q;     /* u8 [N,K] or [E,N,K] */
  mk_tensor scale; /* u8 [N,ceil(K/32)] or [E,N,ceil(K/32)] */
} mk_mxfp8;

typedef struct mk_mxfp8_quantize_args {
  mk_tensor x;       /* [N,K] or [E,N,K] */
  mk_tensor rows;    /* optional i32 [1]: only that many rows of x [N,K] are read and written */
  mk_mxfp8 out;      /* out, of the shape of x; transposed: [K,N] or [E,K,N], blocks along N */
  int32_t rule;      /* mk_mxfp8_rule */
  int32_t transpose; /* 1: the transposed matrix, for a product that contracts N; without `rows` */
} mk_mxfp8_quantize_args;

typedef struct mk_mxfp8_dequantize_args {
  mk_mxfp8 x;     /* [N,K] */
  mk_tensor rows; /* optional i32 [1] */
  mk_tensor y;    /* out [N,K]; f32, bf16 (rounded to nearest even) or f64 */
} mk_mxfp8_dequantize_args;

mk_status mk_mxfp8_quantize(mk_stream *stream, const mk_mxfp8_quantize_args *args);
mk_status mk_mxfp8_dequantize(mk_stream *stream, const mk_mxfp8_dequantize_args *args);

/* Shapes of a quantised [n,k] matrix, or of `groups` of them (groups 0: one matrix with two dims); no memory. */
mk_mxfp8 mk_mxfp8_shape(int64_t groups, int64_t n, int64_t k);

/* Scales of a row of k elements. */
static inline int64_t mk_mxfp8_blocks(int64_t k) { return (k + MK_MXFP8_BLOCK - 1) / MK_MXFP8_BLOCK; }

/* Bytes of a quantised [n,k] matrix, scales included. */
static inline int64_t mk_mxfp8_bytes(int64_t n, int64_t k) { return n * (k + mk_mxfp8_blocks(k)); }

/* Place of scale (row, block) in the layout that NVIDIA's scaled GEMM reads: tiles of 128 rows x 4 blocks, row tiles
 * outermost, and (r mod 32) * 16 + (r div 32) * 4 + c inside a tile; `blocks` of a row are padded to 4
 * (SWIZZLE_32_4_4, cuBLAS "1D block scaling factors layout"). */
static inline int64_t mk_mxfp8_swizzled(int64_t row, int64_t block, int64_t blocks) {
  int64_t across = (blocks + 3) / 4, r = row % 128;
  return ((row / 128) * across + block / 4) * 512 + (r % 32) * 16 + (r / 32) * 4 + block % 4;
}

#ifdef __cplusplus
}
#endif

#endif
