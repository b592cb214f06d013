/* The norms of a block: where one stands depends on the placement; these calls hide the parameter lookup. */
#ifndef TRAINER_MODEL_NORM_H
#define TRAINER_MODEL_NORM_H

#include "trainer/model/model.h"

/* y = N(x), or with a branch: sum = x + branch, y = N(sum). branch may be absent. */
mk_status mt_norm_in(mt_model *m, const mt_pass *p, int unit, mt_param_role role, const mk_tensor *x,
                     const mk_tensor *branch, const mk_tensor *sum, const mk_tensor *y, const mk_tensor *rstd);

/* y = N(x) + stream. */
mk_status mt_norm_out(mt_model *m, const mt_pass *p, int unit, mt_param_role role, const mk_tensor *x,
                      const mk_tensor *stream, const mk_tensor *y, const mk_tensor *rstd);

/* dx = N'(dy) (+ add when not NULL); the gain's gradient is accumulated. */
mk_status mt_norm_backward(mt_model *m, const mt_pass *p, int unit, mt_param_role role, const mk_tensor *x,
                           const mk_tensor *rstd, const mk_tensor *dy, const mk_tensor *add, const mk_tensor *dx);

#endif
