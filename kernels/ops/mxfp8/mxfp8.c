/* MXFP8: shapes, checks and launch. */
#include "kernels/ops/mxfp8/mxfp8.h"

#include "kernels/ops/mxfp8/mxfp8_check.h"

mk_mxfp8 mk_mxfp8_shape(int64_t groups, int64_t n, int64_t k) {
  int64_t blocks = mk_mxfp8_blocks(k);
  if (groups == 0) return (mk_mxfp8){.q = mk_tensor_2d(MK_U8, n, k), .scale = mk_tensor_2d(MK_U8, n, blocks)};
  return (mk_mxfp8){.q = mk_tensor_3d(MK_U8, groups, n, k), .scale = mk_tensor_3d(MK_U8, groups, n, blocks)};
}

static mk_status check_rows(mk_stream *stream, const char *op, const mk_tensor *rows) {
  if (!mk_tensor_present(rows)) return MK_OK;
  return mk_check_tensor(stream, op, "rows", rows, MK_ONE_OF(MK_I32), 1, 1, 1, 1);
}

mk_status mk_mxfp8_quantize(mk_stream *stream, const mk_mxfp8_quantize_args *args) {
  const char *op = "mxfp8_quantize";
  mk_context *ctx = stream->dev->ctx;
  bool stack = args->x.n_dims == 3, turned = args->transpose != 0;
  MK_TRY(ctx, mk_check_tensor(stream, op, "x", &args->x, MK_ANY_FLOAT, stack ? 3 : 2, -1, -1, stack ? -1 : 1));
  int64_t n = args->x.dim[stack ? 1 : 0], k = args->x.dim[stack ? 2 : 1];
  MK_TRY(ctx, check_rows(stream, op, &args->rows));
  MK_CHECK(ctx, !mk_tensor_present(&args->rows) || (!stack && !turned), MK_ERR_ARG,
           "%s: rows bounds a plain matrix only; a block along rows would cross it", op);
  MK_CHECK(ctx, args->rule == MK_MXFP8_RCEIL || args->rule == MK_MXFP8_FLOOR, MK_ERR_ARG, "%s: no scale rule %d", op,
           (int)args->rule);
  MK_TRY(ctx, mk_mxfp8_check(stream, op, &args->out, stack ? args->x.dim[0] : -1, turned ? k : n, turned ? n : k));
  return mk_stream_launch(stream, MK_OP_mxfp8_quantize, args, sizeof *args);
}

mk_status mk_mxfp8_dequantize(mk_stream *stream, const mk_mxfp8_dequantize_args *args) {
  const char *op = "mxfp8_dequantize";
  MK_TRY(stream->dev->ctx, mk_mxfp8_check(stream, op, &args->x, -1, -1, -1));
  MK_TRY(stream->dev->ctx, check_rows(stream, op, &args->rows));
  MK_CHECK_2D(stream, op, args, y, MK_ANY_FLOAT, args->x.q.dim[0], args->x.q.dim[1]);
  return mk_stream_launch(stream, MK_OP_mxfp8_dequantize, args, sizeof *args);
}
