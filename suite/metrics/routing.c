/* Routing over the measured steps: mean share of dropped (token, expert) pairs, mean of max/mean tokens per expert. */
#include <math.h>

#include "suite/metrics/metric.h"

double ms_drop_rate(const ms_view *view) {
  double sum = 0;
  for (int64_t i = 0; i < view->n_steps; i++)
    sum += view->steps[i].drop_rate;
  return view->n_steps > 0 ? sum / (double)view->n_steps : NAN;
}

double ms_imbalance(const ms_view *view) {
  double sum = 0;
  for (int64_t i = 0; i < view->n_steps; i++)
    sum += view->steps[i].imbalance;
  return view->n_steps > 0 ? sum / (double)view->n_steps : NAN;
}
