/* Work of cross-entropy: a row of logits is read once from memory (its second pass hits the cache) and written once;
 * maximum, difference, exponential and sum forward, exponential, product and difference backward. */
#include "kernels/ops/cross_entropy/cross_entropy.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/work.h"

mk_work mk_cross_entropy_work(const void *args, int64_t rows) {
  const mk_cross_entropy_args *a = args;
  (void)rows;
  double logits = (double)mk_tensor_count(&a->logits), passes = a->with_grad ? 2.0 : 1.0;
  double bytes = passes * mk_work_bytes(&a->logits) + mk_work_bytes(&a->labels) + 2.0 * mk_work_bytes(&a->losses);
  return (mk_work){.flops = logits * (a->with_grad ? 7.0 : 4.0), .bytes = bytes};
}
