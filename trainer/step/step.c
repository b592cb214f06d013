/* One optimizer step. The host only puts work on streams; it waits for nothing inside a step (except where a transport
 * says so) and looks at a step's log when the next one is under way. */
#include <string.h>

#include "trainer/data/data.h"
#include "trainer/step/trainer.h"

static mk_status unit_done(void *user, int unit) {
  mt_trainer *t = user;
  const mt_sharding_ops *ops = t->sharding->ops;
  bool last = t->sharding->last;
  if (last) MK_TRY(t->ctx, mt_optim_unit_norms(&t->optim, t->compute, unit));
  return ops->after_backward == NULL ? MK_OK : ops->after_backward(t->sharding, unit, last);
}

static mk_status unit_needed(void *user, int unit, mt_use use) {
  mt_sharding *sh = ((mt_trainer *)user)->sharding;
  return sh->ops->before_use(sh, unit, use);
}

static mk_status unit_released(void *user, int unit) {
  mt_sharding *sh = ((mt_trainer *)user)->sharding;
  return sh->ops->after_forward(sh, unit);
}

void mt_trainer_hook(mt_trainer *t, mt_pass *pass) {
  mt_sharding *sh = t->sharding;
  sh->train = pass->train;
  sh->first = t->running == 0;
  sh->last = !pass->train || t->running == t->microbatches - 1;
  for (int kind = 0; kind < 2; kind++)
    pass->fresh[kind] = mt_store_fresh(&t->model->params.store[kind], sh->first);
  pass->user = t;
  pass->unit_needed = sh->ops->before_use != NULL ? unit_needed : NULL;
  pass->unit_released = sh->ops->after_forward != NULL ? unit_released : NULL;
  pass->unit_done = pass->train ? unit_done : NULL;
}

mk_status mt_trainer_begin(mt_trainer *t) {
  t->step += 1;
  t->running = 0;
  MK_TRY(t->ctx, mk_event_record(t->slot[t->step % MT_LOG_SLOTS].start, t->compute));
  t->call_s = t->dev->call_s;
  return mt_optim_begin(&t->optim, t->compute, t->step);
}

/* The ring holds two steps: a slot is used again only after the log of the step that used it was waited for. */
static mk_status upload(mt_trainer *t, const int32_t *tokens, const int32_t *labels) {
  int64_t count = t->model->tokens;
  int64_t slot = ((t->step % 2) * t->microbatches + t->running) * count;
  memcpy(t->ids + slot, tokens, (size_t)count * sizeof *tokens);
  memcpy(t->labels + slot, labels, (size_t)count * sizeof *labels);
  MK_TRY(t->ctx, mk_copy_h2d(t->compute, &t->model->set[0].ids, t->ids + slot));
  return mk_copy_h2d(t->compute, &t->model->set[0].labels, t->labels + slot);
}

mk_status mt_trainer_microbatch(mt_trainer *t, const int32_t *tokens, const int32_t *labels) {
  const mt_mesh_plan *plan = &t->mesh->plan;
  MK_CHECK(t->ctx, t->running < t->microbatches, MK_ERR_ARG, "step %lld takes %lld microbatches", (long long)t->step,
           (long long)t->microbatches);
  MK_TRY(t->ctx, upload(t, tokens, labels));
  mt_pass pass = {.stream = t->compute,
                  .set = &t->model->set[0],
                  .train = true,
                  .first_token = mt_data_first_token(&t->cfg, plan->dp_rank, t->running),
                  .microbatches = t->microbatches * plan->dp};
  int64_t routes = mt_config_moe_layers(&t->cfg) * t->model->tokens * t->cfg.top_k;
  if (t->routes != NULL) pass.routes = t->routes + t->running * routes;
  mt_trainer_hook(t, &pass);
  MK_TRY(t->ctx, mt_model_forward(t->model, &pass));
  MK_TRY(t->ctx, mt_model_backward(t->model, &pass));
  t->running += 1;
  return MK_OK;
}

mk_status mt_trainer_reduce(mt_trainer *t) {
  if (t->sharding->ops->before_step != NULL) MK_TRY(t->ctx, t->sharding->ops->before_step(t->sharding));
  return mt_optim_reduce(&t->optim, t->compute);
}

mk_status mt_trainer_gradients_given(mt_trainer *t) {
  for (int unit = 0; unit < t->model->params.units; unit++) {
    MK_TRY(t->ctx, mt_optim_unit_norms(&t->optim, t->compute, unit));
  }
  return MK_OK;
}

mk_status mt_trainer_update(mt_trainer *t) {
  MK_TRY(t->ctx, mt_optim_update(&t->optim, t->compute));
  if (t->sharding->ops->after_step != NULL) MK_TRY(t->ctx, t->sharding->ops->after_step(t->sharding));
  return mt_model_pack(t->model, t->compute);
}

/* Puts the log on its way to the host and marks the end of the step. */
static mk_status send_log(mt_trainer *t) {
  mt_model *m = t->model;
  mt_log_slot *slot = &t->slot[t->step % MT_LOG_SLOTS];
  mk_tensor none = {0};
  mk_tensor counts = m->moe_layers > 0 ? m->step_counts : none;
  MK_TRY(t->ctx,
         mk_step_record(t->compute, &(mk_step_record_args){
                                        .state = m->state, .sums = m->sums, .counts = counts, .log = t->optim.log}));
  MK_TRY(t->ctx, mk_copy_d2h(t->compute, &slot->log, &t->optim.log));
  MK_TRY(t->ctx, mk_copy_d2h(t->compute, slot->times, &t->optim.times));
  return mk_event_record(slot->end, t->compute);
}

/* Waits, outside the step, until the step before the running one has ended, and takes its time: the host runs at most
 * one step ahead. The time travels to the other ranks with the sums of the coming step. */
static mk_status take_time(mt_trainer *t) {
  if (t->step < t->resumed + 2) return MK_OK;
  return mt_trainer_time_read(t, t->step - 1, t->optim.own_times[(t->step + 1) % MT_TIME_SLOTS]);
}

mk_status mt_trainer_time_read(mt_trainer *t, int64_t step, double own[2]) {
  mt_log_slot *slot = &t->slot[step % MT_LOG_SLOTS];
  MK_TRY(t->ctx, mk_event_sync(slot->end, false));
  MK_TRY(t->ctx, mk_event_elapsed_s(slot->start, slot->end, &own[0]));
  own[1] = own[0] - slot->comm_s;
  return MK_OK;
}

mk_status mt_trainer_finish(mt_trainer *t) {
  MK_TRY(t->ctx, mt_trainer_reduce(t));
  MK_TRY(t->ctx, mt_trainer_update(t));
  MK_TRY(t->ctx, send_log(t));
  t->slot[t->step % MT_LOG_SLOTS].comm_s = t->dev->call_s - t->call_s;
  MK_TRY(t->ctx, take_time(t));
  MK_TRY(t->ctx, mt_comm_poll(t->mesh->world));
  return mk_device_poll(t->dev);
}

mk_status mt_trainer_log_read(mt_trainer *t, mk_step_log *out) {
  mt_log_slot *slot = &t->slot[t->step % MT_LOG_SLOTS];
  MK_TRY(t->ctx, mk_event_sync(slot->end, false));
  MK_TRY(t->ctx, mk_device_poll(t->dev));
  *out = slot->log;
  return MK_OK;
}
