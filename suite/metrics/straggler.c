/* Own compute time of the slowest rank over the median rank, summed over the measured steps; 1 = no straggler. */
#include <math.h>

#include "suite/metrics/metric.h"

double ms_straggler(const ms_view *view) {
  double slowest = 0, middle = 0;
  for (int64_t i = 0; i < view->n_steps; i++) {
    slowest += view->steps[i].compute_max_s;
    middle += view->steps[i].compute_median_s;
  }
  return middle > 0 ? slowest / middle : NAN;
}
