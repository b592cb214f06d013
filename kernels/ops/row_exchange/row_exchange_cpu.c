/* Row exchange on the CPU: row copies into and out of memory that the ranks of a node share, routes split over threads.
 * A row that no route names is not touched, so that puts of several ranks never meet. */
#include <string.h>

#include "kernels/device/cpu/cpu_device.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/device/cpu/vector.h"
#include "kernels/ops/combine/combine_sum.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/row_exchange/row_place.h"

enum { PIECE_ELEMENTS = 32768 };

static void put_routes(const void *args, int64_t first, int64_t count) {
  const mk_row_put_args *a = args;
  int64_t routes = mk_tensor_count(&a->routes.rank), top_k = a->routes.rank.dim[1];
  size_t row_bytes = (size_t)a->x.dim[1] * mk_dtype_bytes(a->x.dtype);
  bool per_route = a->x.dim[0] == routes;
  for (int64_t r = first; r < first + count; r++) {
    char *to = mk_row_place(&a->routes, r, row_bytes);
    if (to != NULL) memcpy(to, (const char *)a->x.data + (size_t)(per_route ? r : r / top_k) * row_bytes, row_bytes);
  }
}

/* Rows are written element by element, so that a weighted row is never anywhere but at its owner. */
MK_INLINE void weigh_routes(const mk_row_put_args *a, int64_t first, int64_t count, mk_dtype dtype) {
  int64_t top_k = a->routes.rank.dim[1], columns = a->x.dim[1];
  size_t row_bytes = (size_t)columns * mk_dtype_bytes(dtype);
  for (int64_t r = first; r < first + count; r++) {
    void *to = mk_row_place(&a->routes, r, row_bytes);
    const void *from = mk_at(a->x.data, dtype, r / top_k * columns);
    float weight = mk_round_to(dtype, ((const float *)a->weights.data)[r]);
    for (int64_t i = 0; to != NULL && i < columns; i++)
      mk_put(to, dtype, i, mk_get(from, dtype, i) * weight);
  }
}

MK_VECTOR static void weigh_range(const void *args, int64_t first, int64_t count) {
  const mk_row_put_args *a = args;
  if (a->x.dtype == MK_BF16) {
    weigh_routes(a, first, count, MK_BF16);
  } else {
    weigh_routes(a, first, count, MK_F32);
  }
}

static void get_routes(const void *args, int64_t first, int64_t count) {
  const mk_row_get_args *a = args;
  size_t row_bytes = (size_t)a->out.dim[1] * mk_dtype_bytes(a->out.dtype);
  for (int64_t r = first; r < first + count; r++) {
    const char *from = mk_row_place(&a->routes, r, row_bytes);
    char *to = (char *)a->out.data + (size_t)r * row_bytes;
    if (from != NULL) {
      memcpy(to, from, row_bytes);
    } else {
      memset(to, 0, row_bytes);
    }
  }
}

mk_status mk_row_put_cpu(mk_stream *stream, const void *args) {
  const mk_row_put_args *a = args;
  MK_TRY(stream->dev->ctx, mk_row_routes_check(stream, "row_put", &a->routes));
  int64_t grain = mk_cpu_grain_rows(PIECE_ELEMENTS, a->x.dim[1]);
  bool weighs = mk_tensor_present(&a->weights);
  if (weighs) {
    MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_row_put, a->x.dtype));
    MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_row_put, a->weights.dtype));
  }
  mk_cpu_ranges(mk_tensor_count(&a->routes.rank), grain, weighs ? weigh_range : put_routes, a);
  return MK_OK;
}

mk_status mk_row_get_cpu(mk_stream *stream, const void *args) {
  const mk_row_get_args *a = args;
  MK_TRY(stream->dev->ctx, mk_row_routes_check(stream, "row_get", &a->routes));
  mk_cpu_ranges(a->out.dim[0], mk_cpu_grain_rows(PIECE_ELEMENTS, a->out.dim[1]), get_routes, a);
  return MK_OK;
}

mk_status mk_row_sum_cpu(mk_stream *stream, const void *args) {
  const mk_row_sum_args *a = args;
  mk_combine_fwd_args sum = {.add = a->add, .y = a->y};
  return mk_combine_sum_cpu(stream, MK_OP_row_sum, &sum, &a->routes);
}
