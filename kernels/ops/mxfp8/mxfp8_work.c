/* MXFP8: work. A maximum, a product and a rounding an element; every byte moves once. */
#include "kernels/ops/mxfp8/mxfp8.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/work.h"

mk_work mk_mxfp8_quantize_work(const void *args, int64_t rows) {
  const mk_mxfp8_quantize_args *a = args;
  bool bounded = a->x.n_dims == 2 && !a->transpose;
  int64_t valid = bounded ? rows : -1;
  double read = mk_work_row_bytes(&a->x, valid);
  return (mk_work){.flops = 3 * read / (double)mk_dtype_bytes(a->x.dtype),
                   .bytes = read + mk_work_row_bytes(&a->out.q, valid) + mk_work_row_bytes(&a->out.scale, valid)};
}

mk_work mk_mxfp8_dequantize_work(const void *args, int64_t rows) {
  const mk_mxfp8_dequantize_args *a = args;
  double read = mk_work_row_bytes(&a->x.q, rows);
  return (mk_work){.flops = read,
                   .bytes = read + mk_work_row_bytes(&a->x.scale, rows) + mk_work_row_bytes(&a->y, rows)};
}
