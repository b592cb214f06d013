/* GEMMs of MXFP8 operands: work. 2 N K flops a row; elements and scales move once. */
#include "kernels/ops/mxfp8_gemm/mxfp8_gemm.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/work.h"

static mk_work work_of(const mk_mxfp8 *a, const mk_mxfp8 *b, const mk_tensor *add, const mk_tensor *y, int64_t rows) {
  return (mk_work){.flops = 2 * mk_work_rows(&a->q, rows) * (double)y->dim[1] * (double)a->q.dim[1],
                   .bytes = mk_work_bytes(&b->q) + mk_work_bytes(&b->scale) + mk_work_row_bytes(&a->q, rows) +
                            mk_work_row_bytes(&a->scale, rows) + mk_work_row_bytes(add, rows) +
                            mk_work_row_bytes(y, rows),
                   .gemm = true};
}

mk_work mk_mxfp8_linear_work(const void *args, int64_t rows) {
  const mk_mxfp8_linear_args *a = args;
  return work_of(&a->a, &a->b, &a->add, &a->y, rows);
}

mk_work mk_mxfp8_grouped_work(const void *args, int64_t rows) {
  const mk_mxfp8_grouped_args *a = args;
  const mk_tensor none = {0};
  return work_of(&a->a, &a->b, &none, &a->y, rows);
}
