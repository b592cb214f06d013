/* Rows times their weights, reference: FP64 element by element. */
#include "kernels/ops/op_decls.h"
#include "kernels/ops/ref_access.h"
#include "kernels/ops/row_scale/row_scale.h"
#include "kernels/ops/valid_rows.h"

mk_status mk_row_scale_fwd_ref(mk_stream *stream, const void *args) {
  const mk_row_scale_fwd_args *a = args;
  (void)stream;
  int64_t width = a->y.dim[1], rows = mk_valid_rows(&a->rows, a->y.dim[0]);
  for (int64_t i = 0; i < rows * width; i++)
    mk_ref_set(&a->y, i, mk_ref_get(&a->x, i) * mk_ref_get(&a->w, i / width));
  return MK_OK;
}

mk_status mk_row_scale_bwd_ref(mk_stream *stream, const void *args) {
  const mk_row_scale_bwd_args *a = args;
  (void)stream;
  int64_t width = a->dy.dim[1], rows = mk_valid_rows(&a->rows, a->dy.dim[0]);
  for (int64_t n = 0; n < rows; n++) {
    double dot = 0, w = mk_ref_get(&a->w, n);
    for (int64_t i = n * width; i < (n + 1) * width; i++) {
      double dy = mk_ref_get(&a->dy, i);
      dot += dy * mk_ref_get(&a->x, i);
      mk_ref_set(&a->dx, i, dy * w);
    }
    mk_ref_set(&a->dw, n, dot);
  }
  return MK_OK;
}
