/* Router: checks and launch. */
#include "kernels/ops/router/router.h"

#include "kernels/ops/check.h"

static mk_status check_sizes(mk_stream *stream, const char *op, const mk_tensor *logits, const mk_tensor *idx,
                             const mk_router_config *config) {
  mk_context *ctx = stream->dev->ctx;
  int64_t experts = logits->dim[1], top_k = idx->dim[1];
  MK_CHECK(ctx, experts >= 1 && experts <= MK_MAX_EXPERTS, MK_ERR_ARG, "%s: %lld experts, expected 1 to %d", op,
           (long long)experts, MK_MAX_EXPERTS);
  MK_CHECK(ctx, top_k >= 1 && top_k <= experts && top_k <= MK_MAX_TOP_K, MK_ERR_ARG,
           "%s: top-k is %lld of %lld experts, expected 1 to min(experts, %d)", op, (long long)top_k,
           (long long)experts, MK_MAX_TOP_K);
  MK_CHECK(ctx, config->first_token >= 0 && config->first_token + logits->dim[0] <= INT64_C(1) << 32, MK_ERR_ARG,
           "%s: first token %lld of %lld leaves [0, 2^32), the tokens of one step", op, (long long)config->first_token,
           (long long)logits->dim[0]);
  return MK_OK;
}

mk_status mk_router_fwd(mk_stream *stream, const mk_router_fwd_args *args) {
  const char *op = "router_fwd";
  MK_CHECK_2D(stream, op, args, logits, MK_MASTER_FLOAT, -1, -1);
  int64_t tokens = args->logits.dim[0], experts = args->logits.dim[1];
  unsigned real = MK_ONE_OF(args->logits.dtype);
  MK_CHECK_2D(stream, op, args, idx, MK_ONE_OF(MK_I32), tokens, -1);
  MK_TRY(stream->dev->ctx, check_sizes(stream, op, &args->logits, &args->idx, &args->config));
  if (mk_tensor_present(&args->bias)) MK_CHECK_1D(stream, op, args, bias, real, experts);
  MK_CHECK_1D(stream, op, args, state, MK_ONE_OF(MK_U8), (int64_t)sizeof(mk_step_state));
  MK_CHECK_2D(stream, op, args, scores, real, tokens, experts);
  MK_CHECK_2D(stream, op, args, weights, real, tokens, args->idx.dim[1]);
  MK_CHECK_1D(stream, op, args, lse, real, tokens);
  MK_CHECK_1D(stream, op, args, sums, MK_ONE_OF(MK_F64), MK_SUM_COUNT);
  return mk_stream_launch(stream, MK_OP_router_fwd, args, sizeof *args);
}

mk_status mk_router_bwd(mk_stream *stream, const mk_router_bwd_args *args) {
  const char *op = "router_bwd";
  mk_context *ctx = stream->dev->ctx;
  MK_CHECK_2D(stream, op, args, logits, MK_MASTER_FLOAT, -1, -1);
  int64_t tokens = args->logits.dim[0], experts = args->logits.dim[1];
  unsigned real = MK_ONE_OF(args->logits.dtype);
  MK_CHECK_2D(stream, op, args, idx, MK_ONE_OF(MK_I32), tokens, -1);
  MK_TRY(ctx, check_sizes(stream, op, &args->logits, &args->idx, &args->config));
  MK_CHECK_2D(stream, op, args, scores, real, tokens, experts);
  MK_CHECK_2D(stream, op, args, weights, real, tokens, args->idx.dim[1]);
  MK_CHECK_1D(stream, op, args, lse, real, tokens);
  MK_CHECK_2D(stream, op, args, dweights, real, tokens, args->idx.dim[1]);
  MK_CHECK_2D(stream, op, args, lb_coef, real, -1, experts);
  int64_t groups = args->lb_coef.dim[0];
  MK_CHECK(ctx, groups >= 1 && tokens % groups == 0, MK_ERR_ARG, "%s: %lld groups do not divide %lld tokens", op,
           (long long)groups, (long long)tokens);
  MK_CHECK_1D(stream, op, args, state, MK_ONE_OF(MK_U8), (int64_t)sizeof(mk_step_state));
  MK_CHECK_2D(stream, op, args, dlogits, real, tokens, experts);
  return mk_stream_launch(stream, MK_OP_router_bwd, args, sizeof *args);
}
