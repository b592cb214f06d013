/* The measured part of a launch. */
#include <math.h>

#include "kernels/base/heap.h"
#include "suite/metrics/metric.h"
#include "suite/stats/stats.h"

mk_status ms_view_init(mk_context *ctx, const ms_records *records, int64_t warmup_steps, ms_view *out) {
  int64_t first = 0;
  while (first < records->n_steps && records->steps[first].step <= warmup_steps)
    first++;
  ms_view view = {.records = records,
                  .steps = records->steps + first,
                  .n_steps = records->n_steps - first,
                  .devices = records->ranks > 0 ? records->ranks : 1,
                  .peak_flops = NAN};
  MK_TRY(ctx, mk_heap_array(ctx, (size_t)view.n_steps, sizeof *view.owned, &view.owned));
  for (int64_t i = 0; i < view.n_steps; i++)
    view.owned[i] = view.steps[i].time_s;
  ms_values_sort(view.owned, view.n_steps);
  view.sorted_s = view.owned;
  *out = view;
  return MK_OK;
}

void ms_view_fini(mk_context *ctx, ms_view *view) {
  mk_heap_free(ctx, view->owned);
  *view = (ms_view){0};
}

double ms_view_time_s(const ms_view *view) {
  double sum = 0;
  for (int64_t i = 0; i < view->n_steps; i++)
    sum += view->steps[i].time_s;
  return view->n_steps == 0 ? NAN : sum;
}

double ms_view_tokens(const ms_view *view) {
  double sum = 0;
  for (int64_t i = 0; i < view->n_steps; i++)
    sum += view->steps[i].tokens;
  return view->n_steps == 0 ? NAN : sum;
}
