/* Combine, reference: FP64 sums in k order, any dtype. */
#include "kernels/ops/combine/combine_sum.h"
#include "kernels/ops/ids.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/ops.h"
#include "kernels/ops/ref_access.h"
#include "kernels/ops/row_exchange/row_place.h"

/* Route r's row as a tensor of one row, absent when it was dropped. */
static mk_tensor routed_row(const mk_combine_fwd_args *a, const mk_row_routes *routes, int64_t r, int64_t columns) {
  mk_tensor row = mk_tensor_1d(a->y.dtype, columns);
  if (routes != NULL) {
    row.data = mk_row_place(routes, r, mk_tensor_bytes(&row));
    return row.data != NULL ? row : (mk_tensor){0};
  }
  int64_t at = (int64_t)mk_ref_get(&a->map, r);
  return at >= 0 ? mk_tensor_rows(&a->rows, at, 1) : (mk_tensor){0};
}

mk_status mk_combine_sum_ref(mk_stream *stream, mk_op_id op, const mk_combine_fwd_args *a,
                             const mk_row_routes *routes) {
  const mk_tensor *map = routes != NULL ? &routes->rank : &a->map;
  int64_t tokens = map->dim[0], top_k = map->dim[1], columns = a->y.dim[1];
  if (routes != NULL) {
    MK_TRY(stream->dev->ctx, mk_row_routes_check(stream, mk_op_name(op), routes));
  } else {
    MK_TRY(stream->dev->ctx, mk_ids_check(stream, mk_op_name(op), "map", map, INT32_MIN, a->rows.dim[0]));
  }
  for (int64_t t = 0; t < tokens; t++) {
    for (int64_t c = 0; c < columns; c++) {
      double sum = 0;
      for (int64_t k = 0; k < top_k; k++) {
        mk_tensor row = routed_row(a, routes, t * top_k + k, columns);
        double weight = mk_tensor_present(&a->weights) ? mk_ref_get(&a->weights, t * top_k + k) : 1.0;
        if (mk_tensor_present(&row)) sum += weight * mk_ref_get(&row, c);
      }
      if (mk_tensor_present(&a->add)) sum += mk_ref_get(&a->add, t * columns + c);
      mk_ref_set(&a->y, t * columns + c, sum);
    }
  }
  return MK_OK;
}

mk_status mk_combine_fwd_ref(mk_stream *stream, const void *args) {
  return mk_combine_sum_ref(stream, MK_OP_combine_fwd, args, NULL);
}

mk_status mk_combine_bwd_ref(mk_stream *stream, const void *args) {
  const mk_combine_bwd_args *a = args;
  int64_t top_k = a->map.dim[1], columns = a->dy.dim[1];
  double rounded;
  mk_tensor cast = mk_tensor_1d(a->dy.dtype, 1);
  cast.data = &rounded;
  MK_TRY(stream->dev->ctx, mk_ids_check(stream, "combine_bwd", "map", &a->map, INT32_MIN, a->rows.dim[0]));
  for (int64_t r = 0; r < mk_tensor_count(&a->map); r++) {
    int64_t row = (int64_t)mk_ref_get(&a->map, r), token = r / top_k;
    double dot = 0;
    mk_ref_set(&cast, 0, mk_ref_get(&a->weights, r));
    double weight = mk_ref_get(&cast, 0);
    for (int64_t c = 0; row >= 0 && c < columns; c++) {
      double dy = mk_ref_get(&a->dy, token * columns + c);
      dot += dy * mk_ref_get(&a->rows, row * columns + c);
      if (mk_tensor_present(&a->drows)) mk_ref_set(&a->drows, row * columns + c, dy * weight);
    }
    mk_ref_set(&a->dweights, r, dot);
  }
  return MK_OK;
}
