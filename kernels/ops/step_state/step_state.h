/* Per-step scalars live on the device, so that no op takes a host scalar that changes between steps.
 * step_begin: advances the step, sets the learning rate, clears the step's sums. step_clip: turns the squared norm into
 * the clip coefficient and decides on a skip. step_record: writes the step's log record, which the host reads one step
 * late. The structs are shared between host and device as plain bytes. */
#ifndef KERNELS_OPS_STEP_STATE_STEP_STATE_H
#define KERNELS_OPS_STEP_STATE_STEP_STATE_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mk_lr_schedule { MK_LR_CONSTANT, MK_LR_COSINE, MK_LR_LINEAR } mk_lr_schedule;

typedef struct mk_step_state {
  int64_t step;  /* current step, from 1 */
  int64_t taken; /* optimizer steps taken, the t of Adam; not advanced by a skipped step */
  double lr;
  double loss_divisor; /* divides every loss term of a microbatch; constant unless masks change */
  double grad_norm;    /* before clipping */
  double clip_coef;    /* min(1, max_norm / (norm + 1e-6)) */
  int32_t skip;        /* 1: adamw changes nothing */
  int32_t nonfinite;   /* 1: loss or norm is not finite */
  int64_t history;     /* entries in loss_history (cross-entropy) and norm_history so far */
  double loss_history[129];
  double norm_history[129];
} mk_step_state;

/* Sums of one step on one rank (before reduction over ranks); f64 [MK_SUM_COUNT]. */
typedef enum mk_step_sum {
  MK_SUM_CE,      /* sum of cross-entropy / divisor */
  MK_SUM_Z,       /* LM z-loss, weighted, / divisor */
  MK_SUM_LB,      /* load-balancing loss, unweighted, summed over layers */
  MK_SUM_RZ,      /* router z-loss, unweighted, / divisor, summed over layers */
  MK_SUM_DROPPED, /* dropped assignments */
  MK_SUM_ROUTED,  /* all assignments */
  MK_SUM_LABELS,  /* labels that counted */
  MK_SUM_COUNT
} mk_step_sum;

typedef struct mk_step_log {
  int64_t step;
  double sum[MK_SUM_COUNT];
  double grad_norm, lr;
  double imbalance; /* worst layer's max/mean of expert counts */
  int32_t skipped, nonfinite;
} mk_step_log;

typedef struct mk_step_begin_args {
  mk_tensor state;  /* u8 [sizeof(mk_step_state)] */
  mk_tensor sums;   /* f64 [MK_SUM_COUNT], cleared */
  mk_tensor counts; /* optional i64 [layers,E], cleared */
  mk_lr_schedule schedule;
  double peak_lr;
  double min_ratio;     /* final lr / peak lr (cosine, linear) */
  int64_t warmup_steps; /* lr of step s <= warmup is peak*s/warmup */
  int64_t total_steps;  /* where cosine and linear end */
} mk_step_begin_args;

typedef struct mk_step_clip_args {
  mk_tensor state;
  mk_tensor squared_norm; /* f64 [1], already reduced over ranks */
  mk_tensor sums;         /* f64 [MK_SUM_COUNT], averaged over ranks: SkipStep reads CE, the check the weighted total */
  double lb_weight, rz_weight;
  double max_norm;   /* 0 = no clipping (coef 1) */
  int32_t skip_step; /* 1: SkipStep (Olmo-core 3.0.0), and skip on non-finite instead of ending the run */
  double sigma_factor;
} mk_step_clip_args;

typedef struct mk_step_record_args {
  mk_tensor state;
  mk_tensor sums;   /* f64 [MK_SUM_COUNT] */
  mk_tensor counts; /* optional i64 [layers,E], reduced over ranks */
  mk_tensor log;    /* out u8 [sizeof(mk_step_log)] */
} mk_step_record_args;

mk_status mk_step_begin(mk_stream *stream, const mk_step_begin_args *args);
mk_status mk_step_clip(mk_stream *stream, const mk_step_clip_args *args);
mk_status mk_step_record(mk_stream *stream, const mk_step_record_args *args);

#ifdef __cplusplus
}
#endif

#endif
