/* Cast, reference. */
#include "kernels/ops/cast/cast.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/ref_access.h"

mk_status mk_cast_ref(mk_stream *stream, const void *args) {
  const mk_cast_args *a = args;
  (void)stream;
  for (int64_t i = 0; i < mk_tensor_count(&a->x); i++)
    mk_ref_set(&a->y, i, mk_ref_get(&a->x, i));
  return MK_OK;
}
