/* Work of the router: it streams [T,E] once; the arithmetic counts maximum, difference, exponential, sum and quotient
 * of the softmax and one comparison per expert and selection. */
#include "kernels/ops/op_decls.h"
#include "kernels/ops/router/router.h"
#include "kernels/ops/work.h"

mk_work mk_router_fwd_work(const void *args, int64_t rows) {
  const mk_router_fwd_args *a = args;
  (void)rows;
  double logits = (double)mk_tensor_count(&a->logits), routes = (double)mk_tensor_count(&a->idx);
  double bytes = (mk_work_bytes(&a->logits) + mk_work_bytes(&a->scores) + mk_work_bytes(&a->idx) +
                  mk_work_bytes(&a->weights) + mk_work_bytes(&a->lse));
  return (mk_work){.flops = logits * (5.0 + (double)a->idx.dim[1]) + 3.0 * routes, .bytes = bytes};
}

mk_work mk_router_bwd_work(const void *args, int64_t rows) {
  const mk_router_bwd_args *a = args;
  (void)rows;
  bool reads_logits = a->config.gating == MK_GATING_SIGMOID || a->config.routing == MK_ROUTING_RANDOM;
  double logits = (double)mk_tensor_count(&a->scores), routes = (double)mk_tensor_count(&a->idx);
  double bytes = (mk_work_bytes(&a->scores) + mk_work_bytes(&a->dlogits) + mk_work_bytes(&a->idx) +
                  2 * mk_work_bytes(&a->weights) + mk_work_bytes(&a->lse));
  if (reads_logits) bytes += mk_work_bytes(&a->logits);
  return (mk_work){.flops = 6.0 * logits + 6.0 * routes, .bytes = bytes};
}
