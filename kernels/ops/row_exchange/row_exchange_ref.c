/* Row exchange, reference: row after row. */
#include <string.h>

#include "kernels/ops/combine/combine_sum.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/ref_access.h"
#include "kernels/ops/row_exchange/row_place.h"

/* to = cast(x * cast(weight of route r)), both 1-d. */
static void weigh_row(const mk_row_put_args *a, int64_t r, const mk_tensor *x, const mk_tensor *to) {
  double rounded;
  mk_tensor cast = mk_tensor_1d(a->x.dtype, 1);
  cast.data = &rounded;
  mk_ref_set(&cast, 0, mk_ref_get(&a->weights, r));
  for (int64_t c = 0; c < mk_tensor_count(x); c++)
    mk_ref_set(to, c, mk_ref_get(x, c) * mk_ref_get(&cast, 0));
}

mk_status mk_row_put_ref(mk_stream *stream, const void *args) {
  const mk_row_put_args *a = args;
  int64_t routes = mk_tensor_count(&a->routes.rank), top_k = a->routes.rank.dim[1];
  size_t row_bytes = (size_t)a->x.dim[1] * mk_dtype_bytes(a->x.dtype);
  MK_TRY(stream->dev->ctx, mk_row_routes_check(stream, "row_put", &a->routes));
  for (int64_t r = 0; r < routes; r++) {
    mk_tensor from = mk_tensor_rows(&a->x, a->x.dim[0] == routes ? r : r / top_k, 1), to = from;
    to.data = mk_row_place(&a->routes, r, row_bytes);
    if (to.data == NULL) continue;
    if (mk_tensor_present(&a->weights)) {
      weigh_row(a, r, &from, &to);
    } else {
      memcpy(to.data, from.data, row_bytes);
    }
  }
  return MK_OK;
}

mk_status mk_row_get_ref(mk_stream *stream, const void *args) {
  const mk_row_get_args *a = args;
  size_t row_bytes = (size_t)a->out.dim[1] * mk_dtype_bytes(a->out.dtype);
  MK_TRY(stream->dev->ctx, mk_row_routes_check(stream, "row_get", &a->routes));
  for (int64_t r = 0; r < a->out.dim[0]; r++) {
    const char *from = mk_row_place(&a->routes, r, row_bytes);
    char *to = (char *)a->out.data + (size_t)r * row_bytes;
    if (from != NULL) {
      memcpy(to, from, row_bytes);
    } else {
      memset(to, 0, row_bytes);
    }
  }
  return MK_OK;
}

mk_status mk_row_sum_ref(mk_stream *stream, const void *args) {
  const mk_row_sum_args *a = args;
  mk_combine_fwd_args sum = {.add = a->add, .y = a->y};
  return mk_combine_sum_ref(stream, MK_OP_row_sum, &sum, &a->routes);
}
