/* Squared norm: work. */
#include "kernels/ops/op_decls.h"
#include "kernels/ops/squared_norm/squared_norm.h"
#include "kernels/ops/work.h"

mk_work mk_squared_norm_work(const void *args, int64_t rows) {
  const mk_squared_norm_args *a = args;
  (void)rows;
  return (mk_work){.flops = 2 * (double)mk_tensor_count(&a->x), .bytes = mk_work_bytes(&a->x)};
}
