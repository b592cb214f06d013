/* Nearest-rank percentiles of step times (maximum over ranks), milliseconds. */
#include "suite/metrics/metric.h"
#include "suite/stats/stats.h"

double ms_step_ms_p50(const ms_view *view) { return 1e3 * ms_percentile(view->sorted_s, view->n_steps, 50); }
double ms_step_ms_p95(const ms_view *view) { return 1e3 * ms_percentile(view->sorted_s, view->n_steps, 95); }
double ms_step_ms_p99(const ms_view *view) { return 1e3 * ms_percentile(view->sorted_s, view->n_steps, 99); }
