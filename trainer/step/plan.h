/* The memory of a run, planned before the first step: every tensor goes through the same placement twice, once to count
 * and once to get its address, so that planned and allocated bytes are one number. */
#ifndef TRAINER_STEP_PLAN_H
#define TRAINER_STEP_PLAN_H

#include "trainer/optim/optim.h"
#include "trainer/parallel/parallel.h"
#include "trainer/parallel/pp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Everything that owns device memory. */
typedef struct mt_memory_plan {
  mk_arena arena[MK_MEM_COUNT];
} mt_memory_plan;

/* First pass: places all tensors of the parts, without memory. */
void mt_memory_plan_count(mt_memory_plan *plan, mk_device *dev, mt_model *model, mt_optim *optim, mt_pp *pp);

/* Allocates what was counted and places again. MK_ERR_MEMORY names the budget, the total and each category. */
mk_status mt_memory_plan_commit(mt_memory_plan *plan, mt_model *model, mt_optim *optim, mt_pp *pp);
void mt_memory_plan_release(mt_memory_plan *plan);

/* Pure: planned bytes by category for a configuration, of that pipeline rank that needs most; nothing is allocated, no
 * rank is started. */
mk_status mt_plan_memory(mk_context *ctx, const mt_config *cfg, size_t bytes[MK_MEM_COUNT]);

#ifdef __cplusplus
}
#endif

#endif
