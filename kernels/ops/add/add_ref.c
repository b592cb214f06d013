/* Add, reference. */
#include "kernels/ops/add/add.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/ref_access.h"

mk_status mk_add_ref(mk_stream *stream, const void *args) {
  const mk_add_args *a = args;
  (void)stream;
  for (int64_t i = 0; i < mk_tensor_count(&a->y); i++) {
    mk_ref_set(&a->y, i, mk_ref_get(&a->a, i) + mk_ref_get(&a->b, i));
  }
  return MK_OK;
}
