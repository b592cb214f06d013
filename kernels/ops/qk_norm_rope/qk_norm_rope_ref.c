/* QK-norm and RoPE, reference: FP64, one token and one norm group (a head, or all q or k heads) at a time. */
#include <math.h>

#include "kernels/ops/op_decls.h"
#include "kernels/ops/qk_norm_rope/qk_norm_rope.h"
#include "kernels/ops/ref_access.h"

/* Elements that share one norm: `first` of the row's packed columns, `count` long, with its gain. */
typedef struct group {
  int64_t first, count; /* flattened elements of qkv */
  int64_t rstd;         /* element of rstd */
  const mk_tensor *gain;
} group;

static double clamp(double x, double clip) { return clip > 0 ? fmin(fmax(x, -clip), clip) : x; }

/* The norm groups of a token; returns their number (H+G with head norm or none, 2 with full norm). */
static int64_t groups_of_token(const mk_qk_shape *shape, mk_qk_norm norm) {
  return norm == MK_QK_NORM_FULL ? 2 : shape->heads + shape->kv_heads;
}

static group group_at(const mk_qk_shape *shape, mk_qk_norm norm, const mk_tensor *q_gain, const mk_tensor *k_gain,
                      int64_t token, int64_t index) {
  int64_t width = (shape->heads + 2 * shape->kv_heads) * shape->head_dim, columns = shape->heads + shape->kv_heads;
  group g = {.rstd = token * columns + index};
  if (norm == MK_QK_NORM_FULL) {
    g.first = token * width + (index == 0 ? 0 : shape->heads * shape->head_dim);
    g.count = (index == 0 ? shape->heads : shape->kv_heads) * shape->head_dim;
    g.gain = index == 0 ? q_gain : k_gain;
  } else {
    g.first = token * width + index * shape->head_dim;
    g.count = shape->head_dim;
    g.gain = index < shape->heads ? q_gain : k_gain;
  }
  return g;
}

static double gain_of(const group *g, mk_qk_norm norm, int64_t i) {
  return norm == MK_QK_NORM_NONE ? 1.0 : mk_ref_get(g->gain, i);
}

/* cos and sin for element i of a group, and its partner's element: i + hd/2 in the first half of a head, else - hd/2.
 */
static void rotation(const mk_tensor *rope, const mk_qk_shape *shape, int64_t token, int64_t i, double *cosine,
                     double *sine, int64_t *partner) {
  int64_t hd = shape->head_dim, half = hd / 2, d = i % hd, row = token % shape->seq_len * hd;
  *cosine = mk_ref_get(rope, row + d % half);
  *sine = mk_ref_get(rope, row + half + d % half);
  *partner = d < half ? i + half : i - half;
}

static void fwd_group(const mk_qk_norm_rope_fwd_args *a, int64_t token, const group *g) {
  double rstd = 1.0, squares = 0;
  if (a->norm != MK_QK_NORM_NONE) {
    for (int64_t i = 0; i < g->count; i++)
      squares += pow(mk_ref_get(&a->qkv, g->first + i), 2);
    rstd = 1.0 / sqrt(squares / (double)g->count + (double)a->eps);
    mk_ref_set(&a->rstd, g->rstd, rstd);
  }
  int64_t half = a->shape.head_dim / 2;
  for (int64_t i = 0; i < g->count; i++) {
    if (i % a->shape.head_dim >= half) continue; /* written with its partner, so that out may be qkv */
    double cosine, sine;
    int64_t j;
    rotation(&a->rope, &a->shape, token, i, &cosine, &sine, &j);
    double x1 = clamp(mk_ref_get(&a->qkv, g->first + i) * rstd * gain_of(g, a->norm, i), (double)a->clip);
    double x2 = clamp(mk_ref_get(&a->qkv, g->first + j) * rstd * gain_of(g, a->norm, j), (double)a->clip);
    mk_ref_set(&a->out, g->first + i, x1 * cosine - x2 * sine);
    mk_ref_set(&a->out, g->first + j, x2 * cosine + x1 * sine);
  }
}

