/* See optim.h. Everything that depends on gradients is decided on the device, the same way on every rank. */
#include "trainer/optim/optim.h"

void mt_optim_place(mt_optim *optim, mk_arena *arenas) {
  int64_t times = 2 * optim->mesh->plan.world + 1;
  optim->reduce = mk_tensor_1d(MK_F64, MK_SUM_COUNT + 1 + times);
  optim->log = mk_tensor_1d(MK_U8, (int64_t)sizeof(mk_step_log));
  mk_arena_place(&arenas[MK_MEM_WORKSPACE], &optim->reduce);
  optim->verdict = mk_tensor_1d(MK_I32, 1);
  optim->notice = mk_tensor_1d(MK_U8, MK_MESSAGE_BYTES);
  optim->memory = mk_tensor_2d(MK_I64, optim->mesh->plan.world, MT_MEMORY_WORDS);
  mk_arena_place(&arenas[MK_MEM_WORKSPACE], &optim->log);
  mk_arena_place(&arenas[MK_MEM_WORKSPACE], &optim->verdict);
  mk_arena_place(&arenas[MK_MEM_WORKSPACE], &optim->notice);
  mk_arena_place(&arenas[MK_MEM_WORKSPACE], &optim->memory);
  optim->times = mk_tensor_slice(&optim->reduce, MK_SUM_COUNT + 1, times);
  optim->model->sums = mk_tensor_slice(&optim->reduce, 0, MK_SUM_COUNT);
}

static mk_status send_times(mt_optim *optim, mk_stream *stream, int64_t slot) {
  const mt_mesh_plan *plan = &optim->mesh->plan;
  mk_tensor own = mk_tensor_slice(&optim->times, 2 * plan->rank, 2);
  mk_tensor stop = mk_tensor_slice(&optim->times, 2 * plan->world, 1);
  MK_TRY(optim->ctx, mk_fill(stream, &optim->times, 0));
  MK_TRY(optim->ctx, mk_copy_h2d(stream, &stop, &optim->own_stop[slot]));
  return mk_copy_h2d(stream, &own, optim->own_times[slot]);
}

mk_status mt_optim_times_exchange(mt_optim *optim, mk_stream *stream) {
  mt_comm *all = mt_mesh_all(optim->mesh);
  MK_TRY(optim->ctx, send_times(optim, stream, 0));
  return all->size == 1 ? MK_OK : mt_comm_all_reduce(all, &optim->times, &optim->times, MT_SUM, stream);
}

mk_status mt_optim_memory_exchange(mt_optim *optim, mk_stream *stream, int64_t *all) {
  mt_comm *world = mt_mesh_all(optim->mesh);
  mk_tensor own = mk_tensor_rows(&optim->memory, optim->mesh->plan.rank, 1);
  if (world->size == 1) return MK_OK;
  MK_TRY(optim->ctx, mk_copy_h2d(stream, &own, all + optim->mesh->plan.rank * MT_MEMORY_WORDS));
  MK_TRY(optim->ctx, mt_comm_all_gather(world, &own, &optim->memory, stream));
  MK_TRY(optim->ctx, mk_copy_d2h(stream, all, &optim->memory));
  return mk_stream_sync(stream, false);
}

mk_status mt_optim_begin(mt_optim *optim, mk_stream *stream, int64_t step) {
  const mt_config *c = optim->cfg;
  mt_model *m = optim->model;
  mk_tensor none = {0};
  mk_tensor norm = mk_tensor_slice(&optim->reduce, MK_SUM_COUNT, 1);
  MK_TRY(optim->ctx, mk_fill(stream, &norm, 0));
  MK_TRY(optim->ctx, send_times(optim, stream, step % MT_TIME_SLOTS));
  return mk_step_begin(stream, &(mk_step_begin_args){.state = m->state,
                                                     .sums = m->sums,
                                                     .counts = m->moe_layers > 0 ? m->step_counts : none,
                                                     .schedule = c->schedule,
                                                     .peak_lr = c->lr,
                                                     .min_ratio = c->lr_min_ratio,
                                                     .warmup_steps = c->lr_warmup_steps,
                                                     .total_steps = optim->total_steps});
}

/* Ranks whose gradients of this parameter are summed. */
static int copies(const mt_optim *optim, const mt_param *p) {
  return p->expert ? optim->mesh->plan.ep_dp : optim->mesh->plan.dp;
}

