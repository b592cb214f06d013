/* Attention backward on the CPU. A task is one key-value head of one sequence, with all query heads of its group, so
 * that dk and dv are summed by one thread in a fixed order. The probabilities are recomputed from lse; with
 * delta = rowsum(d_o * o): ds = p * (d_o v^T - delta) / sqrt(hd), dq = ds k, dk += ds^T q, dv += p^T d_o
 * (Dao et al. 2022, arXiv 2205.14135, algorithm 4). p and ds stay in FP32. In bf16 dk and dv are summed in `work`. */
#include <math.h>
#include <omp.h>
#include <stdatomic.h>

#include "kernels/device/cpu/vector.h"
#include "kernels/ops/attention/attention_blocks.h"
#include "kernels/ops/op_decls.h"

typedef struct backward {
  const mk_attention_bwd_args *a;
  mk_attn_blocks blocks;
  float scale;
} backward;

/* One thread's scratch, and the sums of the task at hand. */
typedef struct slab {
  float *p, *ds;      /* [rows, keys] with rows = heads * queries */
  float *k, *v;       /* [keys, hd] */
  float *q, *d_o, *o; /* [rows, hd] */
  float *dq;          /* [rows, hd] */
  float *delta, *lse; /* [rows] */
  float *dk, *dv;     /* [S, hd] with sum_ld floats a row */
  int64_t sum_ld;
  int64_t loaded; /* first key of the block in k and v; -1: none */
} slab;

static slab slab_make(const backward *b, float *scratch) {
  int64_t hd = b->a->shape.head_dim, rows = b->blocks.heads * b->blocks.queries, keys = b->blocks.keys;
  slab s = {.p = scratch, .loaded = -1};
  s.ds = s.p + rows * keys;
  s.k = s.ds + rows * keys;
  s.v = s.k + keys * hd;
  s.q = s.v + keys * hd;
  s.d_o = s.q + rows * hd;
  s.o = s.d_o + rows * hd;
  s.dq = s.o + rows * hd;
  s.delta = s.dq + rows * hd;
  s.lse = s.delta + rows;
  return s;
}

/* p: scores become probabilities; ds: d_o v^T becomes the gradient of the scores before the scale. */
MK_VECTOR static void gradient_rows(const slab *s, int64_t ld, const mk_attn_stack *stack, int64_t key, int64_t n,
                                    float scale) {
  for (int64_t i = 0; i < stack->heads * stack->queries; i++) {
    float *p = s->p + i * ld, *ds = s->ds + i * ld, lse = s->lse[i], delta = s->delta[i];
    int64_t visible = mk_attn_visible(stack->query + i % stack->queries, key, n), padded = mk_attn_padded(visible);
    for (int64_t j = visible; j < padded; j++) {
      p[j] = -INFINITY;
      ds[j] = 0;
    }
#pragma omp simd
    for (int64_t j = 0; j < padded; j++) {
      p[j] = mk_expf(p[j] - lse);
      ds[j] = p[j] * (ds[j] - delta) * scale;
    }
    for (int64_t j = padded; j < n; j++) {
      p[j] = 0;
      ds[j] = 0;
    }
  }
}

MK_VECTOR static void dot_rows(const float *a, const float *b, int64_t rows, int64_t hd, float *out) {
  for (int64_t i = 0; i < rows; i++) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t d = 0; d < hd; d++)
      sum += a[i * hd + d] * b[i * hd + d];
    out[i] = sum;
  }
}

/* One key block against the stack. */
static bool key_block(const backward *b, slab *s, const mk_attn_stack *stack, int64_t key, int64_t n) {
  const mk_attention_bwd_args *a = b->a;
  int64_t hd = a->shape.head_dim, ld = b->blocks.keys, rows = stack->heads * stack->queries;
  int64_t k_at = mk_attn_at(&a->qkv, stack->first + key, a->shape.heads + stack->kv, hd);
  mk_attn_view k = {.data = s->k, .ld = hd}, v = {.data = s->v, .ld = hd};
  if (s->loaded != key) {
    int64_t all = mk_min(b->blocks.keys, a->shape.seq_len - key); /* later query blocks see more of it */
    k = mk_attn_take(&a->qkv, k_at, all, hd, s->k);
    v = mk_attn_take(&a->qkv, k_at + a->shape.kv_heads * hd, all, hd, s->v);
    if (a->qkv.dtype == MK_BF16) s->loaded = key;
  }
  float *dk = s->dk + key * s->sum_ld, *dv = s->dv + key * s->sum_ld, beta = key > 0 ? 1 : 0;
  if (!mk_cpu_sgemm('N', 'T', rows, n, hd, b->scale, s->q, hd, k.data, k.ld, 0, s->p, ld)) return false;
  if (!mk_cpu_sgemm('N', 'T', rows, n, hd, 1, s->d_o, hd, v.data, v.ld, 0, s->ds, ld)) return false;
  gradient_rows(s, ld, stack, key, n, b->scale);
  if (!mk_cpu_sgemm('T', 'N', n, hd, rows, 1, s->p, ld, s->d_o, hd, 1, dv, s->sum_ld)) return false;
  if (!mk_cpu_sgemm('T', 'N', n, hd, rows, 1, s->ds, ld, s->q, hd, 1, dk, s->sum_ld)) return false;
  return mk_cpu_sgemm('N', 'N', rows, hd, n, 1, s->ds, ld, k.data, k.ld, beta, s->dq, hd);
}

