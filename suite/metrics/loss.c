/* Training loss of the first and the last step, and the last held-out cross-entropy; nat per token. */
#include <math.h>

#include "suite/metrics/metric.h"

double ms_loss_first(const ms_view *view) { return view->records->n_steps > 0 ? view->records->steps[0].loss : NAN; }

double ms_loss_last(const ms_view *view) { return view->n_steps > 0 ? view->steps[view->n_steps - 1].loss : NAN; }

double ms_eval_loss(const ms_view *view) {
  const ms_records *r = view->records;
  return r->n_evals > 0 ? r->evals[r->n_evals - 1].loss : NAN;
}
