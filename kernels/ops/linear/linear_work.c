/* Linear layers: work. 2 N K flops a row; every operand moves once, dw and add are read and written. */
#include "kernels/ops/linear/linear.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/work.h"

mk_work mk_linear_pack_work(const void *args, int64_t rows) {
  const mk_linear_pack_args *a = args;
  (void)rows;
  return (mk_work){.bytes = mk_work_bytes(&a->packed) > 0 ? mk_work_bytes(&a->w) + mk_work_bytes(&a->packed) : 0};
}

mk_work mk_linear_fwd_work(const void *args, int64_t rows) {
  const mk_linear_fwd_args *a = args;
  return (mk_work){.flops = 2 * mk_work_rows(&a->x, rows) * (double)mk_tensor_count(&a->w),
                   .bytes = mk_work_bytes(&a->w) + mk_work_row_bytes(&a->x, rows) + mk_work_row_bytes(&a->y, rows),
                   .gemm = true};
}

mk_work mk_linear_dgrad_work(const void *args, int64_t rows) {
  const mk_linear_dgrad_args *a = args;
  return (mk_work){.flops = 2 * mk_work_rows(&a->dy, rows) * (double)mk_tensor_count(&a->w),
                   .bytes = mk_work_bytes(&a->w) + mk_work_row_bytes(&a->dy, rows) + mk_work_row_bytes(&a->dx, rows) +
                            mk_work_row_bytes(&a->add, rows),
                   .gemm = true};
}

mk_work mk_linear_wgrad_work(const void *args, int64_t rows) {
  const mk_linear_wgrad_args *a = args;
  return (mk_work){.flops = 2 * mk_work_rows(&a->dy, rows) * (double)mk_tensor_count(&a->dw),
                   .bytes = (a->overwrite ? 1 : 2) * mk_work_bytes(&a->dw) + mk_work_row_bytes(&a->dy, rows) +
                            mk_work_row_bytes(&a->x, rows),
                   .gemm = true};
}
