/* See plan.h. */
#include "trainer/step/plan.h"

#include <stdio.h>

void mt_memory_plan_count(mt_memory_plan *plan, mk_device *dev, mt_model *model, mt_optim *optim) {
  for (int i = 0; i < MK_MEM_COUNT; i++)
    plan->arena[i] = mk_arena_make(dev, (mk_memory)i);
  mt_model_place(model, plan->arena);
  mt_optim_place(optim, plan->arena);
}

static size_t planned_total(const mt_memory_plan *plan) {
  size_t total = 0;
  for (int i = 0; i < MK_MEM_COUNT; i++)
    total += plan->arena[i].peak_bytes;
  return total;
}

/* One message with all categories, before the first allocation, so that a refused run costs nothing. */
static mk_status check_budget(const mt_memory_plan *plan, mk_context *ctx, size_t budget) {
  size_t total = planned_total(plan);
  if (budget == 0 || total <= budget) return MK_OK;
  char parts[256] = "";
  size_t used = 0;
  for (int i = 0; i < MK_MEM_COUNT; i++) {
    used += (size_t)snprintf(parts + used, sizeof parts - used, "%s%s %.4g", i == 0 ? "" : ", ",
                             mk_memory_name((mk_memory)i), (double)plan->arena[i].peak_bytes / 0x1p20);
  }
  return MK_FAIL(
      ctx, MK_ERR_MEMORY,
      "out of memory: the run needs %.4g MiB a rank (%s), the budget memory_budget_mib is %.4g MiB; use more "
      "ranks with ep, dist_opt or fsdp, a smaller rank_tokens or model, or a larger budget",
      (double)total / 0x1p20, parts, (double)budget / 0x1p20);
}

mk_status mt_memory_plan_commit(mt_memory_plan *plan, mt_model *model, mt_optim *optim) {
  mk_device *dev = model->dev;
  MK_TRY(model->ctx, check_budget(plan, model->ctx, dev->config.budget_bytes));
  for (int i = 0; i < MK_MEM_COUNT; i++) {
    bool window = i == MK_MEM_COMM && model->ep->ops->windowed;
    MK_TRY(model->ctx, window ? mt_ep_window_open(model->ep, &plan->arena[i]) : mk_arena_commit(&plan->arena[i]));
  }
  mt_model_place(model, plan->arena);
  mt_optim_place(optim, plan->arena);
  return MK_OK;
}

void mt_memory_plan_release(mt_memory_plan *plan) {
  for (int i = 0; i < MK_MEM_COUNT; i++) {
    if (plan->arena[i].dev != NULL) mk_arena_release(&plan->arena[i]);
  }
}

mk_status mt_plan_memory(mk_context *ctx, const mt_config *cfg, size_t bytes[MK_MEM_COUNT]) {
  mk_status st = MK_OK;
  mk_device *dev = NULL;
  mt_ep *ep = NULL;
  mt_model *model = NULL;
  mt_mesh mesh = {0};
  mt_mesh_config layout = mt_sharding_mesh(cfg);
  mk_device_config device = {.name = cfg->device, .threads = 1, .kernel = cfg->kernel};
  MK_TRY_GOTO(ctx, mk_device_create(ctx, &device, &dev), out);
  MK_TRY_GOTO(ctx, mt_mesh_plan_make(ctx, (int)cfg->ranks, 0, &layout, &mesh.plan), out);
  MK_TRY_GOTO(ctx, mt_ep_create(ctx, dev, cfg, mesh.plan.ep, 0, NULL, &ep), out);
  MK_TRY_GOTO(ctx, mt_model_create(ctx, dev, cfg, &mesh.plan, ep, 1, &model), out);
  mt_sharding_layout(&model->params, cfg, &mesh.plan);
  mt_optim optim = {.ctx = ctx, .cfg = cfg, .model = model, .mesh = &mesh};
  mt_memory_plan plan = {0};
  mt_memory_plan_count(&plan, dev, model, &optim);
  for (int i = 0; i < MK_MEM_COUNT; i++)
    bytes[i] = plan.arena[i].peak_bytes;
out:
  mt_model_destroy(model);
  mt_ep_destroy(ep);
  mk_device_destroy(dev);
  return st;
}
