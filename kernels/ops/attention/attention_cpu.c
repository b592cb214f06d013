/* Attention forward on the CPU. A task is one query block of all heads that share a key-value head, so that the keys
 * and values are widened once for the group; the longest prefixes go first. Scores of a query block against one key
 * block (256 KB) stay in the thread's second-level cache. Probabilities stay in FP32 for the product with v.
 * Dao et al. 2022, arXiv 2205.14135, algorithm 1, with query blocks in the outer loop (Dao 2023, arXiv 2307.08691). */
#include <math.h>
#include <omp.h>
#include <stdatomic.h>

#include "kernels/device/cpu/vector.h"
#include "kernels/ops/attention/attention_blocks.h"
#include "kernels/ops/op_decls.h"

typedef struct forward {
  const mk_attention_fwd_args *a;
  mk_attn_blocks blocks;
  float scale;
} forward;

/* One thread's view of its scratch. */
typedef struct slab {
  float *scores; /* [queries, keys] */
  float *k, *v;  /* [keys, hd] */
  float *q, *o;  /* [queries, hd] */
  float *max, *sum, *shrink;
  int64_t loaded; /* first key of the block in k and v; -1: none */
} slab;

static slab slab_make(const forward *f, float *scratch) {
  int64_t hd = f->a->shape.head_dim, queries = f->blocks.queries, keys = f->blocks.keys;
  slab s = {.scores = scratch, .loaded = -1};
  s.k = s.scores + queries * keys;
  s.v = s.k + keys * hd;
  s.q = s.v + keys * hd;
  s.o = s.q + queries * hd;
  s.max = s.o + queries * hd;
  s.sum = s.max + queries;
  s.shrink = s.sum + queries;
  return s;
}

/* Running softmax over one key block: scores become exp(score - max), max and sum are brought up to date, and shrink is
 * what the sums so far must be multiplied by. Keys that a query may not read get 0. */
MK_VECTOR static void softmax_rows(const slab *s, int64_t ld, int64_t rows, int64_t query, int64_t key, int64_t n) {
  for (int64_t i = 0; i < rows; i++) {
    float *row = s->scores + i * ld;
    int64_t visible = mk_attn_visible(query + i, key, n);
    float max = s->max[i], sum = 0;
#pragma omp simd reduction(max : max)
    for (int64_t j = 0; j < visible; j++)
      max = row[j] > max ? row[j] : max;
    float shift = max == -INFINITY ? 0.0f : max;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < visible; j++) {
      row[j] = mk_expf(row[j] - shift);
      sum += row[j];
    }
    for (int64_t j = visible; j < n; j++)
      row[j] = 0;
    s->shrink[i] = mk_expf(s->max[i] - shift);
    s->sum[i] = s->sum[i] * s->shrink[i] + sum;
    s->max[i] = max;
  }
}

MK_VECTOR static void scale_rows(float *o, int64_t hd, int64_t rows, const float *factor) {
  for (int64_t i = 0; i < rows; i++) {
#pragma omp simd
    for (int64_t d = 0; d < hd; d++)
      o[i * hd + d] *= factor[i];
  }
}

