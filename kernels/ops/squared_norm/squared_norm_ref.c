/* Squared norm, reference: one FP64 sum in index order. */
#include "kernels/ops/op_decls.h"
#include "kernels/ops/ref_access.h"
#include "kernels/ops/squared_norm/squared_norm.h"

mk_status mk_squared_norm_ref(mk_stream *stream, const void *args) {
  const mk_squared_norm_args *a = args;
  (void)stream;
  double sum = 0;
  for (int64_t i = 0; i < mk_tensor_count(&a->x); i++)
    sum += mk_ref_get(&a->x, i) * mk_ref_get(&a->x, i);
  mk_ref_add(&a->out, 0, a->scale * sum);
  return MK_OK;
}
