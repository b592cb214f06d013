/* memory_budget: scaled. What fits on the published device in proportion to its memory must fit here, and what does not
 * must not: the budget is the published memory times planned bytes of one case here over planned bytes of the same case
 * at the published dims. */
#include <string.h>

#include "suite/plan/plan_private.h"
#include "suite/systems/system.h"
#include "trainer/step/plan.h"

static mk_status plan_bytes(mk_context *ctx, const mt_config *cfg, double *out) {
  size_t bytes[MK_MEM_COUNT];
  MK_TRY(ctx, mt_plan_memory(ctx, cfg, bytes));
  *out = 0;
  for (int i = 0; i < MK_MEM_COUNT; i++)
    *out += (double)bytes[i];
  return MK_OK;
}

/* Planned bytes of the case at both scales. The published dims are planned for the device and GEMM kernel of this run:
 * what a kernel keeps beside the weights must not shift the proportion. */
static mk_status plan_both(ms_planner *p, const ms_scale *published, const char (*level)[MS_NAME_BYTES], double *here,
                           double *there) {
  ms_planner at = *p;
  mt_config local, far;
  MK_TRY(p->ctx, ms_case_resolve(p, level, &local));
  at.scale = published;
  at.overrides = NULL;
  MK_TRY(p->ctx, ms_case_resolve(&at, level, &far));
  far.kernel = local.kernel;
  strcpy(far.device, local.device);
  MK_TRY(p->ctx, plan_bytes(p->ctx, &local, here));
  return plan_bytes(p->ctx, &far, there);
}

static mk_status device_memory(ms_planner *p, const char *name, double *out_mib) {
  ms_system *system = NULL;
  MK_TRY(p->ctx, ms_system_read(p->ctx, name, p->diag, &system));
  *out_mib = system->memory_budget_gib * 1024;
  ms_system_destroy(p->ctx, system);
  MK_CHECK(p->ctx, *out_mib > 0, MK_ERR_CONFIG, "system '%s' states no memory_budget_gib", name);
  return MK_OK;
}

static mk_status scaled(ms_planner *p, double *out_mib) {
  char level[MS_MAX_FACTORS][MS_NAME_BYTES] = {""};
  const ms_memory_reference *m = &p->scale->memory;
  const ms_scale *published = ms_study_scale_find(p->study, "published");
  for (int i = 0; i < m->n_of; i++) {
    strcpy(level[ms_study_factor_find(p->study, m->of[i].factor)], m->of[i].level);
  }
  double memory_mib = 0, here = 0, there = 0;
  const char(*at)[MS_NAME_BYTES] = (const char(*)[MS_NAME_BYTES])level;
  MK_TRY(p->ctx, device_memory(p, published->system, &memory_mib));
  MK_TRY(p->ctx, plan_both(p, published, at, &here, &there));
  *out_mib = memory_mib * here / there;
  return MK_OK;
}

mk_status ms_plan_scaled_budget(ms_planner *p, double *out_mib) {
  *out_mib = 0;
  if (!p->scale->memory.scaled) return MK_OK;
  return ms_plan_absorb(p, scaled(p, out_mib), p->scale->memory.scaled_place, "memory_budget");
}
