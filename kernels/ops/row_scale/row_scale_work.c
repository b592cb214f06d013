/* Rows times their weights: work. Flops per element: 1 multiply; backward 2 multiplies and 1 add. */
#include "kernels/ops/op_decls.h"
#include "kernels/ops/row_scale/row_scale.h"
#include "kernels/ops/work.h"

static double per_row_bytes(const mk_tensor *w, int64_t bound, int64_t rows) {
  return (double)(rows < 0 ? bound : rows) * (double)mk_dtype_bytes(w->dtype);
}

mk_work mk_row_scale_fwd_work(const void *args, int64_t rows) {
  const mk_row_scale_fwd_args *a = args;
  return (mk_work){.flops = mk_work_rows(&a->y, rows) * (double)a->y.dim[1],
                   .bytes = 2 * mk_work_row_bytes(&a->y, rows) + per_row_bytes(&a->w, a->y.dim[0], rows)};
}

mk_work mk_row_scale_bwd_work(const void *args, int64_t rows) {
  const mk_row_scale_bwd_args *a = args;
  return (mk_work){.flops = 3 * mk_work_rows(&a->dy, rows) * (double)a->dy.dim[1],
                   .bytes = 3 * mk_work_row_bytes(&a->dy, rows) + 2 * per_row_bytes(&a->w, a->dy.dim[0], rows)};
}
