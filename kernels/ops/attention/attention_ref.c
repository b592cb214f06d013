/* Attention, reference: FP64, one query row at a time. */
#include <math.h>

#include "kernels/ops/attention/attention.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/ref_access.h"

/* Element index of q head h, and of the k and v heads that it reads, at token t. */
static int64_t width_of(const mk_qk_shape *s) { return (s->heads + 2 * s->kv_heads) * s->head_dim; }

static int64_t q_at(const mk_qk_shape *s, int64_t t, int64_t h) { return t * width_of(s) + h * s->head_dim; }

static int64_t k_at(const mk_qk_shape *s, int64_t t, int64_t h) {
  return t * width_of(s) + (s->heads + h / (s->heads / s->kv_heads)) * s->head_dim;
}

static int64_t v_at(const mk_qk_shape *s, int64_t t, int64_t h) { return k_at(s, t, h) + s->kv_heads * s->head_dim; }

static double dot(const mk_tensor *a, int64_t a_at, const mk_tensor *b, int64_t b_at, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += mk_ref_get(a, a_at + i) * mk_ref_get(b, b_at + i);
  return sum;
}

static double score(const mk_tensor *qkv, const mk_qk_shape *s, int64_t query, int64_t key, int64_t h) {
  return dot(qkv, q_at(s, query, h), qkv, k_at(s, key, h), s->head_dim) / sqrt((double)s->head_dim);
}

static void add_scaled(double *sum, double factor, const mk_tensor *t, int64_t at, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    sum[i] += factor * mk_ref_get(t, at + i);
}

static void store(const mk_tensor *t, int64_t at, const double *values, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    mk_ref_set(t, at + i, values[i]);
}

enum { CHUNK = 64 }; /* columns that are summed at once in FP64, whatever the dtype of the output */

static void forward_row(const mk_attention_fwd_args *a, int64_t t, int64_t h) {
  const mk_qk_shape *s = &a->shape;
  int64_t first = t - t % s->seq_len, o_at = (t * s->heads + h) * s->head_dim;
  double max = -INFINITY, sum = 0;
  for (int64_t key = first; key <= t; key++)
    max = fmax(max, score(&a->qkv, s, t, key, h));
  for (int64_t key = first; key <= t; key++)
    sum += exp(score(&a->qkv, s, t, key, h) - max);
  for (int64_t d = 0; d < s->head_dim; d += CHUNK) {
    double o[CHUNK] = {0};
    int64_t n = d + CHUNK < s->head_dim ? CHUNK : s->head_dim - d;
    for (int64_t key = first; key <= t; key++)
      add_scaled(o, exp(score(&a->qkv, s, t, key, h) - max) / sum, &a->qkv, v_at(s, key, h) + d, n);
    store(&a->o, o_at + d, o, n);
  }
  mk_ref_set(&a->lse, h * a->o.dim[0] + t, max + log(sum));
}

mk_status mk_attention_fwd_ref(mk_stream *stream, const void *args) {
  const mk_attention_fwd_args *a = args;
  (void)stream;
  for (int64_t t = 0; t < a->o.dim[0]; t++) {
    for (int64_t h = 0; h < a->shape.heads; h++)
      forward_row(a, t, h);
  }
  return MK_OK;
}

/* Probability of a pair, and the gradient of its score times 1 / sqrt(hd). */
static double pair(const mk_attention_bwd_args *a, int64_t t, int64_t key, int64_t h, double *ds) {
  const mk_qk_shape *s = &a->shape;
  int64_t n = s->head_dim, o_at = (t * s->heads + h) * n;
  double p = exp(score(&a->qkv, s, t, key, h) - mk_ref_get(&a->lse, h * a->o.dim[0] + t));
  double delta = dot(&a->d_o, o_at, &a->o, o_at, n);
  *ds = p * (dot(&a->d_o, o_at, &a->qkv, v_at(s, key, h), n) - delta) / sqrt((double)n);
  return p;
}

static void backward_query(const mk_attention_bwd_args *a, int64_t t, int64_t h, int64_t d, int64_t n) {
  const mk_qk_shape *s = &a->shape;
  double dq[CHUNK] = {0}, ds;
  for (int64_t key = t - t % s->seq_len; key <= t; key++) {
    pair(a, t, key, h, &ds);
    add_scaled(dq, ds, &a->qkv, k_at(s, key, h) + d, n);
  }
  store(&a->dqkv, q_at(s, t, h) + d, dq, n);
}

/* dk and dv of the key-value head that q heads [head, head + group) read. */
static void backward_key(const mk_attention_bwd_args *a, int64_t key, int64_t head, int64_t d, int64_t n) {
  const mk_qk_shape *s = &a->shape;
  double dk[CHUNK] = {0}, dv[CHUNK] = {0}, ds;
  int64_t end = key - key % s->seq_len + s->seq_len;
  for (int64_t h = head; h < head + s->heads / s->kv_heads; h++) {
    for (int64_t t = key; t < end; t++) {
      double p = pair(a, t, key, h, &ds);
      add_scaled(dv, p, &a->d_o, (t * s->heads + h) * s->head_dim + d, n);
      add_scaled(dk, ds, &a->qkv, q_at(s, t, h) + d, n);
    }
  }
  store(&a->dqkv, k_at(s, key, head) + d, dk, n);
  store(&a->dqkv, v_at(s, key, head) + d, dv, n);
}

mk_status mk_attention_bwd_ref(mk_stream *stream, const void *args) {
  const mk_attention_bwd_args *a = args;
  const mk_qk_shape *s = &a->shape;
  (void)stream;
  for (int64_t d = 0; d < s->head_dim; d += CHUNK) {
    int64_t n = d + CHUNK < s->head_dim ? CHUNK : s->head_dim - d;
    for (int64_t t = 0; t < a->o.dim[0]; t++) {
      for (int64_t h = 0; h < s->heads; h++)
        backward_query(a, t, h, d, n);
      for (int64_t h = 0; h < s->heads; h += s->heads / s->kv_heads)
        backward_key(a, t, h, d, n);
    }
  }
  return MK_OK;
}
