/* Parameter initialisation, reference: the definition, element by element. */
#include "kernels/ops/op_decls.h"
#include "kernels/ops/param_init/param_draw.h"
#include "kernels/ops/ref_access.h"

mk_status mk_param_init_ref(mk_stream *stream, const void *args) {
  const mk_param_init_args *a = args;
  (void)stream;
  mk_rng_block block;
  for (int64_t i = 0; i < mk_tensor_count(&a->main); i++)
    mk_ref_set(&a->main, i, mk_param_value(a, i, &block, i == 0));
  return MK_OK;
}
