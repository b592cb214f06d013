/* Route map: checks and launch. */
#include "kernels/ops/route_map/route_map.h"

#include "kernels/ops/check.h"
#include "kernels/ops/router/router.h"

static mk_status check_experts(mk_stream *stream, const char *op, int64_t experts) {
  MK_CHECK(stream->dev->ctx, experts >= 1 && experts <= MK_MAX_EXPERTS, MK_ERR_ARG,
           "%s: %lld experts, expected 1 to %d", op, (long long)experts, MK_MAX_EXPERTS);
  return MK_OK;
}

mk_status mk_route_count(mk_stream *stream, const mk_route_count_args *args) {
  const char *op = "route_count";
  mk_context *ctx = stream->dev->ctx;
  unsigned i32 = MK_ONE_OF(MK_I32);
  MK_CHECK_2D(stream, op, args, idx, i32, -1, -1);
  int64_t tokens = args->idx.dim[0];
  MK_CHECK_2D(stream, op, args, counts, i32, -1, -1);
  int64_t groups = args->counts.dim[0], experts = args->counts.dim[1];
  MK_TRY(ctx, check_experts(stream, op, experts));
  MK_CHECK(ctx, groups >= 1 && tokens % groups == 0, MK_ERR_ARG, "%s: %lld groups do not divide %lld tokens", op,
           (long long)groups, (long long)tokens);
  MK_CHECK(ctx, mk_tensor_count(&args->idx) <= INT32_MAX, MK_ERR_ARG, "%s: %lld routes do not fit 32-bit positions", op,
           (long long)mk_tensor_count(&args->idx));
  MK_CHECK_2D(stream, op, args, position, i32, tokens, args->idx.dim[1]);
  MK_CHECK_1D(stream, op, args, total, i32, experts);
  MK_CHECK(ctx, groups == 1 || args->total.data == NULL || args->total.data != args->counts.data, MK_ERR_ARG,
           "%s: total may share the memory of counts only when there is one group, not %lld", op, (long long)groups);
  if (mk_tensor_present(&args->step_counts)) {
    MK_CHECK_1D(stream, op, args, step_counts, MK_ONE_OF(MK_I64), experts);
  }
  return mk_stream_launch(stream, MK_OP_route_count, args, sizeof *args);
}

mk_status mk_route_map(mk_stream *stream, const mk_route_map_args *args) {
  const char *op = "route_map";
  mk_context *ctx = stream->dev->ctx;
  unsigned i32 = MK_ONE_OF(MK_I32);
  MK_CHECK(ctx, args->ranks >= 1 && args->rank >= 0 && args->rank < args->ranks, MK_ERR_ARG,
           "%s: rank %lld of %lld ranks", op, (long long)args->rank, (long long)args->ranks);
  MK_CHECK_2D(stream, op, args, requested, i32, args->ranks, -1);
  int64_t experts = args->requested.dim[1];
  MK_TRY(ctx, check_experts(stream, op, experts));
  MK_CHECK(ctx, experts % args->ranks == 0, MK_ERR_ARG, "%s: %lld ranks do not divide %lld experts", op,
           (long long)args->ranks, (long long)experts);
  MK_CHECK(ctx, args->capacity >= 1 && args->capacity <= INT32_MAX, MK_ERR_ARG,
           "%s: capacity of %lld rows, expected 1 to 2^31 - 1", op, (long long)args->capacity);
  MK_CHECK(ctx, args->expert_capacity >= 0 && args->expert_capacity <= INT32_MAX, MK_ERR_ARG,
           "%s: expert_capacity of %lld rows, expected 0 (none) to 2^31 - 1", op, (long long)args->expert_capacity);
  MK_CHECK_2D(stream, op, args, idx, i32, -1, -1);
  int64_t tokens = args->idx.dim[0], top_k = args->idx.dim[1];
  MK_CHECK_2D(stream, op, args, position, i32, tokens, top_k);
  if (mk_tensor_present(&args->dst_rank)) MK_CHECK_2D(stream, op, args, dst_rank, i32, tokens, top_k);
  MK_CHECK_2D(stream, op, args, dst_row, i32, tokens, top_k);
  MK_CHECK_2D(stream, op, args, keep, i32, args->ranks, experts);
  MK_CHECK_1D(stream, op, args, offsets, i32, experts / args->ranks + 1);
  if (mk_tensor_present(&args->sums)) MK_CHECK_1D(stream, op, args, sums, MK_ONE_OF(MK_F64), MK_SUM_COUNT);
  return mk_stream_launch(stream, MK_OP_route_map, args, sizeof *args);
}