/* One query block of one head. `first` is the sequence's first token, `query` counts inside the sequence. */
static bool head_block(const forward *f, slab *s, int64_t first, int64_t query, int64_t rows, int64_t head) {
  const mk_attention_fwd_args *a = f->a;
  const mk_qk_shape *shape = &a->shape;
  int64_t hd = shape->head_dim, kv = head / (shape->heads / shape->kv_heads), ld = f->blocks.keys;
  mk_attn_view q = mk_attn_take(&a->qkv, mk_attn_at(&a->qkv, first + query, head, hd), rows, hd, s->q), k, v;
  for (int64_t i = 0; i < rows; i++) {
    s->max[i] = -INFINITY;
    s->sum[i] = 0;
  }
  for (int64_t key = 0; key < query + rows; key += f->blocks.keys) {
    int64_t n = mk_attn_min(f->blocks.keys, query + rows - key);
    int64_t k_at = mk_attn_at(&a->qkv, first + key, shape->heads + kv, hd), v_at = k_at + shape->kv_heads * hd;
    bool bf16 = a->qkv.dtype == MK_BF16;
    if (!bf16 || s->loaded != key) {
      k = mk_attn_take(&a->qkv, k_at, n, hd, s->k);
      v = mk_attn_take(&a->qkv, v_at, n, hd, s->v);
    } else {
      k = (mk_attn_view){.data = s->k, .ld = hd};
      v = (mk_attn_view){.data = s->v, .ld = hd};
    }
    s->loaded = key;
    if (!mk_cpu_sgemm('N', 'T', rows, n, hd, f->scale, q.data, q.ld, k.data, k.ld, 0, s->scores, ld)) return false;
    softmax_rows(s, ld, rows, query, key, n);
    if (key > 0) scale_rows(s->o, hd, rows, s->shrink);
    float beta = key > 0 ? 1 : 0;
    if (!mk_cpu_sgemm('N', 'N', rows, hd, n, 1, s->scores, ld, v.data, v.ld, beta, s->o, hd)) return false;
  }
  float *lse = (float *)a->lse.data + head * a->o.dim[0] + first + query;
  for (int64_t i = 0; i < rows; i++) {
    lse[i] = s->max[i] + logf(s->sum[i]);
    s->shrink[i] = 1.0f / s->sum[i];
  }
  scale_rows(s->o, hd, rows, s->shrink);
  mk_attn_put(&a->o, mk_attn_at(&a->o, first + query, head, hd), rows, hd, s->o, hd);
  return true;
}

/* Task `index`: query blocks from the last to the first, inside them sequences and groups. */
static bool run_task(const forward *f, int64_t index, float *scratch) {
  const mk_qk_shape *shape = &f->a->shape;
  int64_t sequences = f->a->o.dim[0] / shape->seq_len, per_block = sequences * shape->kv_heads;
  int64_t last_block = (shape->seq_len - 1) / f->blocks.queries;
  int64_t query = (last_block - index / per_block) * f->blocks.queries;
  int64_t sequence = index % per_block / shape->kv_heads, kv = index % shape->kv_heads;
  int64_t rows = mk_attn_min(f->blocks.queries, shape->seq_len - query), group = shape->heads / shape->kv_heads;
  slab s = slab_make(f, scratch);
  for (int64_t head = kv * group; head < (kv + 1) * group; head++) {
    if (!head_block(f, &s, sequence * shape->seq_len, query, rows, head)) return false;
  }
  return true;
}

mk_status mk_attention_fwd_cpu(mk_stream *stream, const void *args) {
  const mk_attention_fwd_args *a = args;
  mk_cpu_device *dev = mk_cpu_device_of(stream);
  MK_TRY(stream->dev->ctx, mk_attn_check(stream, MK_OP_attention_fwd, &a->qkv, &a->shape));
  const forward f = {
      .a = a, .blocks = mk_attn_choose_blocks(a->shape.head_dim), .scale = 1.0f / sqrtf((float)a->shape.head_dim)};
  int64_t query_blocks = (a->shape.seq_len + f.blocks.queries - 1) / f.blocks.queries;
  int64_t tasks = query_blocks * (a->o.dim[0] / a->shape.seq_len) * a->shape.kv_heads;
  atomic_bool failed = false;
#pragma omp parallel for schedule(dynamic, 1) num_threads(dev->threads)
  for (int64_t i = 0; i < tasks; i++) {
    if (!run_task(&f, i, mk_cpu_gemm_scratch(dev->gemm, omp_get_thread_num()))) atomic_store(&failed, true);
  }
  MK_CHECK(stream->dev->ctx, !atomic_load(&failed), MK_ERR_DEVICE,
           "attention_fwd: oneDNN failed, probably out of memory");
  return MK_OK;
}