static void load(const backward *b, const slab *s, const mk_attn_stack *stack) {
  const mk_attention_bwd_args *a = b->a;
  int64_t hd = a->shape.head_dim, n = stack->queries, token = stack->first + stack->query;
  for (int64_t h = 0; h < stack->heads; h++) {
    int64_t row = h * n, o_at = mk_attn_at(&a->o, token, stack->head + h, hd);
    mk_attn_get(&a->qkv, mk_attn_at(&a->qkv, token, stack->head + h, hd), n, hd, s->q + row * hd);
    mk_attn_get(&a->d_o, o_at, n, hd, s->d_o + row * hd);
    mk_attn_get(&a->o, o_at, n, hd, s->o + row * hd);
    memcpy(s->lse + row, (const float *)a->lse.data + (stack->head + h) * a->o.dim[0] + token,
           (size_t)n * sizeof *s->lse);
  }
  dot_rows(s->d_o, s->o, stack->heads * n, hd, s->delta);
}

static bool run_stack(const backward *b, slab *s, const mk_attn_stack *stack) {
  const mk_tensor *dqkv = &b->a->dqkv;
  int64_t hd = b->a->shape.head_dim, n = stack->queries, end = stack->query + n;
  load(b, s, stack);
  for (int64_t key = 0; key < end; key += b->blocks.keys) {
    if (!key_block(b, s, stack, key, mk_min(b->blocks.keys, end - key))) return false;
  }
  for (int64_t h = 0; h < stack->heads; h++) {
    int64_t at = mk_attn_at(dqkv, stack->first + stack->query, stack->head + h, hd);
    mk_attn_put(dqkv, at, n, hd, s->dq + h * n * hd, hd);
  }
  return true;
}

/* Points dk and dv at their sums, and clears them: dqkv itself in FP32, else `work` as [T, 2 G hd]. */
static void sums_begin(const backward *b, slab *s, int64_t first, int64_t kv) {
  const mk_attention_bwd_args *a = b->a;
  int64_t hd = a->shape.head_dim, kv_heads = a->shape.kv_heads;
  bool in_place = a->dqkv.dtype == MK_F32;
  s->sum_ld = in_place ? a->dqkv.dim[1] : 2 * kv_heads * hd;
  s->dk = in_place ? (float *)a->dqkv.data + mk_attn_at(&a->dqkv, first, a->shape.heads + kv, hd)
                   : (float *)a->work.data + first * s->sum_ld + kv * hd;
  s->dv = s->dk + kv_heads * hd;
  for (int64_t t = 0; t < a->shape.seq_len; t++) {
    memset(s->dk + t * s->sum_ld, 0, (size_t)hd * sizeof(float));
    memset(s->dv + t * s->sum_ld, 0, (size_t)hd * sizeof(float));
  }
}

static void sums_end(const backward *b, const slab *s, int64_t first, int64_t kv) {
  const mk_attention_bwd_args *a = b->a;
  int64_t hd = a->shape.head_dim, at = mk_attn_at(&a->dqkv, first, a->shape.heads + kv, hd);
  if (a->dqkv.dtype == MK_F32) return;
  mk_attn_put(&a->dqkv, at, a->shape.seq_len, hd, s->dk, s->sum_ld);
  mk_attn_put(&a->dqkv, at + a->shape.kv_heads * hd, a->shape.seq_len, hd, s->dv, s->sum_ld);
}

static bool run_task(const backward *b, int64_t index, float *scratch) {
  const mk_qk_shape *shape = &b->a->shape;
  int64_t group = shape->heads / shape->kv_heads;
  mk_attn_stack stack = {.first = index / shape->kv_heads * shape->seq_len, .kv = index % shape->kv_heads};
  slab s = slab_make(b, scratch);
  sums_begin(b, &s, stack.first, stack.kv);
  for (int64_t head = 0; head < group; head += b->blocks.heads) {
    stack.head = stack.kv * group + head;
    stack.heads = mk_min(b->blocks.heads, group - head);
    for (stack.query = 0; stack.query < shape->seq_len; stack.query += b->blocks.queries) {
      stack.queries = mk_min(b->blocks.queries, shape->seq_len - stack.query);
      if (!run_stack(b, &s, &stack)) return false;
    }
  }
  sums_end(b, &s, stack.first, stack.kv);
  return true;
}

mk_status mk_attention_bwd_cpu(mk_stream *stream, const void *args) {
  const mk_attention_bwd_args *a = args;
  mk_cpu_device *dev = mk_cpu_device_of(stream);
  MK_TRY(stream->dev->ctx, mk_attn_check(stream, MK_OP_attention_bwd, &a->qkv, &a->shape));
  const backward b = {
      .a = a, .blocks = mk_attn_choose_blocks(&a->shape), .scale = 1.0f / sqrtf((float)a->shape.head_dim)};
  int64_t tasks = a->o.dim[0] / a->shape.seq_len * a->shape.kv_heads;
  atomic_bool failed = false;
#pragma omp parallel for schedule(dynamic, 1) num_threads(dev->threads)
  for (int64_t i = 0; i < tasks; i++) {
    if (!run_task(&b, i, mk_cpu_gemm_scratch(dev->gemm, omp_get_thread_num()))) atomic_store(&failed, true);
  }
  MK_CHECK(stream->dev->ctx, !atomic_load(&failed), MK_ERR_DEVICE,
           "attention_bwd: oneDNN failed, probably out of memory");
  return MK_OK;
}
