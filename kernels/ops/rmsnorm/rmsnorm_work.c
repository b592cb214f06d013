/* RMSNorm: work. Per element: forward square and add 2, scale 2; backward dot 3, gain gradient 3, input gradient 3. */
#include "kernels/ops/op_decls.h"
#include "kernels/ops/rmsnorm/rmsnorm.h"
#include "kernels/ops/work.h"

mk_work mk_rmsnorm_fwd_work(const void *args, int64_t rows) {
  const mk_rmsnorm_fwd_args *a = args;
  (void)rows;
  int adds = mk_tensor_present(&a->branch) + mk_tensor_present(&a->add);
  double moved = mk_work_bytes(&a->x) + mk_work_bytes(&a->branch) + mk_work_bytes(&a->sum) + mk_work_bytes(&a->add);
  moved += mk_work_bytes(&a->gain) + mk_work_bytes(&a->y) + mk_work_bytes(&a->rstd);
  return (mk_work){.flops = (4 + adds) * (double)mk_tensor_count(&a->x), .bytes = moved};
}

mk_work mk_rmsnorm_bwd_work(const void *args, int64_t rows) {
  const mk_rmsnorm_bwd_args *a = args;
  (void)rows;
  double moved = mk_work_bytes(&a->dy) + mk_work_bytes(&a->x) + mk_work_bytes(&a->add) + mk_work_bytes(&a->dx);
  moved += mk_work_bytes(&a->gain) + mk_work_bytes(&a->rstd) + 2 * mk_work_bytes(&a->dgain);
  return (mk_work){.flops = (9 + mk_tensor_present(&a->add)) * (double)mk_tensor_count(&a->dy), .bytes = moved};
}
