/* See weights_io.h. */
#include "trainer/step/weights_io.h"

#include "kernels/base/heap.h"
#include "trainer/checkpoint/weights.h"

static mk_status put(void *user, const mt_param *param, int64_t first, int64_t count, const void *values) {
  return mt_trainer_write_range(user, param, first, count, values);
}

mk_status mt_weights_load(mt_trainer *t, const char *path) {
  mt_weights_import_args args = {
      .path = path, .prefix = "", .cfg = &t->cfg, .params = &t->model->params, .dtype = MK_F32, .put = put, .user = t};
  mk_status st = mt_weights_import(t->ctx, &args);
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

/* The range belongs to one EP rank as a whole (an expert is never cut): its owner sends, the EP group listens. */
static mk_status get(void *user, const mt_param *param, int64_t first, int64_t count, float *values) {
  mt_trainer *t = user;
  mk_context *ctx = t->ctx;
  mk_status st = MK_OK;
  double *wide = NULL;
  /* between steps nobody reads gradients that are overwritten, nor the ring that cut ones go through */
  bool ring = t->model->params.store[param->expert].grad_ring > 0;
  mk_tensor scratch = mk_tensor_slice(ring ? &t->model->params.flat_grad[param->expert] : &param->grad, 0, count);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)count, sizeof *wide, &wide), out);
  MK_TRY_GOTO(ctx, collect(t, param, first % param->count, count, &scratch), out);
  if (param->expert && t->mesh->plan.ep > 1) {
    int owner = (int)(first / param->count);
    MK_TRY_GOTO(ctx, mt_comm_broadcast(t->mesh->ep, &scratch, owner, t->compute), out);
  }
  MK_TRY_GOTO(ctx, mt_trainer_tensor_read(t, &scratch, wide), out);
  MK_TRY_GOTO(ctx, mk_fill(t->compute, &scratch, 0), out); /* the others must stay zero */
  for (int64_t i = 0; i < count; i++)
    values[i] = (float)wide[i];
out:
  mk_heap_free(ctx, wide);
  return st;
}

mk_status mt_weights_save(mt_trainer *t, const char *folder) {
  mt_weights_export_args args = {.folder = folder,
                                 .cfg = &t->cfg,
                                 .params = &t->model->params,
                                 .layout = mt_weights_layout_for(&t->cfg),
                                 .writes = t->mesh->world->rank == 0,
                                 .get = get,
                                 .user = t};
  mk_status st = mt_weights_export(t->ctx, &args);
  if (st != MK_OK) mk_error_prefix(t->ctx, "weights_out");
  return st;
}
