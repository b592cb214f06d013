/* Model FLOP utilisation: token/s x FLOP/token over the peak of the devices used, at the precision used; FLOP/token in
 * the convention of the Olmo-core 3 report (causal attention). An unknown peak gives NaN, never another device's peak.
 * bound_pct: the roofline bound of a step (profile mode) over its mean time. */
#include <math.h>

#include "suite/metrics/metric.h"

double ms_mfu_pct(const ms_view *view) {
  if (!(view->peak_flops > 0)) return NAN;
  return 100 * ms_tok_s(view) * view->records->flop_token / view->peak_flops;
}

double ms_tflop_s_gpu(const ms_view *view) { return 1e-12 * ms_tok_s_gpu(view) * view->records->flop_token; }

double ms_bound_pct(const ms_view *view) {
  double mean_s = ms_view_time_s(view) / (double)view->n_steps;
  return view->records->bound_s > 0 && mean_s > 0 ? 100 * view->records->bound_s / mean_s : NAN;
}
