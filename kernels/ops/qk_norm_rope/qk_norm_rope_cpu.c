/* QK-norm and RoPE on the CPU, forward: a token's row is read and written once, tokens shared between threads. */
#include "kernels/device/cpu/cpu_device.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/qk_norm_rope/qk_norm_rope_leaf.h"

MK_INLINE float group_rstd(const void *x, mk_dtype dtype, int64_t count, float eps) {
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < count; i++)
    squares += mk_get(x, dtype, i) * mk_get(x, dtype, i);
  return 1.0f / sqrtf(squares / (float)count + eps);
}

/* One head: scale by rstd and gain, clamp, rotate the two halves against each other. */
MK_INLINE void rotate_head(const void *x, void *out, const void *gain, const float *rope, int64_t half, float rstd,
                           float clip, mk_dtype dtype, mk_gain_kind kind) {
  const float *cosine = rope, *sine = rope + half;
#pragma omp simd
  for (int64_t i = 0; i < half; i++) {
    float x1 = mk_clampf(mk_get(x, dtype, i) * rstd * mk_gain_get(gain, kind, i), clip);
    float x2 = mk_clampf(mk_get(x, dtype, half + i) * rstd * mk_gain_get(gain, kind, half + i), clip);
    mk_put(out, dtype, i, x1 * cosine[i] - x2 * sine[i]);
    mk_put(out, dtype, half + i, x2 * cosine[i] + x1 * sine[i]);
  }
}

MK_INLINE void block_leaf(const mk_qk_norm_rope_fwd_args *a, int64_t token, int which, mk_dtype dtype,
                          mk_gain_kind kind) {
  mk_qk_block block = mk_qk_block_of(&a->shape, a->norm, which);
  const mk_tensor *gain = which == 0 ? &a->q_gain : &a->k_gain;
  mk_dtype gain_dtype = kind == MK_GAIN_BF16 ? MK_BF16 : MK_F32;
  int64_t hd = a->shape.head_dim, first = token * a->qkv.dim[1] + block.first;
  const float *rope = (const float *)a->rope.data + token % a->shape.seq_len * hd;
  float *rstds = kind == MK_GAIN_NONE ? NULL : (float *)a->rstd.data + token * block.columns + block.rstd;
  float clip = mk_clip_bound(a->clip), rstd = 1.0f;
  for (int64_t h = 0; h < block.heads; h++) {
    int64_t in_group = h * hd % block.group;
    const void *x = mk_at(a->qkv.data, dtype, first + h * hd);
    if (kind != MK_GAIN_NONE && in_group == 0) {
      rstd = group_rstd(x, dtype, block.group, a->eps);
      rstds[h * hd / block.group] = rstd;
    }
    const void *head_gain = kind == MK_GAIN_NONE ? NULL : mk_at(gain->data, gain_dtype, in_group);
    rotate_head(x, mk_at(a->out.data, dtype, first + h * hd), head_gain, rope, hd / 2, rstd, clip, dtype, kind);
  }
}

MK_INLINE void values_leaf(const mk_qk_norm_rope_fwd_args *a, int64_t token, mk_dtype dtype) {
  int64_t width = a->qkv.dim[1], count = a->shape.kv_heads * a->shape.head_dim, first = (token + 1) * width - count;
  const void *x = mk_at(a->qkv.data, dtype, first);
  void *out = mk_at(a->out.data, dtype, first);
  float clip = mk_clip_bound(a->clip);
#pragma omp simd
  for (int64_t i = 0; i < count; i++)
    mk_put(out, dtype, i, mk_clampf(mk_get(x, dtype, i), clip));
}

MK_INLINE void token_leaf(const mk_qk_norm_rope_fwd_args *a, int64_t first, int64_t count, mk_dtype dtype,
                          mk_gain_kind kind) {
  for (int64_t t = first; t < first + count; t++) {
    block_leaf(a, t, 0, dtype, kind);
    block_leaf(a, t, 1, dtype, kind);
    values_leaf(a, t, dtype);
  }
}

MK_VECTOR static void tokens_range(const void *args, int64_t first, int64_t count) {
  const mk_qk_norm_rope_fwd_args *a = args;
  MK_QK_DISPATCH(a->qkv.dtype, mk_gain_kind_of(a->norm, &a->q_gain), token_leaf, a, first, count);
}

mk_status mk_qk_norm_rope_fwd_cpu(mk_stream *stream, const void *args) {
  const mk_qk_norm_rope_fwd_args *a = args;
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_qk_norm_rope_fwd, a->qkv.dtype));
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_qk_norm_rope_fwd, a->rope.dtype));
  if (a->norm != MK_QK_NORM_NONE) {
    MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_qk_norm_rope_fwd, a->q_gain.dtype));
    MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_qk_norm_rope_fwd, a->rstd.dtype));
  }
  mk_cpu_ranges(a->qkv.dim[0], MK_QK_ROWS, tokens_range, a);
  return MK_OK;
}
