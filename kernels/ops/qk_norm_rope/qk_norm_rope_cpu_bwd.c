/* QK-norm and RoPE on the CPU, backward. q heads (which = 0) and k and v heads (which = 1) are two calls, since the
 * gradients of their gains are summed over tokens apart. A norm group is walked twice: for the dot product that the
 * norm's backward needs and the gain's gradient, then for the input's gradient; both undo RoPE again in registers. */
#include "kernels/device/cpu/cpu_device.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/qk_norm_rope/qk_norm_rope_leaf.h"

typedef struct bwd_run {
  const mk_qk_norm_rope_bwd_args *a;
  int which;
} bwd_run;

/* One head of one token. */
typedef struct head_view {
  const void *dout, *x, *gain;
  void *dx;
  const float *cosine, *sine;
  int64_t half;
  float rstd, clip;
} head_view;

/* Gradient of pair i before RoPE and the clamp. */
MK_INLINE void pair_before_rope(const head_view *v, int64_t i, float n1, float n2, bool clipped, mk_dtype dtype,
                                mk_gain_kind kind, float *e1, float *e2) {
  float d1 = mk_get(v->dout, dtype, i), d2 = mk_get(v->dout, dtype, v->half + i);
  float r1 = d1 * v->cosine[i] + d2 * v->sine[i], r2 = d2 * v->cosine[i] - d1 * v->sine[i];
  *e1 = clipped && fabsf(n1 * mk_gain_get(v->gain, kind, i)) > v->clip ? 0.0f : r1;
  *e2 = clipped && fabsf(n2 * mk_gain_get(v->gain, kind, v->half + i)) > v->clip ? 0.0f : r2;
}

/* Adds to the gain's gradient; returns sum(e * gain * n). */
MK_INLINE float head_dot(const head_view *view, float *dgain, bool clipped, mk_dtype dtype, mk_gain_kind kind) {
  const head_view v = *view;
  float dot = 0;
#pragma omp simd reduction(+ : dot)
  for (int64_t i = 0; i < v.half; i++) {
    float n1 = mk_get(v.x, dtype, i) * v.rstd, n2 = mk_get(v.x, dtype, v.half + i) * v.rstd, e1, e2;
    pair_before_rope(&v, i, n1, n2, clipped, dtype, kind, &e1, &e2);
    dgain[i] += e1 * n1;
    dgain[v.half + i] += e2 * n2;
    dot += e1 * n1 * mk_gain_get(v.gain, kind, i) + e2 * n2 * mk_gain_get(v.gain, kind, v.half + i);
  }
  return dot;
}

MK_INLINE void head_dx(const head_view *view, float mean, bool clipped, mk_dtype dtype, mk_gain_kind kind) {
  const head_view v = *view;
#pragma omp simd
  for (int64_t i = 0; i < v.half; i++) {
    float n1 = mk_get(v.x, dtype, i) * v.rstd, n2 = mk_get(v.x, dtype, v.half + i) * v.rstd, e1, e2;
    pair_before_rope(&v, i, n1, n2, clipped, dtype, kind, &e1, &e2);
    mk_put(v.dx, dtype, i, v.rstd * (e1 * mk_gain_get(v.gain, kind, i) - n1 * mean));
    mk_put(v.dx, dtype, v.half + i, v.rstd * (e2 * mk_gain_get(v.gain, kind, v.half + i) - n2 * mean));
  }
}

MK_INLINE head_view view_of(const bwd_run *run, const mk_qk_block *block, int64_t token, int64_t head, mk_dtype dtype,
                            mk_gain_kind kind) {
  const mk_qk_norm_rope_bwd_args *a = run->a;
  const mk_tensor *gain = run->which == 0 ? &a->q_gain : &a->k_gain;
  int64_t hd = a->shape.head_dim, first = token * a->qkv.dim[1] + block->first + head * hd;
  const float *rope = (const float *)a->rope.data + token % a->shape.seq_len * hd;
  head_view v = {.dout = mk_at(a->dout.data, dtype, first),
                 .x = mk_at(a->qkv.data, dtype, first),
                 .dx = mk_at(a->dqkv.data, dtype, first),
                 .cosine = rope,
                 .sine = rope + hd / 2,
                 .half = hd / 2,
                 .rstd = 1.0f,
                 .clip = mk_clip_bound(a->clip)};
  if (kind != MK_GAIN_NONE) {
    const float *rstds = (const float *)a->rstd.data + token * block->columns + block->rstd;
    v.rstd = rstds[head * hd / block->group];
    v.gain = mk_at(gain->data, kind == MK_GAIN_BF16 ? MK_BF16 : MK_F32, head * hd % block->group);
  }
  return v;
}

