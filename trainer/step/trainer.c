/* Building and taking down a trainer. The order of creation is the order of dependence; destruction is its reverse. */
#include "trainer/step/trainer.h"

#include <unistd.h>

#include "kernels/base/heap.h"
#include "trainer/data/data.h"

static mk_status create_device(mt_trainer *t) {
  const mt_config *c = &t->cfg;
  mk_device_config config = {.name = c->device,
                             .threads = (int)c->threads,
                             .kernel = c->kernel,
                             .guard = c->guard,
                             .budget_bytes = (size_t)(c->memory_budget_mib * 0x1p20),
                             .profile = c->profile,
                             .seed = (uint64_t)c->seed};
  MK_TRY(t->ctx, mk_device_create(t->ctx, &config, &t->dev));
  MK_TRY(t->ctx, mk_stream_create(t->dev, "compute", &t->compute));
  return mk_stream_create(t->dev, "comm", &t->comm);
}

static mk_status create_parts(mt_trainer *t, mt_comm *world) {
  mk_context *ctx = t->ctx;
  const mt_config *c = &t->cfg;
  mt_mesh_config layout = mt_sharding_mesh(c);
  MK_TRY(ctx, mt_mesh_create(ctx, world, &layout, &t->mesh));
  const mt_mesh_plan *plan = &t->mesh->plan;
  MK_TRY(ctx, mt_ep_create(ctx, t->dev, c, plan->ep, plan->ep_rank, t->mesh->ep, &t->ep));
  MK_TRY(ctx, mt_pp_create(ctx, c, plan, &t->pp));
  MK_TRY(ctx, mt_pp_start(t->pp, t->mesh, t->compute));
  MK_TRY(ctx, mt_model_create(ctx, t->dev, c, plan, t->ep, mt_pp_sets(t->pp), &t->model));
  mt_sharding_layout(&t->model->params, c, plan);
  int64_t total = c->schedule_steps > 0 ? c->schedule_steps : c->warmup_steps + c->steps;
  t->optim = (mt_optim){.ctx = ctx, .cfg = c, .model = t->model, .mesh = t->mesh, .total_steps = total};
  mt_memory_plan_count(&t->memory, t->dev, t->model, &t->optim, t->pp);
  MK_TRY(ctx, mt_memory_plan_commit(&t->memory, t->model, &t->optim, t->pp));
  return mt_sharding_create(ctx, c, &t->model->params, t->mesh, t->pp, t->compute, t->comm, &t->sharding);
}

static mk_status create_host(mt_trainer *t) {
  mk_context *ctx = t->ctx;
  size_t ring = (size_t)(2 * t->microbatches * t->model->tokens);
  MK_TRY(ctx, mk_heap_array(ctx, ring, sizeof(int32_t), &t->ids));
  MK_TRY(ctx, mk_heap_array(ctx, ring, sizeof(int32_t), &t->labels));
  for (int i = 0; i < MT_LOG_SLOTS; i++) {
    size_t times = (size_t)(2 * t->mesh->plan.world + 1);
    MK_TRY(ctx, mk_heap_array(ctx, times, sizeof(double), &t->slot[i].times));
    MK_TRY(ctx, mk_event_create(t->dev, &t->slot[i].start));
    MK_TRY(ctx, mk_event_create(t->dev, &t->slot[i].end));
  }
  return MK_OK;
}

static mk_status init_state(mt_trainer *t) {
  mk_step_state state = {.loss_divisor = (double)mt_data_labels_per_step(&t->cfg)};
  MK_TRY(t->ctx, mk_copy_h2d(t->compute, &t->model->state, &state));
  MK_TRY(t->ctx, mt_ep_start(t->ep, t->compute));
  MK_TRY(t->ctx, mt_model_init(t->model, t->compute));
  return mk_stream_sync(t->compute, false);
}

mk_status mt_trainer_create(mk_context *ctx, const mt_config *cfg, mt_comm *world, mt_trainer **out) {
  mk_status st = MK_OK;
  mt_trainer *t = NULL;
  MK_TRY(ctx, mt_config_check(ctx, cfg));
  MK_CHECK(ctx, world->size == cfg->ranks, MK_ERR_CONFIG,
           "ranks: %lld, but %d processes were started; start mpirun -np %lld or set ranks=%d", (long long)cfg->ranks,
           world->size, (long long)cfg->ranks, world->size);
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *t, &t));
  t->ctx = ctx;
  t->cfg = *cfg;
  t->microbatches = mt_config_microbatches(cfg);
  MK_TRY_GOTO(ctx, create_device(t), out);
  MK_TRY_GOTO(ctx, create_parts(t, world), out);
  MK_TRY_GOTO(ctx, create_host(t), out);
  MK_TRY_GOTO(ctx, init_state(t), out);
  *out = t;
  t = NULL;
out:
  mt_trainer_destroy(t);
  return st;
}

void mt_trainer_destroy(mt_trainer *t) {
  if (t == NULL) return;
  mk_context *ctx = t->ctx;
  mt_pp_destroy(t->pp); /* streams first: nothing may still run on the memory below */
  mk_stream_destroy(t->comm);
  mk_stream_destroy(t->compute);
  for (int i = 0; i < MT_LOG_SLOTS; i++) {
    mk_event_destroy(t->slot[i].end);
    mk_event_destroy(t->slot[i].start);
    mk_heap_free(ctx, t->slot[i].times);
  }
  mk_heap_free(ctx, t->labels);
  mk_heap_free(ctx, t->ids);
  mt_sharding_destroy(t->sharding);
  mt_memory_plan_release(&t->memory);
  mt_model_destroy(t->model);
  mt_ep_destroy(t->ep);
  mt_mesh_destroy(t->mesh);
  mk_device_destroy(t->dev);
  if (t->checkpoint_lock > 0) close(t->checkpoint_lock);
  mk_heap_free(ctx, t);
}

int64_t mt_trainer_wire_bytes(const mt_trainer *t) { return mt_mesh_payload_bytes(t->mesh); }
