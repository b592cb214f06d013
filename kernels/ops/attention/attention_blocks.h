/* Private to the cpu attention kernels: where the heads lie, block sizes, views of blocks as FP32. */
#ifndef KERNELS_OPS_ATTENTION_ATTENTION_BLOCKS_H
#define KERNELS_OPS_ATTENTION_ATTENTION_BLOCKS_H

#include "kernels/device/cpu/gemm.h"
#include "kernels/ops/attention/attention.h"

/* rows x head_dim floats with `ld` floats a row. */
typedef struct mk_attn_view {
  const float *data;
  int64_t ld;
} mk_attn_view;

/* A query block meets one key block at a time; both with head_dim columns. */
typedef struct mk_attn_blocks {
  int64_t queries, keys;
} mk_attn_blocks;

/* Scratch of one thread: scores and their gradient, keys and values, four query blocks, three numbers a query. */
static inline int64_t mk_attn_scratch_floats(const mk_attn_blocks *b, int64_t head_dim) {
  return 2 * b->queries * b->keys + 2 * b->keys * head_dim + 4 * b->queries * head_dim + 4 * b->queries;
}

/* The largest blocks whose scratch fits; a function of head_dim alone, as results depend on it. keys 0: none fits. */
static inline mk_attn_blocks mk_attn_choose_blocks(int64_t head_dim) {
  mk_attn_blocks b = {.queries = 128, .keys = 512};
  while (b.keys >= 32 && mk_attn_scratch_floats(&b, head_dim) > MK_CPU_SCRATCH_FLOATS) {
    if (b.queries > 32) b.queries /= 2;
    b.keys /= 2;
  }
  if (b.keys < 32) b.keys = 0;
  return b;
}

static inline mk_status mk_attn_check(mk_stream *stream, mk_op_id op, const mk_tensor *qkv, const mk_qk_shape *s) {
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, op, qkv->dtype));
  MK_CHECK(stream->dev->ctx, mk_attn_choose_blocks(s->head_dim).keys > 0, MK_ERR_UNSUPPORTED,
           "attention: head_dim %lld is more than the cpu kernel's scratch holds", (long long)s->head_dim);
  return MK_OK;
}

/* First element of a head's row; `head` counts q heads, then k heads, then v heads. */
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

static inline void mk_attn_put(const mk_tensor *t, int64_t first, int64_t rows, int64_t head_dim, const float *src,
                               int64_t src_ld) {
  void *at = (char *)t->data + (size_t)first * mk_dtype_bytes(t->dtype);
  mk_cpu_rows_store(src, src_ld, rows, head_dim, at, t->dtype, t->dim[1]);
}

static inline int64_t mk_attn_min(int64_t a, int64_t b) { return a < b ? a : b; }

/* Keys of block [first, first + n) that query `query` may read. */
static inline int64_t mk_attn_visible(int64_t query, int64_t first, int64_t n) {
  int64_t visible = query - first + 1;
  return visible < 0 ? 0 : mk_attn_min(visible, n);
}

#endif