mk_status mk_qk_norm_rope_fwd_ref(mk_stream *stream, const void *args) {
  const mk_qk_norm_rope_fwd_args *a = args;
  (void)stream;
  int64_t width = a->qkv.dim[1], v_first = (a->shape.heads + a->shape.kv_heads) * a->shape.head_dim;
  for (int64_t t = 0; t < a->qkv.dim[0]; t++) {
    for (int64_t index = 0; index < groups_of_token(&a->shape, a->norm); index++) {
      group g = group_at(&a->shape, a->norm, &a->q_gain, &a->k_gain, t, index);
      fwd_group(a, t, &g);
    }
    for (int64_t i = t * width + v_first; i < (t + 1) * width; i++) {
      mk_ref_set(&a->out, i, clamp(mk_ref_get(&a->qkv, i), (double)a->clip));
    }
  }
  return MK_OK;
}

/* Gradient of the normed, unclamped element i of a group: RoPE undone, clamp's mask applied. */
static double before_rope(const mk_qk_norm_rope_bwd_args *a, int64_t token, const group *g, double rstd, int64_t i) {
  double cosine, sine;
  int64_t partner;
  rotation(&a->rope, &a->shape, token, i, &cosine, &sine, &partner);
  double own = mk_ref_get(&a->dout, g->first + i), other = mk_ref_get(&a->dout, g->first + partner);
  double value = mk_ref_get(&a->qkv, g->first + i) * rstd * gain_of(g, a->norm, i);
  if (a->clip > 0 && fabs(value) > (double)a->clip) return 0;
  return partner > i ? own * cosine + other * sine : own * cosine - other * sine;
}

/* Element i of the input's gradient; `mean` is mean(e * gain * n) over the group. */
static double input_gradient(const mk_qk_norm_rope_bwd_args *a, const group *g, double rstd, double mean, double e,
                             int64_t i) {
  if (a->norm == MK_QK_NORM_NONE) return e;
  return rstd * (e * gain_of(g, a->norm, i) - mk_ref_get(&a->qkv, g->first + i) * rstd * mean);
}

static void bwd_group(const mk_qk_norm_rope_bwd_args *a, int64_t token, const group *g, const mk_tensor *dgain) {
  bool normed = a->norm != MK_QK_NORM_NONE;
  double rstd = normed ? mk_ref_get(&a->rstd, g->rstd) : 1.0, dot = 0;
  for (int64_t i = 0; i < g->count && normed; i++) {
    double e = before_rope(a, token, g, rstd, i), n = mk_ref_get(&a->qkv, g->first + i) * rstd;
    dot += e * gain_of(g, a->norm, i) * n;
    mk_ref_add(dgain, i, e * n);
  }
  double mean = dot / (double)g->count;
  for (int64_t i = 0; i < g->count; i++) {
    int64_t half = a->shape.head_dim / 2, j = i + half;
    if (i % a->shape.head_dim >= half) continue; /* both partners are read before either is written: dqkv may be dout */
    double e1 = before_rope(a, token, g, rstd, i), e2 = before_rope(a, token, g, rstd, j);
    mk_ref_set(&a->dqkv, g->first + i, input_gradient(a, g, rstd, mean, e1, i));
    mk_ref_set(&a->dqkv, g->first + j, input_gradient(a, g, rstd, mean, e2, j));
  }
}

mk_status mk_qk_norm_rope_bwd_ref(mk_stream *stream, const void *args) {
  const mk_qk_norm_rope_bwd_args *a = args;
  (void)stream;
  int64_t width = a->qkv.dim[1], v_first = (a->shape.heads + a->shape.kv_heads) * a->shape.head_dim;
  for (int64_t t = 0; t < a->qkv.dim[0]; t++) {
    for (int64_t index = 0; index < groups_of_token(&a->shape, a->norm); index++) {
      group g = group_at(&a->shape, a->norm, &a->q_gain, &a->k_gain, t, index);
      bwd_group(a, t, &g, g.gain == &a->q_gain ? &a->dq_gain : &a->dk_gain);
    }
    for (int64_t i = t * width + v_first; i < (t + 1) * width; i++) {
      bool clamped = a->clip > 0 && fabs(mk_ref_get(&a->qkv, i)) > (double)a->clip;
      mk_ref_set(&a->dqkv, i, clamped ? 0 : mk_ref_get(&a->dout, i));
    }
  }
  return MK_OK;
}