/* Ranks that hold the same elements of a parameter each add their share. */
static double norm_share(const mt_optim *optim, const mt_param *p) {
  return 1.0 / (p->replicated ? copies(optim, p) : optim->model->params.store[p->expert].copies);
}

static mk_status add_norm(mt_optim *optim, mk_stream *stream, const mt_param *p) {
  if (p->shard_count == 0) return MK_OK;
  mk_squared_norm_args args = {
      .x = p->own_grad, .out = mk_tensor_slice(&optim->reduce, MK_SUM_COUNT, 1), .scale = norm_share(optim, p)};
  return mk_squared_norm(stream, &args);
}

mk_status mt_optim_unit_norms(mt_optim *optim, mk_stream *stream, int unit) {
  for (int role = 0; role < MT_PARAM_ROLE_COUNT; role++) {
    const mt_param *p = mt_params_find(&optim->model->params, unit, (mt_param_role)role);
    if (p != NULL && copies(optim, p) == 1) MK_TRY(optim->ctx, add_norm(optim, stream, p));
  }
  return MK_OK;
}

static mk_status add_shared_norms(mt_optim *optim, mk_stream *stream) {
  const mt_params *params = &optim->model->params;
  for (int i = 0; i < params->count; i++) {
    if (copies(optim, &params->item[i]) > 1) MK_TRY(optim->ctx, add_norm(optim, stream, &params->item[i]));
  }
  return MK_OK;
}

mk_status mt_optim_reduce(mt_optim *optim, mk_stream *stream) {
  mk_context *ctx = optim->ctx;
  const mt_config *c = optim->cfg;
  mt_model *m = optim->model;
  mt_comm *all = mt_mesh_all(optim->mesh);
  MK_TRY(ctx, add_shared_norms(optim, stream));
  if (all->size > 1) {
    MK_TRY(ctx, mt_comm_all_reduce(all, &optim->reduce, &optim->reduce, MT_SUM, stream));
    if (m->moe_layers > 0) {
      MK_TRY(ctx, mt_comm_all_reduce(all, &m->step_counts, &m->step_counts, MT_SUM, stream));
    }
  }
  return mk_step_clip(stream, &(mk_step_clip_args){.state = m->state,
                                                   .sums = m->sums,
                                                   .squared_norm = mk_tensor_slice(&optim->reduce, MK_SUM_COUNT, 1),
                                                   .lb_weight = c->lb_weight,
                                                   .rz_weight = c->router_z_weight,
                                                   .max_norm = c->clip,
                                                   .skip_step = c->skip_step,
                                                   .sigma_factor = c->skip_sigma});
}

int64_t mt_optim_wire_bytes(const mt_config *cfg, const mt_mesh_plan *plan) {
  int64_t reduce = MK_SUM_COUNT + 2 + 2 * plan->world, counts = mt_config_moe_layers(cfg) * cfg->experts;
  return plan->world > 1 ? 8 * (reduce + counts) : 0;
}

/* The next step adds to all elements of such a gradient, the own shard or not. */
static mk_status clear_rest(mt_optim *optim, mk_stream *stream, const mt_param *p) {
  if (!mk_tensor_present(&p->grad)) return MK_OK; /* cleared before each use */
  int64_t end = p->shard_first + p->shard_count;
  mk_tensor before = mk_tensor_slice(&p->grad, 0, p->shard_first);
  mk_tensor after = mk_tensor_slice(&p->grad, end, p->count - end);
  if (p->shard_first > 0) MK_TRY(optim->ctx, mk_fill(stream, &before, 0));
  return p->count > end ? mk_fill(stream, &after, 0) : MK_OK;
}

mk_status mt_optim_update(mt_optim *optim, mk_stream *stream) {
  const mt_config *c = optim->cfg;
  mt_model *m = optim->model;
  for (int i = 0; i < m->params.count; i++) {
    const mt_param *p = &m->params.item[i];
    if (!p->overwritten) MK_TRY(optim->ctx, clear_rest(optim, stream, p));
    if (p->shard_count == 0) continue;
    mk_adamw_args args = {.state = m->state,
                          .main = p->main,
                          .m = p->m,
                          .v = p->v,
                          .beta1 = (float)c->beta1,
                          .beta2 = (float)c->beta2,
                          .eps = (float)c->eps,
                          .clear_grad = !p->overwritten,
                          .weight_decay = p->decays ? (float)c->weight_decay : 0.0f};
    args.grad = p->own_grad;
    args.compute = p->own_w;
    MK_TRY(optim->ctx, mk_adamw(stream, &args));
  }
  return MK_OK;
}
