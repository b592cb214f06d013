/* One optimizer step. The host only puts work on streams; it waits for nothing inside a step (except where a transport
 * says so) and looks at a step's log when the next one is under way. */
#include <string.h>

#include "trainer/data/data.h"
#include "trainer/step/trainer.h"

/* Passes of a stage come in the order of microbatches, so that the last one completes its units. */
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
  t->next = 0;
  t->given = 0;
  MK_TRY(t->ctx, mk_event_record(t->slot[t->step % MT_LOG_SLOTS].start, t->compute));
  t->call_s = t->dev->call_s;
  return mt_optim_begin(&t->optim, t->compute, t->step);
}

/* Place of a microbatch in the ring, which holds two steps: one is used again only after the log of the step that used
 * it was waited for. */
static int64_t ring_place(const mt_trainer *t, int64_t microbatch) {
  return ((t->step % 2) * t->microbatches + microbatch) * t->model->tokens;
}

/* Tokens for the embedding, labels for the head, each where it is. */
static mk_status upload(mt_trainer *t, const mt_pp_action *a) {
  const mt_pp_stage *stage = &t->model->chunk[a->chunk].stage;
  mt_set *set = &t->model->set[a->set];
  int64_t place = ring_place(t, a->microbatch);
  if (stage->embeds) MK_TRY(t->ctx, mk_copy_h2d(t->compute, &set->ids, t->ids + place));
  return stage->predicts ? mk_copy_h2d(t->compute, &set->labels, t->labels + place) : MK_OK;
}

static mk_status act(mt_trainer *t, const mt_pp_action *a) {
  const mt_mesh_plan *plan = &t->mesh->plan;
  mt_pass pass = {.train = true,
                  .first_token = mt_data_first_token(&t->cfg, plan->dp_rank, a->microbatch),
                  .microbatches = t->microbatches * plan->dp};
  int64_t routes = mt_config_moe_layers(&t->cfg) * t->model->tokens * t->cfg.top_k;
  if (t->routes != NULL) pass.routes = t->routes + a->microbatch * routes;
  t->running = a->microbatch;
  mt_trainer_hook(t, &pass);
  if (a->op == MT_PP_COMPUTE && !a->backward) MK_TRY(t->ctx, upload(t, a));
  return mt_pp_run(t->pp, t->model, a, &pass);
}

mk_status mt_trainer_microbatch(mt_trainer *t, const int32_t *tokens, const int32_t *labels) {
  const mt_pp_list *list = t->pp->step_list;
  size_t bytes = (size_t)t->model->tokens * sizeof *tokens;
  MK_CHECK(t->ctx, t->given < t->microbatches, MK_ERR_ARG, "step %lld takes %lld microbatches", (long long)t->step,
           (long long)t->microbatches);
  memcpy(t->ids + ring_place(t, t->given), tokens, bytes);
  memcpy(t->labels + ring_place(t, t->given), labels, bytes);
  t->given += 1;
  for (; list->action[t->next].op != MT_PP_STEP; t->next++) {
    if (list->action[t->next].microbatch >= t->given) break;
    MK_TRY(t->ctx, act(t, &list->action[t->next]));
  }
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
  MK_TRY(t->ctx, mt_mesh_poll(t->mesh));
  return mk_device_poll(t->dev);
}

mk_status mt_trainer_log_read(mt_trainer *t, mk_step_log *out) {
  mt_log_slot *slot = &t->slot[t->step % MT_LOG_SLOTS];
  MK_TRY(t->ctx, mk_event_sync(slot->end, false));
  MK_TRY(t->ctx, mk_device_poll(t->dev));
  *out = slot->log;
  return MK_OK;
}
