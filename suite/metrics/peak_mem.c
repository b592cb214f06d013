/* Memory of the fullest rank, GiB: what the arenas held at their peak, and what the process reserved (VmHWM). */
#include "suite/metrics/metric.h"

static const double GIB = 1073741824.0;

double ms_peak_mem(const ms_view *view) { return view->records->peak_total_bytes / GIB; }
double ms_mem_reserved(const ms_view *view) { return view->records->reserved_bytes / GIB; }