MK_INLINE void block_leaf(const bwd_run *run, int64_t token, float *dgain, bool clipped, mk_dtype dtype,
                          mk_gain_kind kind) {
  const mk_qk_norm_rope_bwd_args *a = run->a;
  mk_qk_block block = mk_qk_block_of(&a->shape, a->norm, run->which);
  int64_t hd = a->shape.head_dim, heads_per_group = block.group / hd;
  for (int64_t start = 0; start < block.heads; start += heads_per_group) {
    float dot = 0;
    for (int64_t h = start; h < start + heads_per_group && kind != MK_GAIN_NONE; h++) {
      head_view v = view_of(run, &block, token, h, dtype, kind);
      dot += head_dot(&v, dgain + h * hd % block.group, clipped, dtype, kind);
    }
    for (int64_t h = start; h < start + heads_per_group; h++) {
      head_view v = view_of(run, &block, token, h, dtype, kind);
      head_dx(&v, dot / (float)block.group, clipped, dtype, kind);
    }
  }
}

MK_INLINE void values_leaf(const mk_qk_norm_rope_bwd_args *a, int64_t token, mk_dtype dtype) {
  int64_t width = a->qkv.dim[1], count = a->shape.kv_heads * a->shape.head_dim, first = (token + 1) * width - count;
  const void *x = mk_at(a->qkv.data, dtype, first), *dout = mk_at(a->dout.data, dtype, first);
  void *dx = mk_at(a->dqkv.data, dtype, first);
  float clip = mk_clip_bound(a->clip);
#pragma omp simd
  for (int64_t i = 0; i < count; i++) {
    mk_put(dx, dtype, i, fabsf(mk_get(x, dtype, i)) > clip ? 0.0f : mk_get(dout, dtype, i));
  }
}

MK_INLINE void token_leaf(const bwd_run *run, int64_t first, int64_t count, float *dgain, bool clipped, mk_dtype dtype,
                          mk_gain_kind kind) {
  for (int64_t t = first; t < first + count; t++) {
    block_leaf(run, t, dgain, clipped, dtype, kind);
    if (run->which == 1) values_leaf(run->a, t, dtype);
  }
}

MK_VECTOR static void tokens_range(const void *args, int64_t first, int64_t count, float *dgain) {
  const bwd_run *run = args;
  mk_gain_kind kind = mk_gain_kind_of(run->a->norm, &run->a->q_gain);
  if (run->a->clip > 0) {
    MK_QK_DISPATCH(run->a->qkv.dtype, kind, token_leaf, run, first, count, dgain, true);
  } else {
    MK_QK_DISPATCH(run->a->qkv.dtype, kind, token_leaf, run, first, count, dgain, false);
  }
}

mk_status mk_qk_norm_rope_bwd_cpu(mk_stream *stream, const void *args) {
  const mk_qk_norm_rope_bwd_args *a = args;
  bool normed = a->norm != MK_QK_NORM_NONE;
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_qk_norm_rope_bwd, a->qkv.dtype));
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_qk_norm_rope_bwd, a->rope.dtype));
  if (normed) {
    MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_qk_norm_rope_bwd, a->q_gain.dtype));
    MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_qk_norm_rope_bwd, a->dq_gain.dtype));
  }
  for (int which = 0; which < 2; which++) {
    bwd_run run = {.a = a, .which = which};
    const mk_tensor *dgain = which == 0 ? &a->dq_gain : &a->dk_gain;
    mk_cpu_ranges_sum(a->qkv.dim[0], MK_QK_ROWS, normed ? dgain->dim[0] : 0, tokens_range, &run, dgain->data);
  }
  return MK_OK;
}
