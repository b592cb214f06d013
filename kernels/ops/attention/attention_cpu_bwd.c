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

/* One thread's state: scratch blocks, and the sums of the task at hand. */
typedef struct slab {
  float *p, *ds;          /* [queries, keys] */
  float *k, *v;           /* [keys, hd] */
  float *q, *d_o, *o;     /* [queries, hd]; widened */
  float *dq;              /* [queries, hd] */
  float *delta;           /* [queries] */
  float *dk, *dv;         /* [S, hd] with sum_ld floats a row */
  int64_t sum_ld, loaded; /* loaded: first key of the block in k and v; -1: none */
} slab;

/* A query block of one head: its place and its blocks. */
typedef struct queries {
  int64_t first, query, rows, head; /* first token of the sequence; query counts inside it */
  mk_attn_view q, d_o;
  const float *lse;
} queries;

static slab slab_make(const backward *b, float *scratch) {
  int64_t hd = b->a->shape.head_dim, rows = b->blocks.queries, keys = b->blocks.keys;
  slab s = {.p = scratch, .loaded = -1};
  s.ds = s.p + rows * keys;
  s.k = s.ds + rows * keys;
  s.v = s.k + keys * hd;
  s.q = s.v + keys * hd;
  s.d_o = s.q + rows * hd;
  s.o = s.d_o + rows * hd;
  s.dq = s.o + rows * hd;
  s.delta = s.dq + rows * hd;
  return s;
}

/* p: scores become probabilities; ds: d_o v^T becomes the gradient of the scores before the scale. */
MK_VECTOR static void gradient_rows(const slab *s, int64_t ld, const queries *b, int64_t key, int64_t n, float scale) {
  for (int64_t i = 0; i < b->rows; i++) {
    float *p = s->p + i * ld, *ds = s->ds + i * ld, lse = b->lse[i], delta = s->delta[i];
    int64_t visible = mk_attn_visible(b->query + i, key, n);
#pragma omp simd
    for (int64_t j = 0; j < visible; j++) {
      p[j] = mk_expf(p[j] - lse);
      ds[j] = p[j] * (ds[j] - delta) * scale;
    }
    for (int64_t j = visible; j < n; j++) {
      p[j] = 0;
      ds[j] = 0;
    }
  }
}

MK_VECTOR static void dot_rows(mk_attn_view a, mk_attn_view b, int64_t rows, int64_t hd, float *out) {
  for (int64_t i = 0; i < rows; i++) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t d = 0; d < hd; d++)
      sum += a.data[i * a.ld + d] * b.data[i * b.ld + d];
    out[i] = sum;
  }
}

/* One key block against one query block. */
static bool key_block(const backward *b, slab *s, const queries *block, int64_t kv, int64_t key, int64_t n) {
  const mk_attention_bwd_args *a = b->a;
  int64_t hd = a->shape.head_dim, ld = b->blocks.keys, rows = block->rows;
  int64_t k_at = mk_attn_at(&a->qkv, block->first + key, a->shape.heads + kv, hd);
  mk_attn_view k = {.data = s->k, .ld = hd}, v = {.data = s->v, .ld = hd};
  if (s->loaded != key) {
    int64_t all = mk_attn_min(b->blocks.keys, a->shape.seq_len - key); /* later query blocks see more of it */
    k = mk_attn_take(&a->qkv, k_at, all, hd, s->k);
    v = mk_attn_take(&a->qkv, k_at + a->shape.kv_heads * hd, all, hd, s->v);
    if (a->qkv.dtype == MK_BF16) s->loaded = key;
  }
  float *dk = s->dk + key * s->sum_ld, *dv = s->dv + key * s->sum_ld, beta = key > 0 ? 1 : 0;
  const mk_attn_view *q = &block->q, *d_o = &block->d_o;
  if (!mk_cpu_sgemm('N', 'T', rows, n, hd, b->scale, q->data, q->ld, k.data, k.ld, 0, s->p, ld)) return false;
  if (!mk_cpu_sgemm('N', 'T', rows, n, hd, 1, d_o->data, d_o->ld, v.data, v.ld, 0, s->ds, ld)) return false;
  gradient_rows(s, ld, block, key, n, b->scale);
  if (!mk_cpu_sgemm('T', 'N', n, hd, rows, 1, s->p, ld, d_o->data, d_o->ld, 1, dv, s->sum_ld)) return false;
  if (!mk_cpu_sgemm('T', 'N', n, hd, rows, 1, s->ds, ld, q->data, q->ld, 1, dk, s->sum_ld)) return false;
  return mk_cpu_sgemm('N', 'N', rows, hd, n, 1, s->ds, ld, k.data, k.ld, beta, s->dq, hd);
}

/* One query block of one head against its prefix. */
static bool query_block(const backward *b, slab *s, int64_t first, int64_t query, int64_t head, int64_t kv) {
  const mk_attention_bwd_args *a = b->a;
  int64_t hd = a->shape.head_dim, tokens = a->o.dim[0];
  queries block = {.first = first, .query = query, .head = head};
  block.rows = mk_attn_min(b->blocks.queries, a->shape.seq_len - query);
  block.lse = (const float *)a->lse.data + head * tokens + first + query;
  int64_t o_at = mk_attn_at(&a->o, first + query, head, hd), q_at = mk_attn_at(&a->qkv, first + query, head, hd);
  block.q = mk_attn_take(&a->qkv, q_at, block.rows, hd, s->q);
  block.d_o = mk_attn_take(&a->d_o, o_at, block.rows, hd, s->d_o);
  dot_rows(block.d_o, mk_attn_take(&a->o, o_at, block.rows, hd, s->o), block.rows, hd, s->delta);
  for (int64_t key = 0; key < query + block.rows; key += b->blocks.keys) {
    int64_t n = mk_attn_min(b->blocks.keys, query + block.rows - key);
    if (!key_block(b, s, &block, kv, key, n)) return false;
  }
  mk_attn_put(&a->dqkv, q_at, block.rows, hd, s->dq, hd);
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
  int64_t first = index / shape->kv_heads * shape->seq_len, kv = index % shape->kv_heads;
  int64_t group = shape->heads / shape->kv_heads;
  slab s = slab_make(b, scratch);
  sums_begin(b, &s, first, kv);
  for (int64_t head = kv * group; head < (kv + 1) * group; head++) {
    for (int64_t query = 0; query < shape->seq_len; query += b->blocks.queries) {
      if (!query_block(b, &s, first, query, head, kv)) return false;
    }
  }
  sums_end(b, &s, first, kv);
  return true;
}

mk_status mk_attention_bwd_cpu(mk_stream *stream, const void *args) {
  const mk_attention_bwd_args *a = args;
  mk_cpu_device *dev = mk_cpu_device_of(stream);
  MK_TRY(stream->dev->ctx, mk_attn_check(stream, MK_OP_attention_bwd, &a->qkv, &a->shape));
  const backward b = {
      .a = a, .blocks = mk_attn_choose_blocks(a->shape.head_dim), .scale = 1.0f / sqrtf((float)a->shape.head_dim)};
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
