/* Shared by forward and backward on the CPU: the two blocks of a row (q heads, k heads) and their gains. */
#ifndef KERNELS_OPS_QK_NORM_ROPE_QK_NORM_ROPE_LEAF_H
#define KERNELS_OPS_QK_NORM_ROPE_QK_NORM_ROPE_LEAF_H

#include "kernels/device/cpu/vector.h"
#include "kernels/ops/qk_norm_rope/qk_norm_rope.h"

enum { MK_QK_ROWS = 32 }; /* tokens of one piece of work */

typedef enum mk_gain_kind { MK_GAIN_NONE, MK_GAIN_F32, MK_GAIN_BF16 } mk_gain_kind;

/* The q heads (which = 0) or the k heads (which = 1) of a packed row. */
typedef struct mk_qk_block {
  int64_t first; /* element of the row where the block starts */
  int64_t heads;
  int64_t rstd;    /* column of rstd of its first norm */
  int64_t group;   /* elements that share a norm: hd, or the whole block */
  int64_t columns; /* of rstd */
} mk_qk_block;

static inline mk_qk_block mk_qk_block_of(const mk_qk_shape *shape, mk_qk_norm norm, int which) {
  mk_qk_block block = {.first = which == 0 ? 0 : shape->heads * shape->head_dim,
                       .heads = which == 0 ? shape->heads : shape->kv_heads,
                       .columns = shape->heads + shape->kv_heads};
  bool full = norm == MK_QK_NORM_FULL;
  block.group = full ? block.heads * shape->head_dim : shape->head_dim;
  block.rstd = full ? which : which == 0 ? 0 : shape->heads;
  return block;
}

static inline mk_gain_kind mk_gain_kind_of(mk_qk_norm norm, const mk_tensor *gain) {
  if (norm == MK_QK_NORM_NONE) return MK_GAIN_NONE;
  return gain->dtype == MK_BF16 ? MK_GAIN_BF16 : MK_GAIN_F32;
}

MK_INLINE float mk_gain_get(const void *gain, mk_gain_kind kind, int64_t i) {
  if (kind == MK_GAIN_NONE) return 1.0f;
  return mk_get(gain, kind == MK_GAIN_BF16 ? MK_BF16 : MK_F32, i);
}

/* Clamp that keeps NaN; clip is +inf where there is none. */
MK_INLINE float mk_clampf(float x, float clip) {
  float low = x < -clip ? -clip : x;
  return low > clip ? clip : low;
}

static inline float mk_clip_bound(float clip) { return clip > 0 ? clip : INFINITY; }

/* Calls leaf(..., dtype, kind) with both constant, as specialised code needs them. */
#define MK_QK_DISPATCH(dtype, kind, leaf, ...) \
  do { \
    if ((dtype) == MK_BF16) { \
      switch (kind) { \
        case MK_GAIN_NONE: \
          leaf(__VA_ARGS__, MK_BF16, MK_GAIN_NONE); \
          break; \
        case MK_GAIN_F32: \
          leaf(__VA_ARGS__, MK_BF16, MK_GAIN_F32); \
          break; \
        case MK_GAIN_BF16: \
          leaf(__VA_ARGS__, MK_BF16, MK_GAIN_BF16); \
          break; \
      } \
    } else { \
      switch (kind) { \
        case MK_GAIN_NONE: \
          leaf(__VA_ARGS__, MK_F32, MK_GAIN_NONE); \
          break; \
        case MK_GAIN_F32: \
          leaf(__VA_ARGS__, MK_F32, MK_GAIN_F32); \
          break; \
        case MK_GAIN_BF16: \
          leaf(__VA_ARGS__, MK_F32, MK_GAIN_BF16); \
          break; \
      } \
    } \
  } while (0)

#endif
