/* GEMMs of MXFP8 operands, reference: FP64 sums of the elements' values. */
#include "kernels/ops/mxfp8/mxfp8_values.h"
#include "kernels/ops/mxfp8_gemm/mxfp8_gemm.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/ref_access.h"

/* Rows [begin, end) of a with the n rows of b from `b_first` on. */
static void multiply(const mk_mxfp8 *a, const mk_mxfp8 *b, int64_t b_first, const mk_tensor *add, const mk_tensor *y,
                     int64_t begin, int64_t end) {
  int64_t k = a->q.dim[1], n = y->dim[1];
  for (int64_t row = begin; row < end; row++) {
    for (int64_t col = 0; col < n; col++) {
      double sum = mk_tensor_present(add) ? mk_ref_get(add, row * n + col) : 0;
      for (int64_t i = 0; i < k; i++)
        sum += mk_mxfp8_value(a, row, i, k) * mk_mxfp8_value(b, b_first + col, i, k);
      mk_ref_set(y, row * n + col, sum);
    }
  }
}

mk_status mk_mxfp8_linear_ref(mk_stream *stream, const void *args) {
  const mk_mxfp8_linear_args *a = args;
  (void)stream;
  multiply(&a->a, &a->b, 0, &a->add, &a->y, 0, a->y.dim[0]);
  return MK_OK;
}

mk_status mk_mxfp8_grouped_ref(mk_stream *stream, const void *args) {
  const mk_mxfp8_grouped_args *a = args;
  const int32_t *offsets = a->offsets.data;
  const mk_tensor none = {0};
  (void)stream;
  for (int64_t e = 0; e < a->b.q.dim[0]; e++)
    multiply(&a->a, &a->b, e * a->b.q.dim[1], &none, &a->y, offsets[e], offsets[e + 1]);
  return MK_OK;
}
