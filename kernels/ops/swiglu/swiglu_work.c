/* SwiGLU: work. Flops per element: forward 1 exponential counted as 1, 1 add, 1 divide, 2 multiplies. */
#include "kernels/ops/op_decls.h"
#include "kernels/ops/swiglu/swiglu.h"
#include "kernels/ops/work.h"

mk_work mk_swiglu_fwd_work(const void *args, int64_t rows) {
  const mk_swiglu_fwd_args *a = args;
  return (mk_work){.flops = 5 * mk_work_rows(&a->y, rows) * (double)a->y.dim[1],
                   .bytes = mk_work_row_bytes(&a->x, rows) + mk_work_row_bytes(&a->y, rows)};
}

mk_work mk_swiglu_bwd_work(const void *args, int64_t rows) {
  const mk_swiglu_bwd_args *a = args;
  return (mk_work){.flops = 11 * mk_work_rows(&a->dy, rows) * (double)a->dy.dim[1],
                   .bytes = mk_work_row_bytes(&a->dy, rows) + 2 * mk_work_row_bytes(&a->x, rows)};
}
