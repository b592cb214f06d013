/* Tokens per second: sum of tokens over sum of step times (cost first, then rate; Hoefler and Belli, SC'15, rule 3), a
 * step's time being the maximum over ranks. With the statistic `median_step`: tokens of a step over the median time.
 * A time that is not positive gives NaN, never infinity. */
#include <math.h>

#include "suite/metrics/metric.h"
#include "suite/stats/stats.h"

double ms_tok_s(const ms_view *view) {
  double time_s = ms_view_time_s(view);
  double tokens = ms_view_tokens(view);
  if (view->median_step) {
    time_s = ms_median(view->sorted_s, view->n_steps);
    tokens /= (double)view->n_steps;
  }
  return time_s > 0 ? tokens / time_s : NAN;
}

double ms_tok_s_gpu(const ms_view *view) { return ms_tok_s(view) / (double)view->devices; }
