/* 1 when the median step time of the last third is off that of the first third by more than 2 %, else 0; NaN below six
 * measured steps. A mark: shown, never a reason to drop a launch. */
#include <math.h>

#include "suite/metrics/metric.h"
#include "suite/stats/stats.h"

enum { THIRD_MAX = 4096 };

static double third_median(const ms_step *steps, int64_t n) {
  double times[THIRD_MAX];
  int64_t stride = (n + THIRD_MAX - 1) / THIRD_MAX; /* very long runs are thinned evenly */
  int64_t count = 0;
  for (int64_t i = 0; i < n; i += stride)
    times[count++] = steps[i].time_s;
  ms_values_sort(times, count);
  return ms_median(times, count);
}

double ms_not_steady(const ms_view *view) {
  int64_t third = view->n_steps / 3;
  if (third < 2) return NAN;
  double first = third_median(view->steps, third);
  double last = third_median(view->steps + view->n_steps - third, third);
  return first > 0 && fabs(last / first - 1) <= 0.02 ? 0 : 1;
}
