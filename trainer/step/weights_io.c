/* See weights_io.h. */
#include "trainer/step/weights_io.h"

#include "kernels/base/heap.h"
#include "trainer/checkpoint/weights.h"
#include "trainer/step/agree.h"

/* The parameters of all stages: a file holds the whole model, a pipeline rank its own part. */
static mk_status whole_model(const mt_trainer *t, mt_params *out) {
  mt_mesh_plan one_stage = t->mesh->plan;
  one_stage.pp = 1, one_stage.pp_rank = 0;
  return mt_params_create(t->ctx, &t->cfg, &one_stage, out);
}

/* The own parameter, or NULL where it belongs to another stage. */
static mt_param *own_param(mt_trainer *t, const mt_param *param) {
  return mt_params_find(&t->model->params, param->unit, param->role);
}

static mk_status put(void *user, const mt_param *param, int64_t first, int64_t count, const void *values) {
  mt_param *own = own_param(user, param);
  return own == NULL ? MK_OK : mt_trainer_write_range(user, own, first, count, values);
}

mk_status mt_weights_load(mt_trainer *t, const char *path) {
  mt_params whole = {0};
  MK_TRY(t->ctx, whole_model(t, &whole));
  mt_weights_import_args args = {
      .path = path, .prefix = "", .cfg = &t->cfg, .params = &whole, .dtype = MK_F32, .put = put, .user = t};
  mk_status st = mt_weights_import(t->ctx, &args);
  mt_params_fini(&whole);
  if (st != MK_OK) mk_error_prefix(t->ctx, "weights_in");
  MK_TRY(t->ctx, st);
  return mt_trainer_weights_changed(t);
}

/* Own piece of main elements [first, first + count) of the local parameter into `scratch`, zero elsewhere; where the
 * optimizer is sharded the sum over the group then holds the whole range. */
static mk_status collect(mt_trainer *t, const mt_param *param, int64_t first, int64_t count, const mk_tensor *scratch) {
  int64_t begin = first > param->shard_first ? first : param->shard_first;
  int64_t shard_end = param->shard_first + param->shard_count;
  int64_t end = first + count < shard_end ? first + count : shard_end;
  MK_TRY(t->ctx, mk_fill(t->compute, scratch, 0));
  if (begin < end) {
    mk_tensor own = mk_tensor_slice(&param->main, begin - param->shard_first, end - begin);
    mk_tensor place = mk_tensor_slice(scratch, begin - first, end - begin);
    MK_TRY(t->ctx, mk_copy_d2d(t->compute, &place, &own));
  }
  if (param->replicated) return MK_OK;
  return mt_comm_all_reduce(t->mesh->shard[param->expert], scratch, scratch, MT_SUM, t->compute);
}

/* Room for `count` values that nobody needs between steps: gradients that are overwritten, or the ring that cut ones go
 * through; on another stage any gradients. */
static mk_tensor scratch_for(mt_trainer *t, const mt_param *own, int64_t count) {
  const mt_params *params = &t->model->params;
  if (own == NULL) return mk_tensor_slice(&params->flat_grad[0], 0, count);
  bool ring = params->store[own->expert].grad_ring > 0;
  return mk_tensor_slice(ring ? &params->flat_grad[own->expert] : &own->grad, 0, count);
}

/* Values [first, first + count) on all ranks. They belong to one EP rank as a whole (an expert is never cut), of one
 * stage: the owner sends, EP group and pipeline listen. */
static mk_status spread(mt_trainer *t, const mt_param *param, int64_t first, const mk_tensor *scratch, int64_t count) {
  mk_context *ctx = t->ctx;
  const mt_mesh_plan *plan = &t->mesh->plan;
  mt_pp_shape shape = mt_pp_shape_of(&t->cfg);
  const mt_param *own = own_param(t, param);
  if (own != NULL) MK_TRY(ctx, collect(t, own, first % own->count, count, scratch));
  if (own != NULL && own->expert && plan->ep > 1)
    MK_TRY(ctx, mt_comm_broadcast(t->mesh->ep, scratch, (int)(first / own->count), t->compute));
  for (int r = 0; plan->pp > 1 && r < plan->pp; r++) {
    if (!mt_pp_holds_unit(&shape, t->cfg.layers, r, param->unit)) continue;
    MK_TRY(ctx, mt_comm_broadcast(t->mesh->pp, scratch, r, t->compute));
  }
  return MK_OK;
}

/* Pieces that every stage has room for: each has a layer, and so the gradient of an output projection. */
static mk_status get(void *user, const mt_param *param, int64_t first, int64_t count, float *values) {
  mt_trainer *t = user;
  mk_context *ctx = t->ctx;
  mk_status st = MK_OK;
  double *wide = NULL;
  int64_t most = t->mesh->plan.pp > 1 ? t->cfg.d_model * t->cfg.heads * t->cfg.head_dim : count;
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)count, sizeof *wide, &wide), out);
  for (int64_t done = 0; done < count; done += most) {
    int64_t n = count - done < most ? count - done : most;
    mk_tensor scratch = scratch_for(t, own_param(t, param), n);
    MK_TRY_GOTO(ctx, spread(t, param, first + done, &scratch, n), out);
    MK_TRY_GOTO(ctx, mt_trainer_tensor_read(t, &scratch, wide + done), out);
    MK_TRY_GOTO(ctx, mk_fill(t->compute, &scratch, 0), out); /* the others must stay zero */
  }
  for (int64_t i = 0; i < count; i++)
    values[i] = (float)wide[i];
out:
  mk_heap_free(ctx, wide);
  return st;
}

mk_status mt_weights_save(mt_trainer *t, const char *folder) {
  mt_params whole = {0};
  MK_TRY(t->ctx, whole_model(t, &whole));
  mt_weights_export_args args = {.folder = folder,
                                 .cfg = &t->cfg,
                                 .params = &whole,
                                 .layout = mt_weights_layout_for(&t->cfg),
                                 .writes = t->mesh->world->rank == 0,
                                 .get = get,
                                 .user = t};
  mk_status st = mt_weights_export(t->ctx, &args);
  mt_params_fini(&whole);
  if (st != MK_OK) mk_error_prefix(t->ctx, "weights_out");
  MK_TRY(t->ctx, st);
  /* together, for copies of the model write apart: a rank that went on would end MPI while another may still meet a
   * fault, and mpirun crashes or hangs when it has to abort a job of which a part has ended (Open MPI 4.1.4) */
  return mt_agree(t, MK_OK);
}
