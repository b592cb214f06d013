/* Scale, reference. */
#include "kernels/ops/op_decls.h"
#include "kernels/ops/ref_access.h"
#include "kernels/ops/scale/scale.h"

mk_status mk_scale_ref(mk_stream *stream, const void *args) {
  const mk_scale_args *a = args;
  (void)stream;
  for (int64_t i = 0; i < mk_tensor_count(&a->x); i++)
    mk_ref_set(&a->x, i, mk_ref_get(&a->x, i) * a->factor);
  return MK_OK;
}
