/* Per step: bytes a rank sends, reads of device data by the host, allocations on the device, skipped steps in all. */
#include <math.h>

#include "suite/metrics/metric.h"

double ms_wire_bytes_step(const ms_view *view) { return view->records->wire_bytes_step; }
double ms_host_waits_step(const ms_view *view) { return view->records->host_waits_step; }

double ms_device_allocs_step(const ms_view *view) {
  double sum = 0;
  for (int64_t i = 0; i < view->n_steps; i++)
    sum += view->steps[i].device_allocs;
  return view->n_steps > 0 ? sum / (double)view->n_steps : NAN;
}

double ms_skipped_steps(const ms_view *view) {
  double sum = 0;
  for (int64_t i = 0; i < view->n_steps; i++)
    sum += view->steps[i].skipped;
  return view->n_steps > 0 ? sum : NAN;
}
