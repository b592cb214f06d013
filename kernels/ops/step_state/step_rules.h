/* The rules of a step on plain structs, without a device: learning rate, clipping, SkipStep. Shared by the backends. */
#ifndef KERNELS_OPS_STEP_STATE_STEP_RULES_H
#define KERNELS_OPS_STEP_STATE_STEP_RULES_H

#include "kernels/ops/step_state/step_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Learning rate of step `step` (from 1). */
double mk_step_lr(const mk_step_begin_args *args, int64_t step);

/* True when SkipStep rejects the newest entry of the histories: fewer than 64 entries never do. */
bool mk_step_is_outlier(const mk_step_state *state, double sigma_factor);

/* The three ops. `counts` may be NULL. */
void mk_step_begin_rule(const mk_step_begin_args *args, mk_step_state *state, double *sums, int64_t *counts);
void mk_step_clip_rule(const mk_step_clip_args *args, mk_step_state *state, double squared_norm, const double *sums);
void mk_step_record_rule(const mk_step_record_args *args, const mk_step_state *state, const double *sums,
                         const int64_t *counts, mk_step_log *log);

#ifdef __cplusplus
}
#endif

#endif
