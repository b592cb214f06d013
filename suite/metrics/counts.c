/* What follows from the configuration alone: parameters and FLOP per token, over all ranks. */
#include "suite/metrics/metric.h"

double ms_flop_token(const ms_view *view) { return view->records->flop_token; }
double ms_params_total(const ms_view *view) { return view->records->params_total; }
double ms_params_active(const ms_view *view) { return view->records->params_active; }
