/* Work of permute: a token's row is read once and written once per kept route; `rows` is the number of kept routes. */
#include "kernels/ops/op_decls.h"
#include "kernels/ops/permute/permute.h"
#include "kernels/ops/work.h"

mk_work mk_permute_fwd_work(const void *args, int64_t rows) {
  const mk_permute_fwd_args *a = args;
  double elements = (double)(rows < 0 ? mk_tensor_count(&a->map) : rows) * (double)a->x.dim[1];
  double bytes = elements * (double)mk_dtype_bytes(a->x.dtype) + mk_work_bytes(&a->map) + mk_work_bytes(&a->x);
  return (mk_work){.flops = 0, .bytes = bytes};
}

mk_work mk_permute_bwd_work(const void *args, int64_t rows) {
  const mk_permute_bwd_args *a = args;
  double elements = (double)(rows < 0 ? mk_tensor_count(&a->map) : rows) * (double)a->dout.dim[1];
  double bytes = elements * (double)mk_dtype_bytes(a->dout.dtype) + mk_work_bytes(&a->map) + mk_work_bytes(&a->add) +
                 mk_work_bytes(&a->dx);
  return (mk_work){.flops = elements, .bytes = bytes};
}
