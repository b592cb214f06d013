/* RMSNorm, reference: FP64 row by row. What the contract stores or rounds on the way is rounded here too. */
#include <math.h>

#include "kernels/ops/op_decls.h"
#include "kernels/ops/ref_access.h"
#include "kernels/ops/rmsnorm/rmsnorm.h"

static void fwd_row(const mk_rmsnorm_fwd_args *a, int64_t row) {
  int64_t width = a->x.dim[1], first = row * width;
  const mk_tensor *u = mk_tensor_present(&a->branch) ? &a->sum : &a->x;
  double squares = 0;
  for (int64_t i = first; i < first + width; i++) {
    if (mk_tensor_present(&a->branch)) mk_ref_set(&a->sum, i, mk_ref_get(&a->x, i) + mk_ref_get(&a->branch, i));
    squares += mk_ref_get(u, i) * mk_ref_get(u, i);
  }
  double rstd = 1.0 / sqrt(squares / (double)width + (double)a->eps);
  mk_ref_set(&a->rstd, row, rstd);
  for (int64_t i = first; i < first + width; i++) {
    double add = mk_tensor_present(&a->add) ? mk_ref_get(&a->add, i) : 0; /* read first: y may be the same memory */
    mk_ref_set(&a->y, i, mk_ref_get(u, i) * rstd * mk_ref_get(&a->gain, i - first));
    if (mk_tensor_present(&a->add)) mk_ref_add(&a->y, i, add);
  }
}

mk_status mk_rmsnorm_fwd_ref(mk_stream *stream, const void *args) {
  const mk_rmsnorm_fwd_args *a = args;
  (void)stream;
  for (int64_t row = 0; row < a->x.dim[0]; row++)
    fwd_row(a, row);
  return MK_OK;
}

static void bwd_row(const mk_rmsnorm_bwd_args *a, int64_t row) {
  int64_t width = a->x.dim[1], first = row * width;
  double rstd = mk_ref_get(&a->rstd, row), dot = 0;
  for (int64_t d = 0; d < width; d++) {
    double dy = mk_ref_get(&a->dy, first + d), n = mk_ref_get(&a->x, first + d) * rstd;
    dot += dy * mk_ref_get(&a->gain, d) * n;
    mk_ref_add(&a->dgain, d, dy * n);
  }
  for (int64_t d = 0; d < width; d++) {
    double g = mk_ref_get(&a->dy, first + d) * mk_ref_get(&a->gain, d), n = mk_ref_get(&a->x, first + d) * rstd;
    double dx = rstd * (g - n * dot / (double)width);
    if (mk_tensor_present(&a->add)) dx += mk_ref_get(&a->add, first + d);
    mk_ref_set(&a->dx, first + d, dx);
  }
}

mk_status mk_rmsnorm_bwd_ref(mk_stream *stream, const void *args) {
  const mk_rmsnorm_bwd_args *a = args;
  (void)stream;
  for (int64_t row = 0; row < a->x.dim[0]; row++)
    bwd_row(a, row);
  return MK_OK;
}
