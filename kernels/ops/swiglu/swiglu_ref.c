/* SwiGLU, reference: FP64 element by element. */
#include <math.h>

#include "kernels/ops/op_decls.h"
#include "kernels/ops/ref_access.h"
#include "kernels/ops/swiglu/swiglu.h"
#include "kernels/ops/valid_rows.h"

static double sigmoid(double z) { return 1.0 / (1.0 + exp(-z)); }

mk_status mk_swiglu_fwd_ref(mk_stream *stream, const void *args) {
  const mk_swiglu_fwd_args *a = args;
  (void)stream;
  int64_t width = a->y.dim[1], rows = mk_valid_rows(&a->rows, a->y.dim[0]);
  for (int64_t n = 0; n < rows; n++) {
    for (int64_t f = 0; f < width; f++) {
      double up = mk_ref_get(&a->x, n * 2 * width + f), gate = mk_ref_get(&a->x, n * 2 * width + width + f);
      mk_ref_set(&a->y, n * width + f, up * gate * sigmoid(gate));
    }
  }
  return MK_OK;
}

mk_status mk_swiglu_bwd_ref(mk_stream *stream, const void *args) {
  const mk_swiglu_bwd_args *a = args;
  (void)stream;
  int64_t width = a->dy.dim[1], rows = mk_valid_rows(&a->rows, a->dy.dim[0]);
  for (int64_t n = 0; n < rows; n++) {
    for (int64_t f = 0; f < width; f++) {
      int64_t at_up = n * 2 * width + f, at_gate = at_up + width;
      double dy = mk_ref_get(&a->dy, n * width + f);
      double up = mk_ref_get(&a->x, at_up), gate = mk_ref_get(&a->x, at_gate), sig = sigmoid(gate);
      mk_ref_set(&a->dx, at_up, dy * gate * sig);
      mk_ref_set(&a->dx, at_gate, dy * up * sig * (1.0 + gate * (1.0 - sig)));
    }
  }
  return MK_OK;
}
