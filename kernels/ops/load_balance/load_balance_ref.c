/* Load balance, reference: FP64 sums in token and layer order. */
#include "kernels/ops/load_balance/load_balance.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/ref_access.h"

static double row_divisor(const mk_load_balance_stats_args *a, int64_t token) {
  double sum = 0;
  if (!a->renormalize) return 1.0;
  for (int64_t e = 0; e < a->scores.dim[1]; e++)
    sum += mk_ref_get(&a->scores, token * a->scores.dim[1] + e);
  return sum;
}

mk_status mk_load_balance_stats_ref(mk_stream *stream, const void *args) {
  const mk_load_balance_stats_args *a = args;
  int64_t groups = a->score_sum.dim[0], experts = a->scores.dim[1], tokens = a->scores.dim[0] / groups;
  (void)stream;
  for (int64_t i = 0; i < groups * experts; i++) {
    int64_t first = i / experts * tokens, expert = i % experts;
    double sum = 0;
    for (int64_t t = first; t < first + tokens; t++) {
      sum += mk_ref_get(&a->scores, t * experts + expert) / row_divisor(a, t);
    }
    mk_ref_set(&a->score_sum, i, sum);
  }
  return MK_OK;
}

/* Per layer and group: L = sum_e scale * n_e * P_e, so that the coefficient of a score is scale * n_e. */
static double olmo_loss(const mk_load_balance_loss_args *a, double divisor) {
  int64_t cells = mk_tensor_count(&a->counts), groups = a->counts.dim[1], experts = a->counts.dim[2];
  double group_tokens = (double)(a->tokens / groups), loss = 0;
  double scale = (double)experts / (double)a->top_k / group_tokens / divisor;
  for (int64_t i = 0; i < cells; i++) {
    double slope = scale * mk_ref_get(&a->counts, i);
    loss += slope * mk_ref_get(&a->score_sum, i);
    mk_ref_set(&a->coef, i, (double)a->weight * slope);
  }
  return loss;
}

/* Counts and sums pooled over layers and groups. */
static double hf_loss(const mk_load_balance_loss_args *a) {
  int64_t experts = a->counts.dim[2], cells = mk_tensor_count(&a->counts) / experts;
  double pooled = (double)(a->counts.dim[0] * a->tokens), loss = 0;
  double scale = (double)experts / pooled / pooled / (double)a->microbatches;
  for (int64_t e = 0; e < experts; e++) {
    double count = 0, sum = 0;
    for (int64_t c = 0; c < cells; c++) {
      count += mk_ref_get(&a->counts, c * experts + e);
      sum += mk_ref_get(&a->score_sum, c * experts + e);
    }
    loss += scale * count * sum;
    for (int64_t c = 0; c < cells; c++)
      mk_ref_set(&a->coef, c * experts + e, (double)a->weight * scale * count);
  }
  return loss;
}

mk_status mk_load_balance_loss_ref(mk_stream *stream, const void *args) {
  const mk_load_balance_loss_args *a = args;
  (void)stream;
  if (a->tokens == 0) {
    for (int64_t i = 0; i < mk_tensor_count(&a->coef); i++)
      mk_ref_set(&a->coef, i, 0);
    return MK_OK;
  }
  double divisor = ((const mk_step_state *)a->state.data)->loss_divisor;
  double loss = a->def == MK_LB_OLMO ? olmo_loss(a, divisor) : hf_loss(a);
  ((double *)a->sums.data)[MK_SUM_LB] += loss;
  return MK_OK;
}
