/* Work of combine: one product and one sum per element of a kept route; each row is read once. `rows` is the number of
 * kept routes. */
#include "kernels/ops/combine/combine.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/work.h"

mk_work mk_combine_fwd_work(const void *args, int64_t rows) {
  const mk_combine_fwd_args *a = args;
  double elements = (double)(rows < 0 ? mk_tensor_count(&a->map) : rows) * (double)a->rows.dim[1];
  double bytes = elements * (double)mk_dtype_bytes(a->rows.dtype) + mk_work_bytes(&a->map) +
                 mk_work_bytes(&a->weights) + mk_work_bytes(&a->add) + mk_work_bytes(&a->y);
  return (mk_work){.flops = 2.0 * elements, .bytes = bytes};
}

mk_work mk_combine_bwd_work(const void *args, int64_t rows) {
  const mk_combine_bwd_args *a = args;
  double elements = (double)(rows < 0 ? mk_tensor_count(&a->map) : rows) * (double)a->rows.dim[1];
  double passes = mk_tensor_present(&a->drows) ? 2.0 : 1.0;
  double bytes = passes * elements * (double)mk_dtype_bytes(a->rows.dtype) + mk_work_bytes(&a->dy) +
                 mk_work_bytes(&a->map) + mk_work_bytes(&a->weights) + mk_work_bytes(&a->dweights);
  return (mk_work){.flops = (1.0 + passes) * elements, .bytes = bytes};
}
