/* What AdamW needs of a step, the same for every element. Plain C, shared by the backends. */
#ifndef KERNELS_OPS_ADAMW_ADAMW_FACTORS_H
#define KERNELS_OPS_ADAMW_ADAMW_FACTORS_H

#include <math.h>

#include "kernels/ops/adamw/adamw.h"
#include "kernels/ops/step_state/step_state.h"

typedef struct mk_adamw_factors {
  double clip;  /* of the gradient */
  double decay; /* 1 - lr * wd */
  double step;  /* lr / (1 - b1^t) */
  double root;  /* 1 / sqrt(1 - b2^t) */
  int32_t skip;
} mk_adamw_factors;

static inline mk_adamw_factors mk_adamw_factors_of(const mk_adamw_args *a, const mk_step_state *s) {
  return (mk_adamw_factors){
      .clip = s->clip_coef,
      .decay = 1.0 - s->lr * (double)a->weight_decay,
      .step = s->lr / (1.0 - pow((double)a->beta1, (double)s->taken)),
      .root = 1.0 / sqrt(1.0 - pow((double)a->beta2, (double)s->taken)),
      .skip = s->skip,
  };
}

#endif
