/* See evaluate.h. */
#include "trainer/step/evaluate.h"

#include <math.h>

/* Sums two values over all ranks through the evaluation's own device sums. */
static mk_status sum_over_ranks(mt_trainer *t, double values[2]) {
  mt_comm *all = mt_mesh_all(t->mesh);
  mk_tensor two = mk_tensor_slice(&t->model->eval_sums, 0, 2);
  if (all->size == 1) return MK_OK;
  MK_TRY(t->ctx, mk_copy_h2d(t->compute, &two, values));
  MK_TRY(t->ctx, mt_comm_all_reduce(all, &two, &two, MT_SUM, t->compute));
  MK_TRY(t->ctx, mk_copy_d2h(t->compute, values, &two));
  return mk_stream_sync(t->compute, false);
}

mk_status mt_evaluate(mt_trainer *t, mt_data *data, mt_stop *stop, int32_t *tokens, int32_t *labels, double *loss) {
  double total[2] = {0, 0}; /* cross-entropy, labels */
  int64_t microbatches = mt_data_eval_microbatches(&t->cfg);
  for (int64_t m = 0; m < microbatches; m++) {
    double ce = 0, count = 0;
    MK_TRY(t->ctx, mt_data_eval_batch(data, m, tokens, labels));
    MK_TRY(t->ctx, mt_trainer_evaluate(t, m, tokens, labels, &ce, &count, NULL));
    MK_TRY(t->ctx, mt_stop_check(t->ctx, stop, "step", t->step));
    *loss = NAN;
    if (stop->signal != 0 && stop->alone) return MK_OK;
    total[0] += ce;
    total[1] += count;
  }
  MK_TRY(t->ctx, sum_over_ranks(t, total));
  MK_CHECK(t->ctx, total[1] > 0, MK_ERR_FORMAT, "evaluation: the held-out windows carry no label");
  *loss = total[0] / total[1];
  return MK_OK;
}
