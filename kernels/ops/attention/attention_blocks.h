/* Private to the cpu attention kernels: where the heads lie, block sizes, blocks as FP32. */
#ifndef KERNELS_OPS_ATTENTION_ATTENTION_BLOCKS_H
#define KERNELS_OPS_ATTENTION_ATTENTION_BLOCKS_H

#include "kernels/base/min_max.h"
#include "kernels/device/cpu/gemm.h"
#include "kernels/ops/attention/attention.h"

/* rows x head_dim floats with `ld` floats a row. */
typedef struct mk_attn_view {
  const float *data;
  int64_t ld;
} mk_attn_view;

/* A stack of query blocks, one for each of `heads` heads that share a key-value head, meets one key block at a time:
 * one GEMM of heads * queries rows. Tall stacks of short blocks waste little on the causal triangle and still repay
 * the packing of keys inside each GEMM. */
typedef struct mk_attn_blocks {
  int64_t heads, queries, keys;
} mk_attn_blocks;

/* Scratch of one thread: scores and their gradient, keys and values, four stacks, four numbers a stack row. */
static inline int64_t mk_attn_scratch_floats(const mk_attn_blocks *b, int64_t head_dim) {
  int64_t rows = b->heads * b->queries;
  return 2 * rows * b->keys + 2 * b->keys * head_dim + 4 * rows * (head_dim + 1);
}

/* The largest blocks whose scratch fits; a function of the head layout alone, as results depend on it. keys 0: none. */
static inline mk_attn_blocks mk_attn_choose_blocks(const mk_qk_shape *shape) {
  enum { STACK_ROWS = 128, MOST_HEADS = 6, LEAST_KEYS = 32 };
  int64_t group = shape->heads / shape->kv_heads;
  mk_attn_blocks b = {.heads = group < MOST_HEADS ? group : MOST_HEADS, .queries = 128, .keys = 512};
  if (b.queries > STACK_ROWS / b.heads) b.queries = STACK_ROWS / b.heads;
  while (b.keys >= LEAST_KEYS && mk_attn_scratch_floats(&b, shape->head_dim) > MK_CPU_SCRATCH_FLOATS) {
    if (b.heads > 1) {
      b.heads /= 2;
    } else {
      b.queries = b.queries > LEAST_KEYS ? b.queries / 2 : b.queries;
      b.keys /= 2;
    }
  }
  if (b.keys < LEAST_KEYS) b.keys = 0;
  return b;
}

static inline mk_status mk_attn_check(mk_stream *stream, mk_op_id op, const mk_tensor *qkv, const mk_qk_shape *s) {
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, op, qkv->dtype));
  MK_CHECK(stream->dev->ctx, mk_attn_choose_blocks(s).keys > 0, MK_ERR_UNSUPPORTED,
           "attention: head_dim %lld is more than the cpu kernel's scratch holds", (long long)s->head_dim);
  return MK_OK;
}

/* Element of a head's row; in qkv `head` counts q heads, then k heads, then v heads. */
static inline int64_t mk_attn_at(const mk_tensor *t, int64_t token, int64_t head, int64_t head_dim) {
  return token * t->dim[1] + head * head_dim;
}

/* rows x head_dim from element `first` of a row buffer: in place in FP32, else widened into `scratch`. */
static inline mk_attn_view mk_attn_take(const mk_tensor *t, int64_t first, int64_t rows, int64_t head_dim,
                                        float *scratch) {
  int64_t ld = t->dim[1];
  if (t->dtype == MK_F32) return (mk_attn_view){.data = (const float *)t->data + first, .ld = ld};
  mk_cpu_rows_load((const mk_bf16 *)t->data + first, t->dtype, ld, rows, head_dim, scratch, head_dim);
  return (mk_attn_view){.data = scratch, .ld = head_dim};
}

/* The same into `dst` in any case. */
static inline void mk_attn_get(const mk_tensor *t, int64_t first, int64_t rows, int64_t head_dim, float *dst) {
  const void *at = (const char *)t->data + (size_t)first * mk_dtype_bytes(t->dtype);
  mk_cpu_rows_load(at, t->dtype, t->dim[1], rows, head_dim, dst, head_dim);
}

static inline void mk_attn_put(const mk_tensor *t, int64_t first, int64_t rows, int64_t head_dim, const float *src,
                               int64_t src_ld) {
  void *at = (char *)t->data + (size_t)first * mk_dtype_bytes(t->dtype);
  mk_cpu_rows_store(src, src_ld, rows, head_dim, at, t->dtype, t->dim[1]);
}

/* Keys of block [first, first + n) that query `query` may read. */
static inline int64_t mk_attn_visible(int64_t query, int64_t first, int64_t n) {
  int64_t visible = query - first + 1;
  return visible < 0 ? 0 : mk_min(visible, n);
}

/* `n` rounded up to whole vectors: rows of scores are padded so far with neutral values, as a scalar remainder of up to
 * 15 exponentials would cost as much as the whole row. Key blocks are multiples of it. */
static inline int64_t mk_attn_padded(int64_t n) { return (n + 15) / 16 * 16; }

/* A stack at work: `queries` queries from `query` on (inside the sequence that starts at token `first`) of the heads
 * [head, head + heads), which read key-value head `kv`. */
typedef struct mk_attn_stack {
  int64_t first, query, queries, head, heads, kv;
} mk_attn_stack;

#endif
