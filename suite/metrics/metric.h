/* Metrics: pure functions of one launch's records, one small file each, one table. NaN = not available, never zero. */
#ifndef SUITE_METRICS_METRIC_H
#define SUITE_METRICS_METRIC_H

#include "suite/record/records.h"

enum { MS_METRICS_MAX = 48 };

/* What a metric sees: the records and the facts around them. */
typedef struct ms_view {
  const ms_records *records;
  const ms_step *steps; /* measured steps: those after the warm-up */
  int64_t n_steps;
  const double *sorted_s; /* their times, ascending */
  int64_t devices;        /* GPUs; on the CPU the ranks */
  double peak_flops;      /* of all devices together, at the precision used; NaN = unknown */
  bool median_step;       /* the study's statistic: median step instead of tokens over time */
  double *owned;          /* storage of sorted_s */
} ms_view;

/* Skips `warmup_steps` and sorts step times. A launch without measured steps is legal: rates are then NaN. */
mk_status ms_view_init(mk_context *ctx, const ms_records *records, int64_t warmup_steps, ms_view *out);
void ms_view_fini(mk_context *ctx, ms_view *view);

typedef struct ms_metric {
  const char *name, *unit;
  bool lower_is_better;
  bool deterministic; /* equal in every launch of a case with fixed seed */
  bool timed;         /* follows from the clock: no result where arithmetic is emulated */
  double (*value)(const ms_view *view);
  const char *help;
} ms_metric;

const ms_metric *ms_metric_list(int *count);

/* Entry of a metric, or NULL. */
const ms_metric *ms_metric_find(const char *name);

/* Index in the list, or -1. */
int ms_metric_index(const char *name);

/* Sum of measured step times, and of their tokens; shared by several metrics. */
double ms_view_time_s(const ms_view *view);
double ms_view_tokens(const ms_view *view);

double ms_tok_s(const ms_view *view);
double ms_tok_s_gpu(const ms_view *view);
double ms_step_ms_p50(const ms_view *view);
double ms_step_ms_p95(const ms_view *view);
double ms_step_ms_p99(const ms_view *view);
double ms_mfu_pct(const ms_view *view);
double ms_tflop_s_gpu(const ms_view *view);
double ms_bound_pct(const ms_view *view);
double ms_peak_mem(const ms_view *view);
double ms_mem_reserved(const ms_view *view);
double ms_flop_token(const ms_view *view);
double ms_params_total(const ms_view *view);
double ms_params_active(const ms_view *view);
double ms_loss_last(const ms_view *view);
double ms_loss_first(const ms_view *view);
double ms_eval_loss(const ms_view *view);
double ms_drop_rate(const ms_view *view);
double ms_imbalance(const ms_view *view);
double ms_straggler(const ms_view *view);
double ms_wire_bytes_step(const ms_view *view);
double ms_host_waits_step(const ms_view *view);
double ms_device_allocs_step(const ms_view *view);
double ms_skipped_steps(const ms_view *view);
double ms_not_steady(const ms_view *view);

#endif
