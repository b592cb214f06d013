/* The table of metrics: name, unit, direction, whether equal in every launch, whether from the clock, function,
 * meaning. */
#include <string.h>

#include "suite/metrics/metric.h"

#define UP false
#define DOWN true
#define CLOCK true
#define NO_CLOCK false

static const ms_metric METRICS[] = {
    {"tok_s", "token/s", UP, false, CLOCK, ms_tok_s, "tokens per second of all devices"},
    {"tok_s_gpu", "token/s/gpu", UP, false, CLOCK, ms_tok_s_gpu,
     "tokens per second and device; on the CPU a device is a rank"},
    {"step_ms_p50", "ms", DOWN, false, CLOCK, ms_step_ms_p50, "median step time, maximum over ranks"},
    {"step_ms_p95", "ms", DOWN, false, CLOCK, ms_step_ms_p95, "95th percentile of step times, nearest rank"},
    {"step_ms_p99", "ms", DOWN, false, CLOCK, ms_step_ms_p99, "99th percentile of step times, nearest rank"},
    {"mfu_pct", "percent", UP, false, CLOCK, ms_mfu_pct, "model FLOP utilisation, Olmo-core 3 convention"},
    {"tflop_s_gpu", "TFLOP/s/gpu", UP, false, CLOCK, ms_tflop_s_gpu, "model FLOP rate of a device"},
    {"bound_pct", "percent", UP, false, CLOCK, ms_bound_pct, "roofline bound of a step over its time (profile mode)"},
    {"peak_mem", "GiB", DOWN, true, NO_CLOCK, ms_peak_mem, "arena peak of the fullest rank"},
    {"mem_reserved", "GiB", DOWN, false, NO_CLOCK, ms_mem_reserved, "resident peak of the fullest process"},
    {"flop_token", "FLOP", DOWN, true, NO_CLOCK, ms_flop_token, "FLOP per token, Olmo-core 3 convention"},
    {"params_total", "param", DOWN, true, NO_CLOCK, ms_params_total, "parameters of the model"},
    {"params_active", "param", DOWN, true, NO_CLOCK, ms_params_active, "parameters a token meets"},
    {"loss_first", "nat", DOWN, true, NO_CLOCK, ms_loss_first, "training loss of the first step"},
    {"loss_last", "nat", DOWN, true, NO_CLOCK, ms_loss_last, "training loss of the last step"},
    {"eval_loss", "nat", DOWN, true, NO_CLOCK, ms_eval_loss, "last held-out cross-entropy"},
    {"drop_rate", "ratio", DOWN, true, NO_CLOCK, ms_drop_rate, "dropped (token, expert) pairs over all pairs"},
    {"imbalance", "ratio", DOWN, true, NO_CLOCK, ms_imbalance, "tokens of the fullest expert over the mean"},
    {"straggler", "ratio", DOWN, false, CLOCK, ms_straggler, "compute time of the slowest rank over the median rank"},
    {"wire_bytes_step", "byte", DOWN, true, NO_CLOCK, ms_wire_bytes_step, "bytes a rank sends in a step"},
    {"host_waits_step", "count", DOWN, true, NO_CLOCK, ms_host_waits_step,
     "reads of device data by the host in a step"},
    {"device_allocs_step", "count", DOWN, true, NO_CLOCK, ms_device_allocs_step, "allocations on the device in a step"},
    {"skipped_steps", "count", DOWN, true, NO_CLOCK, ms_skipped_steps, "optimizer steps skipped as outliers"},
    {"not_steady", "flag", DOWN, false, CLOCK, ms_not_steady, "1: step time drifts by more than 2 % inside the launch"},
};

_Static_assert(sizeof METRICS / sizeof METRICS[0] <= MS_METRICS_MAX, "raise MS_METRICS_MAX");

const ms_metric *ms_metric_list(int *count) {
  *count = (int)(sizeof METRICS / sizeof METRICS[0]);
  return METRICS;
}

int ms_metric_index(const char *name) {
  int count = 0;
  const ms_metric *list = ms_metric_list(&count);
  for (int i = 0; i < count; i++) {
    if (strcmp(list[i].name, name) == 0) return i;
  }
  return -1;
}

const ms_metric *ms_metric_find(const char *name) {
  int index = ms_metric_index(name);
  return index < 0 ? NULL : &METRICS[index];
}
