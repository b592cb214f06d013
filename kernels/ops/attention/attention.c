/* Attention: checks, launch, size of the work memory. */
#include "kernels/ops/attention/attention.h"

#include "kernels/ops/check.h"

static mk_status check_shape(mk_stream *stream, const char *op, int64_t tokens, const mk_qk_shape *s) {
  bool heads = s->heads > 0 && s->kv_heads > 0 && s->heads % s->kv_heads == 0;
  MK_CHECK(stream->dev->ctx, heads, MK_ERR_ARG, "%s: %lld heads do not divide among %lld key-value heads", op,
           (long long)s->heads, (long long)s->kv_heads);
  MK_CHECK(stream->dev->ctx, s->head_dim > 0 && s->head_dim % 2 == 0, MK_ERR_ARG, "%s: head_dim %lld is not even", op,
           (long long)s->head_dim);
  MK_CHECK(stream->dev->ctx, s->seq_len > 0 && tokens % s->seq_len == 0, MK_ERR_ARG,
           "%s: %lld tokens are not whole sequences of %lld", op, (long long)tokens, (long long)s->seq_len);
  return MK_OK;
}

mk_status mk_attention_fwd(mk_stream *stream, const mk_attention_fwd_args *args) {
  const char *op = "attention_fwd";
  const mk_qk_shape *s = &args->shape;
  int64_t tokens = args->o.dim[0];
  MK_TRY(stream->dev->ctx, check_shape(stream, op, tokens, s));
  MK_CHECK_2D(stream, op, args, o, MK_ANY_FLOAT, -1, s->heads * s->head_dim);
  MK_CHECK_2D(stream, op, args, qkv, MK_ONE_OF(args->o.dtype), tokens, (s->heads + 2 * s->kv_heads) * s->head_dim);
  MK_CHECK_2D(stream, op, args, lse, MK_MASTER_FLOAT, s->heads, tokens);
  MK_CHECK_1D(stream, op, args, work, MK_ONE_OF(MK_U8), (int64_t)mk_attention_work_bytes(stream->dev, tokens, s));
  MK_CHECK_APART(stream, op, args, o, qkv);
  return mk_stream_launch(stream, MK_OP_attention_fwd, args, sizeof *args);
}

mk_status mk_attention_bwd(mk_stream *stream, const mk_attention_bwd_args *args) {
  const char *op = "attention_bwd";
  const mk_qk_shape *s = &args->shape;
  int64_t tokens = args->o.dim[0], width = (s->heads + 2 * s->kv_heads) * s->head_dim;
  MK_TRY(stream->dev->ctx, check_shape(stream, op, tokens, s));
  MK_CHECK_2D(stream, op, args, o, MK_ANY_FLOAT, -1, s->heads * s->head_dim);
  MK_CHECK_2D(stream, op, args, d_o, MK_ONE_OF(args->o.dtype), tokens, s->heads * s->head_dim);
  MK_CHECK_2D(stream, op, args, qkv, MK_ONE_OF(args->o.dtype), tokens, width);
  MK_CHECK_2D(stream, op, args, dqkv, MK_ONE_OF(args->o.dtype), tokens, width);
  MK_CHECK_2D(stream, op, args, lse, MK_MASTER_FLOAT, s->heads, tokens);
  MK_CHECK_1D(stream, op, args, work, MK_ONE_OF(MK_U8), (int64_t)mk_attention_work_bytes(stream->dev, tokens, s));
  return mk_stream_launch(stream, MK_OP_attention_bwd, args, sizeof *args);
}

/* Backward sums dk and dv over query blocks and over the heads of a group in FP32: [T, 2 G hd]. */
size_t mk_attention_work_bytes(mk_device *dev, int64_t tokens, const mk_qk_shape *shape) {
  enum { LEAST_BYTES = 64 };
  (void)dev;
  size_t sums = (size_t)(tokens * 2 * shape->kv_heads * shape->head_dim) * sizeof(float);
  return sums > LEAST_BYTES ? sums : LEAST_BYTES;
}
