/* Grouped GEMM: work. 2 N K flops a row; the weights of all groups move once, dw is read and written. */
#include "kernels/ops/grouped_gemm/grouped_gemm.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/work.h"

static double flops(const mk_tensor *a, int64_t rows, const mk_tensor *w) {
  return 2 * mk_work_rows(a, rows) * (double)w->dim[1] * (double)w->dim[2];
}

mk_work mk_grouped_gemm_fwd_work(const void *args, int64_t rows) {
  const mk_grouped_gemm_fwd_args *a = args;
  return (mk_work){.flops = flops(&a->x, rows, &a->w),
                   .bytes = mk_work_bytes(&a->w) + mk_work_row_bytes(&a->x, rows) + mk_work_row_bytes(&a->y, rows),
                   .gemm = true};
}

mk_work mk_grouped_gemm_dgrad_work(const void *args, int64_t rows) {
  const mk_grouped_gemm_dgrad_args *a = args;
  return (mk_work){.flops = flops(&a->dy, rows, &a->w),
                   .bytes = mk_work_bytes(&a->w) + mk_work_row_bytes(&a->dy, rows) + mk_work_row_bytes(&a->dx, rows),
                   .gemm = true};
}

mk_work mk_grouped_gemm_wgrad_work(const void *args, int64_t rows) {
  const mk_grouped_gemm_wgrad_args *a = args;
  return (mk_work){.flops = flops(&a->dy, rows, &a->dw),
                   .bytes = (a->overwrite ? 1 : 2) * mk_work_bytes(&a->dw) + mk_work_row_bytes(&a->dy, rows) +
                            mk_work_row_bytes(&a->x, rows),
                   .gemm = true};
}
