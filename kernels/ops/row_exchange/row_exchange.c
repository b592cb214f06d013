/* Row exchange: checks and launch. */
#include "kernels/ops/row_exchange/row_exchange.h"

#include "kernels/ops/check.h"

static mk_status check_routes(mk_stream *stream, const char *op, const mk_row_routes *routes) {
  MK_CHECK_2D(stream, op, routes, rank, MK_ONE_OF(MK_I32), -1, -1);
  MK_CHECK_2D(stream, op, routes, row, MK_ONE_OF(MK_I32), routes->rank.dim[0], routes->rank.dim[1]);
  MK_CHECK_1D(stream, op, routes, peers, MK_ONE_OF(MK_I64), -1);
  MK_CHECK(stream->dev->ctx, routes->offset >= 0 && routes->rows >= 0, MK_ERR_ARG,
           "%s: offset %lld and rows %lld must not be negative", op, (long long)routes->offset,
           (long long)routes->rows);
  return MK_OK;
}

mk_status mk_row_put(mk_stream *stream, const mk_row_put_args *args) {
  const char *op = "row_put";
  MK_TRY(stream->dev->ctx, check_routes(stream, op, &args->routes));
  MK_CHECK_2D(stream, op, args, x, MK_ANY_FLOAT | MK_ONE_OF(MK_U8), -1, -1);
  int64_t tokens = args->routes.rank.dim[0], routes = mk_tensor_count(&args->routes.rank);
  MK_CHECK(stream->dev->ctx, args->x.dim[0] == tokens || args->x.dim[0] == routes, MK_ERR_ARG,
           "%s: x has %lld rows, expected one a token (%lld) or one a route (%lld)", op, (long long)args->x.dim[0],
           (long long)tokens, (long long)routes);
  if (mk_tensor_present(&args->weights)) {
    MK_CHECK_2D(stream, op, args, x, MK_ANY_FLOAT, -1, -1);
    MK_CHECK_2D(stream, op, args, weights, MK_MASTER_FLOAT, args->x.dim[0], args->routes.rank.dim[1]);
  }
  return mk_stream_launch(stream, MK_OP_row_put, args, sizeof *args);
}

mk_status mk_row_get(mk_stream *stream, const mk_row_get_args *args) {
  const char *op = "row_get";
  MK_TRY(stream->dev->ctx, check_routes(stream, op, &args->routes));
  MK_CHECK_2D(stream, op, args, out, MK_ANY_FLOAT | MK_ONE_OF(MK_U8), mk_tensor_count(&args->routes.rank), -1);
  return mk_stream_launch(stream, MK_OP_row_get, args, sizeof *args);
}

mk_status mk_row_sum(mk_stream *stream, const mk_row_sum_args *args) {
  const char *op = "row_sum";
  MK_TRY(stream->dev->ctx, check_routes(stream, op, &args->routes));
  MK_CHECK_2D(stream, op, args, y, MK_ANY_FLOAT, args->routes.rank.dim[0], -1);
  if (mk_tensor_present(&args->add)) {
    MK_CHECK_2D(stream, op, args, add, MK_ONE_OF(args->y.dtype), args->y.dim[0], args->y.dim[1]);
  }
  return mk_stream_launch(stream, MK_OP_row_sum, args, sizeof *args);
}
