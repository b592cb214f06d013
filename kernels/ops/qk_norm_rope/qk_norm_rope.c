/* QK-norm and RoPE: checks and launch. */
#include "kernels/ops/qk_norm_rope/qk_norm_rope.h"

#include "kernels/ops/check.h"

static mk_status check_shape(mk_stream *stream, const char *op, const mk_qk_shape *shape, int64_t tokens) {
  MK_CHECK(stream->dev->ctx,
           shape->heads > 0 && shape->kv_heads > 0 && shape->heads % shape->kv_heads == 0 && shape->head_dim > 0 &&
               shape->head_dim % 2 == 0 && shape->seq_len > 0 && tokens % shape->seq_len == 0,
           MK_ERR_ARG,
           "%s: %lld heads, %lld kv heads, head_dim %lld, seq_len %lld, %lld tokens: kv heads must divide heads, "
           "head_dim be even, seq_len divide the tokens",
           op, (long long)shape->heads, (long long)shape->kv_heads, (long long)shape->head_dim,
           (long long)shape->seq_len, (long long)tokens);
  return MK_OK;
}

/* Elements of the q gain (for `heads`) or k gain (for `kv_heads`). */
static int64_t gain_count(mk_qk_norm norm, const mk_qk_shape *shape, int64_t heads) {
  return norm == MK_QK_NORM_FULL ? heads * shape->head_dim : shape->head_dim;
}

mk_status mk_qk_norm_rope_fwd(mk_stream *stream, const mk_qk_norm_rope_fwd_args *args) {
  const char *op = "qk_norm_rope_fwd";
  const mk_qk_shape *shape = &args->shape;
  int64_t tokens = args->qkv.dim[0], width = (shape->heads + 2 * shape->kv_heads) * shape->head_dim;
  MK_TRY(stream->dev->ctx, check_shape(stream, op, shape, tokens));
  MK_CHECK_2D(stream, op, args, qkv, MK_ANY_FLOAT, tokens, width);
  MK_CHECK_2D(stream, op, args, out, MK_ONE_OF(args->qkv.dtype), tokens, width);
  MK_CHECK_2D(stream, op, args, rope, MK_MASTER_FLOAT, shape->seq_len, shape->head_dim);
  if (args->norm != MK_QK_NORM_NONE) {
    MK_CHECK_1D(stream, op, args, q_gain, MK_ANY_FLOAT, gain_count(args->norm, shape, shape->heads));
    MK_CHECK_1D(stream, op, args, k_gain, MK_ONE_OF(args->q_gain.dtype),
                gain_count(args->norm, shape, shape->kv_heads));
    MK_CHECK_2D(stream, op, args, rstd, MK_MASTER_FLOAT, tokens, shape->heads + shape->kv_heads);
  }
  MK_CHECK(stream->dev->ctx, args->clip >= 0 && args->eps >= 0, MK_ERR_ARG, "%s: clip %g and eps %g: not negative", op,
           (double)args->clip, (double)args->eps);
  return mk_stream_launch(stream, MK_OP_qk_norm_rope_fwd, args, sizeof *args);
}

mk_status mk_qk_norm_rope_bwd(mk_stream *stream, const mk_qk_norm_rope_bwd_args *args) {
  const char *op = "qk_norm_rope_bwd";
  const mk_qk_shape *shape = &args->shape;
  int64_t tokens = args->qkv.dim[0], width = (shape->heads + 2 * shape->kv_heads) * shape->head_dim;
  MK_TRY(stream->dev->ctx, check_shape(stream, op, shape, tokens));
  MK_CHECK_2D(stream, op, args, qkv, MK_ANY_FLOAT, tokens, width);
  MK_CHECK_2D(stream, op, args, dout, MK_ONE_OF(args->qkv.dtype), tokens, width);
  MK_CHECK_2D(stream, op, args, dqkv, MK_ONE_OF(args->qkv.dtype), tokens, width);
  MK_CHECK_2D(stream, op, args, rope, MK_MASTER_FLOAT, shape->seq_len, shape->head_dim);
  if (args->norm != MK_QK_NORM_NONE) {
    int64_t q_count = gain_count(args->norm, shape, shape->heads);
    int64_t k_count = gain_count(args->norm, shape, shape->kv_heads);
    MK_CHECK_1D(stream, op, args, q_gain, MK_ANY_FLOAT, q_count);
    MK_CHECK_1D(stream, op, args, k_gain, MK_ONE_OF(args->q_gain.dtype), k_count);
    MK_CHECK_2D(stream, op, args, rstd, MK_MASTER_FLOAT, tokens, shape->heads + shape->kv_heads);
    MK_CHECK_1D(stream, op, args, dq_gain, MK_MASTER_FLOAT, q_count);
    MK_CHECK_1D(stream, op, args, dk_gain, MK_MASTER_FLOAT, k_count);
  }
  return mk_stream_launch(stream, MK_OP_qk_norm_rope_bwd, args, sizeof *args);
}
