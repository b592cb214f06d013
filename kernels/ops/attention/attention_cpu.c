/* Attention forward on the CPU. A task is one query block of all heads that share a key-value head, so that keys and
 * values are widened once for the group; the longest prefixes go first. Scores against one key block stay in the
 * thread's second-level cache. Probabilities stay in FP32 for the product with v.
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
  float *scores; /* [rows, keys] with rows = heads * queries */
  float *k, *v;  /* [keys, hd] */
  float *q, *o;  /* [rows, hd] */
  float *max, *sum, *shrink;
  int64_t loaded; /* first key of the block in k and v; -1: none */
} slab;

static slab slab_make(const forward *f, float *scratch) {
  int64_t hd = f->a->shape.head_dim, rows = f->blocks.heads * f->blocks.queries, keys = f->blocks.keys;
  slab s = {.scores = scratch, .loaded = -1};
  s.k = s.scores + rows * keys;
  s.v = s.k + keys * hd;
  s.q = s.v + keys * hd;
  s.o = s.q + rows * hd;
  s.max = s.o + rows * hd;
  s.sum = s.max + rows;
  s.shrink = s.sum + rows;
  return s;
}

/* Running softmax over one key block: scores become exp(score - max), max and sum are brought up to date, and shrink is
 * what the sums so far must be multiplied by. Keys that a query may not read get 0. */
MK_VECTOR static void softmax_rows(const slab *s, int64_t ld, const mk_attn_stack *stack, int64_t key, int64_t n) {
  for (int64_t i = 0; i < stack->heads * stack->queries; i++) {
    float *row = s->scores + i * ld;
    int64_t visible = mk_attn_visible(stack->query + i % stack->queries, key, n), padded = mk_attn_padded(visible);
    float max = s->max[i], sum = 0;
    for (int64_t j = visible; j < padded; j++)
      row[j] = -INFINITY;
#pragma omp simd reduction(max : max)
    for (int64_t j = 0; j < padded; j++)
      max = row[j] > max ? row[j] : max;
    float shift = max == -INFINITY ? 0.0f : max;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < padded; j++) {
      row[j] = mk_expf(row[j] - shift);
      sum += row[j];
    }
    for (int64_t j = padded; j < n; j++)
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

/* One key block against the stack. */
static bool key_block(const forward *f, slab *s, const mk_attn_stack *stack, int64_t key, int64_t n) {
  const mk_attention_fwd_args *a = f->a;
  int64_t hd = a->shape.head_dim, rows = stack->heads * stack->queries, ld = f->blocks.keys;
  int64_t k_at = mk_attn_at(&a->qkv, stack->first + key, a->shape.heads + stack->kv, hd);
  mk_attn_view k = {.data = s->k, .ld = hd}, v = {.data = s->v, .ld = hd};
  if (s->loaded != key) {
    k = mk_attn_take(&a->qkv, k_at, n, hd, s->k);
    v = mk_attn_take(&a->qkv, k_at + a->shape.kv_heads * hd, n, hd, s->v);
    if (a->qkv.dtype == MK_BF16) s->loaded = key;
  }
  if (!mk_cpu_sgemm('N', 'T', rows, n, hd, f->scale, s->q, hd, k.data, k.ld, 0, s->scores, ld)) return false;
  softmax_rows(s, ld, stack, key, n);
  if (key > 0) scale_rows(s->o, hd, rows, s->shrink);
  return mk_cpu_sgemm('N', 'N', rows, hd, n, 1, s->scores, ld, v.data, v.ld, key > 0 ? 1 : 0, s->o, hd);
}

static void store(const forward *f, const slab *s, const mk_attn_stack *stack) {
  const mk_attention_fwd_args *a = f->a;
  int64_t hd = a->shape.head_dim, n = stack->queries, token = stack->first + stack->query;
  for (int64_t i = 0; i < stack->heads * n; i++)
    s->shrink[i] = 1.0f / s->sum[i];
  scale_rows(s->o, hd, stack->heads * n, s->shrink);
  for (int64_t h = 0; h < stack->heads; h++) {
    float *lse = (float *)a->lse.data + (stack->head + h) * a->o.dim[0] + token;
    for (int64_t i = 0; i < n; i++)
      lse[i] = s->max[h * n + i] + logf(s->sum[h * n + i]);
    mk_attn_put(&a->o, mk_attn_at(&a->o, token, stack->head + h, hd), n, hd, s->o + h * n * hd, hd);
  }
}

static bool run_stack(const forward *f, slab *s, const mk_attn_stack *stack) {
  const mk_tensor *qkv = &f->a->qkv;
  int64_t hd = f->a->shape.head_dim, n = stack->queries, end = stack->query + n;
  for (int64_t h = 0; h < stack->heads; h++)
    mk_attn_get(qkv, mk_attn_at(qkv, stack->first + stack->query, stack->head + h, hd), n, hd, s->q + h * n * hd);
  for (int64_t i = 0; i < stack->heads * n; i++) {
    s->max[i] = -INFINITY;
    s->sum[i] = 0;
  }
  for (int64_t key = 0; key < end; key += f->blocks.keys) {
    if (!key_block(f, s, stack, key, mk_min(f->blocks.keys, end - key))) return false;
  }
  store(f, s, stack);
  return true;
}

/* Task `index`: query blocks from the last to the first, inside them sequences and key-value heads. */
static bool run_task(const forward *f, int64_t index, float *scratch) {
  const mk_qk_shape *shape = &f->a->shape;
  int64_t sequences = f->a->o.dim[0] / shape->seq_len, per_block = sequences * shape->kv_heads;
  int64_t last_block = (shape->seq_len - 1) / f->blocks.queries, group = shape->heads / shape->kv_heads;
  mk_attn_stack stack = {.query = (last_block - index / per_block) * f->blocks.queries, .kv = index % shape->kv_heads};
  stack.first = index % per_block / shape->kv_heads * shape->seq_len;
  stack.queries = mk_min(f->blocks.queries, shape->seq_len - stack.query);
  slab s = slab_make(f, scratch);
  for (int64_t head = 0; head < group; head += f->blocks.heads) {
    stack.head = stack.kv * group + head;
    stack.heads = mk_min(f->blocks.heads, group - head);
    if (!run_stack(f, &s, &stack)) return false;
  }
  return true;
}

mk_status mk_attention_fwd_cpu(mk_stream *stream, const void *args) {
  const mk_attention_fwd_args *a = args;
  mk_cpu_device *dev = mk_cpu_device_of(stream);
  MK_TRY(stream->dev->ctx, mk_attn_check(stream, MK_OP_attention_fwd, &a->qkv, &a->shape));
  const forward f = {
      .a = a, .blocks = mk_attn_choose_blocks(&a->shape), .scale = 1.0f / sqrtf((float)a->shape.head_dim)};
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
