/* Work of load balance: stats streams [T,E] once (twice in cache to renormalise); loss touches small tables. */
#include "kernels/ops/load_balance/load_balance.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/work.h"

mk_work mk_load_balance_stats_work(const void *args, int64_t rows) {
  const mk_load_balance_stats_args *a = args;
  (void)rows;
  double flops = (double)mk_tensor_count(&a->scores) * (a->renormalize ? 3.0 : 1.0);
  return (mk_work){.flops = flops, .bytes = mk_work_bytes(&a->scores) + mk_work_bytes(&a->score_sum)};
}

mk_work mk_load_balance_loss_work(const void *args, int64_t rows) {
  const mk_load_balance_loss_args *a = args;
  (void)rows;
  double bytes = mk_work_bytes(&a->counts) + mk_work_bytes(&a->score_sum) + mk_work_bytes(&a->coef);
  return (mk_work){.flops = 4.0 * (double)mk_tensor_count(&a->counts), .bytes = bytes};
}
