/* Scale: work. */
#include "kernels/ops/op_decls.h"
#include "kernels/ops/scale/scale.h"
#include "kernels/ops/work.h"

mk_work mk_scale_work(const void *args, int64_t rows) {
  const mk_scale_args *a = args;
  (void)rows;
  return (mk_work){.flops = (double)mk_tensor_count(&a->x), .bytes = 2 * mk_work_bytes(&a->x)};
}
