/* Row exchange, reference: row after row. */
#include <string.h>

#include "kernels/ops/op_decls.h"
#include "kernels/ops/row_exchange/row_place.h"

mk_status mk_row_put_ref(mk_stream *stream, const void *args) {
  const mk_row_put_args *a = args;
  int64_t routes = mk_tensor_count(&a->routes.rank), top_k = a->routes.rank.dim[1];
  size_t row_bytes = (size_t)a->x.dim[1] * mk_dtype_bytes(a->x.dtype);
  MK_TRY(stream->dev->ctx, mk_row_routes_check(stream, "row_put", &a->routes));
  for (int64_t r = 0; r < routes; r++) {
    char *to = mk_row_place(&a->routes, r, row_bytes);
    int64_t from = a->x.dim[0] == routes ? r : r / top_k;
    if (to != NULL) memcpy(to, (const char *)a->x.data + (size_t)from * row_bytes, row_bytes);
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
