/* AdamW, reference: FP64 element by element. */
#include <math.h>

#include "kernels/ops/adamw/adamw_factors.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/ref_access.h"

static void update(const mk_adamw_args *a, const mk_adamw_factors *f, int64_t i) {
  double b1 = (double)a->beta1, b2 = (double)a->beta2;
  double g = mk_ref_get(&a->grad, i) * f->clip;
  double m = b1 * mk_ref_get(&a->m, i) + (1 - b1) * g;
  double v = b2 * mk_ref_get(&a->v, i) + (1 - b2) * g * g;
  double p = mk_ref_get(&a->main, i) * f->decay;
  p -= f->step * m / (sqrt(v) * f->root + (double)a->eps);
  mk_ref_set(&a->m, i, m);
  mk_ref_set(&a->v, i, v);
  mk_ref_set(&a->main, i, p);
  if (mk_tensor_present(&a->compute)) mk_ref_set(&a->compute, i, mk_ref_get(&a->main, i));
}

mk_status mk_adamw_ref(mk_stream *stream, const void *args) {
  const mk_adamw_args *a = args;
  (void)stream;
  mk_adamw_factors f = mk_adamw_factors_of(a, a->state.data);
  for (int64_t i = 0; i < mk_tensor_count(&a->main); i++) {
    if (!f.skip) update(a, &f, i);
    if (a->clear_grad) mk_ref_set(&a->grad, i, 0);
  }
  return MK_OK;
}
