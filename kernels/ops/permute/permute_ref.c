/* Permute, reference. The backward is a combine whose weights are 1. */
#include "kernels/ops/combine/combine_sum.h"
#include "kernels/ops/ids.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/permute/permute.h"
#include "kernels/ops/ref_access.h"

mk_status mk_permute_fwd_ref(mk_stream *stream, const void *args) {
  const mk_permute_fwd_args *a = args;
  int64_t top_k = a->map.dim[1], columns = a->x.dim[1];
  MK_TRY(stream->dev->ctx, mk_ids_check(stream, "permute_fwd", "map", &a->map, INT32_MIN, a->out.dim[0]));
  for (int64_t r = 0; r < mk_tensor_count(&a->map); r++) {
    int64_t row = (int64_t)mk_ref_get(&a->map, r);
    for (int64_t c = 0; row >= 0 && c < columns; c++) {
      mk_ref_set(&a->out, row * columns + c, mk_ref_get(&a->x, r / top_k * columns + c));
    }
  }
  return MK_OK;
}

mk_status mk_permute_bwd_ref(mk_stream *stream, const void *args) {
  const mk_permute_bwd_args *a = args;
  mk_combine_fwd_args sum = {.rows = a->dout, .map = a->map, .add = a->add, .y = a->dx};
  return mk_combine_sum_ref(stream, MK_OP_permute_bwd, &sum, NULL);
}
