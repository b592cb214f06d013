/* Cross-entropy, reference: two passes in FP64. */
#include "kernels/ops/cross_entropy/cross_entropy.h"
#include "kernels/ops/ids.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/ref_access.h"

mk_status mk_cross_entropy_ref(mk_stream *stream, const void *args) {
  const mk_cross_entropy_args *a = args;
  int64_t tokens = a->logits.dim[0], vocab = a->logits.dim[1];
  double divisor = ((const mk_step_state *)a->state.data)->loss_divisor, *sums = a->sums.data;
  double z_weight = (double)a->z_weight, ce_sum = 0, z_sum = 0, labels = 0;
  MK_TRY(stream->dev->ctx, mk_ids_check(stream, "cross_entropy", "labels", &a->labels, INT32_MIN, vocab));
  for (int64_t t = 0; t < tokens; t++) {
    int64_t label = (int64_t)mk_ref_get(&a->labels, t);
    double lse = mk_ref_log_sum_exp(&a->logits, t * vocab, vocab);
    double ce = label < 0 ? 0 : lse - mk_ref_get(&a->logits, t * vocab + label);
    double z = label < 0 ? 0 : z_weight * lse * lse;
    mk_ref_set(&a->losses, t, ce);
    mk_ref_set(&a->losses, tokens + t, z);
    ce_sum += ce;
    z_sum += z;
    labels += label < 0 ? 0 : 1;
    for (int64_t v = 0; a->with_grad && v < vocab; v++) {
      double p = exp(mk_ref_get(&a->logits, t * vocab + v) - lse);
      double gradient = (p * (1.0 + 2.0 * z_weight * lse) - (v == label ? 1.0 : 0.0)) / divisor;
      mk_ref_set(&a->logits, t * vocab + v, label < 0 ? 0 : gradient);
    }
  }
  sums[MK_SUM_CE] += ce_sum / divisor;
  sums[MK_SUM_Z] += z_sum / divisor;
  sums[MK_SUM_LABELS] += labels;
  return MK_OK;
}
