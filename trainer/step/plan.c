/* See plan.h. */
#include "trainer/step/plan.h"

#include <stdio.h>

static void place(mt_memory_plan *plan, mt_model *model, mt_optim *optim, mt_pp *pp) {
  mt_model_place(model, plan->arena);
  mt_optim_place(optim, plan->arena);
  mt_pp_place(pp, model->cfg, &plan->arena[MK_MEM_COMM]);
}

void mt_memory_plan_count(mt_memory_plan *plan, mk_device *dev, mt_model *model, mt_optim *optim, mt_pp *pp) {
  for (int i = 0; i < MK_MEM_COUNT; i++)
    plan->arena[i] = mk_arena_make(dev, (mk_memory)i);
  place(plan, model, optim, pp);
}

static size_t planned_total(const mt_memory_plan *plan) {
  size_t total = 0;
  for (int i = 0; i < MK_MEM_COUNT; i++) {
    size_t more = plan->arena[i].peak_bytes;
    total = more < SIZE_MAX - total ? total + more : SIZE_MAX;
  }
  return total;
}

/* One message with all categories, before the first allocation, so that a refused run costs nothing. */
static mk_status check_budget(const mt_memory_plan *plan, mk_context *ctx, size_t budget) {
  size_t total = planned_total(plan);
  MK_CHECK(ctx, total < SIZE_MAX, MK_ERR_MEMORY,
           "out of memory: the run needs more than any machine can address; use a smaller model or rank_tokens");
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

mk_status mt_memory_plan_commit(mt_memory_plan *plan, mt_model *model, mt_optim *optim, mt_pp *pp) {
  mk_device *dev = model->dev;
  MK_TRY(model->ctx, check_budget(plan, model->ctx, dev->config.budget_bytes));
  for (int i = 0; i < MK_MEM_COUNT; i++) {
    bool window = i == MK_MEM_COMM && model->ep->ops->windowed;
    MK_TRY(model->ctx, window ? mt_ep_window_open(model->ep, &plan->arena[i]) : mk_arena_commit(&plan->arena[i]));
  }
  place(plan, model, optim, pp);
  return MK_OK;
}

void mt_memory_plan_release(mt_memory_plan *plan) {
  for (int i = 0; i < MK_MEM_COUNT; i++) {
    if (plan->arena[i].dev != NULL) mk_arena_release(&plan->arena[i]);
  }
}

/* Counts what pipeline rank `pp_rank` would place. */
static mk_status count_rank(mk_context *ctx, mk_device *dev, const mt_config *cfg, int pp_rank, mt_memory_plan *plan) {
  mk_status st = MK_OK;
  mt_ep *ep = NULL;
  mt_pp *pp = NULL;
  mt_model *model = NULL;
  mt_mesh mesh = {0};
  mt_mesh_config layout = mt_sharding_mesh(cfg);
  int rank = pp_rank * (int)mt_config_dp(cfg);
  MK_TRY_GOTO(ctx, mt_mesh_plan_make(ctx, (int)cfg->ranks, rank, &layout, &mesh.plan), out);
  MK_TRY_GOTO(ctx, mt_pp_create(ctx, cfg, &mesh.plan, &pp), out);
  MK_TRY_GOTO(ctx, mt_ep_create(ctx, dev, cfg, mesh.plan.ep, 0, NULL, &ep), out);
  MK_TRY_GOTO(ctx, mt_model_create(ctx, dev, cfg, &mesh.plan, ep, mt_pp_sets(pp), &model), out);
  mt_sharding_layout(&model->params, cfg, &mesh.plan);
  mt_optim optim = {.ctx = ctx, .cfg = cfg, .model = model, .mesh = &mesh};
  mt_memory_plan_count(plan, dev, model, &optim, pp);
out:
  mt_model_destroy(model);
  mt_ep_destroy(ep);
  mt_pp_destroy(pp);
  return st;
}

mk_status mt_plan_memory(mk_context *ctx, const mt_config *cfg, size_t bytes[MK_MEM_COUNT]) {
  mk_status st = MK_OK;
  mk_device *dev = NULL;
  size_t most = 0;
  mk_device_config device = {.name = cfg->device, .threads = 1, .kernel = cfg->kernel};
  MK_TRY_GOTO(ctx, mk_device_create(ctx, &device, &dev), out);
  for (int pp_rank = 0; pp_rank < (int)cfg->pp; pp_rank++) {
    mt_memory_plan plan = {0};
    MK_TRY_GOTO(ctx, count_rank(ctx, dev, cfg, pp_rank, &plan), out);
    if (pp_rank > 0 && planned_total(&plan) <= most) continue;
    most = planned_total(&plan);
    for (int i = 0; i < MK_MEM_COUNT; i++)
      bytes[i] = plan.arena[i].peak_bytes;
  }
out:
  mk_device_destroy(dev);
  return st;
}
