/* Add: work. */
#include "kernels/ops/add/add.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/work.h"

mk_work mk_add_work(const void *args, int64_t rows) {
  const mk_add_args *a = args;
  (void)rows;
  return (mk_work){.flops = (double)mk_tensor_count(&a->y), .bytes = 3 * mk_work_bytes(&a->y)};
}
