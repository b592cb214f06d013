/* Row exchange: work. A row is read once and written once per kept route (sum: read only); `rows` is the number of kept
 * routes. */
#include "kernels/ops/op_decls.h"
#include "kernels/ops/row_exchange/row_exchange.h"
#include "kernels/ops/work.h"

static double moved_bytes(const mk_row_routes *routes, const mk_tensor *data, int64_t rows) {
  double moved = (double)(rows < 0 ? mk_tensor_count(&routes->rank) : rows) * (double)data->dim[1];
  return 2 * moved * (double)mk_dtype_bytes(data->dtype) + mk_work_bytes(&routes->rank) + mk_work_bytes(&routes->row);
}

mk_work mk_row_put_work(const void *args, int64_t rows) {
  const mk_row_put_args *a = args;
  bool weighs = mk_tensor_present(&a->weights);
  double elements = (double)(rows < 0 ? mk_tensor_count(&a->routes.rank) : rows) * (double)a->x.dim[1];
  double bytes = moved_bytes(&a->routes, &a->x, rows) + mk_work_bytes(&a->weights);
  return (mk_work){.flops = weighs ? elements : 0, .bytes = bytes};
}

mk_work mk_row_get_work(const void *args, int64_t rows) {
  const mk_row_get_args *a = args;
  return (mk_work){.bytes = moved_bytes(&a->routes, &a->out, rows)};
}

mk_work mk_row_sum_work(const void *args, int64_t rows) {
  const mk_row_sum_args *a = args;
  double elements = (double)(rows < 0 ? mk_tensor_count(&a->routes.rank) : rows) * (double)a->y.dim[1];
  double bytes = elements * (double)mk_dtype_bytes(a->y.dtype) + mk_work_bytes(&a->routes.rank) +
                 mk_work_bytes(&a->routes.row) + mk_work_bytes(&a->add) + mk_work_bytes(&a->y);
  return (mk_work){.flops = elements, .bytes = bytes};
}
