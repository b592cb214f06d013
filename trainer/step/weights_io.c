/* See weights_io.h. */
#include "trainer/step/weights_io.h"

#include "kernels/base/heap.h"
#include "trainer/checkpoint/weights.h"

static mk_status put(void *user, const mt_param *param, int64_t first, int64_t count, const void *values) {
  return mt_trainer_write_range(user, param, first, count, values);
}

mk_status mt_weights_load(mt_trainer *t, const char *path) {
  mt_weights_import_args args = {.path = path, .prefix = "", .cfg = &t->cfg, .params = &t->model->params,
                                 .dtype = MK_F32, .put = put, .user = t};
  MK_TRY(t->ctx, mt_weights_import(t->ctx, &args));
  return mt_trainer_weights_changed(t);
}

/* The range belongs to one EP rank as a whole (an expert is never cut): its owner reads, the EP group listens. */
static mk_status get(void *user, const mt_param *param, int64_t first, int64_t count, float *values) {
  mt_trainer *t = user;
  mk_context *ctx = t->ctx;
  mk_status st = MK_OK;
  double *wide = NULL;
  int owner = param->expert ? (int)(first / param->count) : t->mesh->plan.ep_rank;
  mk_tensor range = mk_tensor_slice(&param->w, first % param->count, count);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)count, sizeof *wide, &wide), out);
  if (param->expert && t->mesh->plan.ep > 1) {
    mk_tensor scratch = mk_tensor_slice(&param->grad, 0, count); /* between steps nobody reads an expert's gradient */
    scratch.dtype = MK_F32;
    if (owner == t->mesh->plan.ep_rank) MK_TRY_GOTO(ctx, mk_cast(t->compute, &(mk_cast_args){range, scratch}), out);
    MK_TRY_GOTO(ctx, mt_comm_broadcast(t->mesh->ep, &scratch, owner, t->compute), out);
    MK_TRY_GOTO(ctx, mt_trainer_tensor_read(t, &scratch, wide), out);
  } else {
    MK_TRY_GOTO(ctx, mt_trainer_tensor_read(t, &range, wide), out);
  }
  for (int64_t i = 0; i < count; i++) values[i] = (float)wide[i];
out:
  mk_heap_free(ctx, wide);
  return st;
}

mk_status mt_weights_save(mt_trainer *t, const char *folder) {
  mt_weights_export_args args = {.folder = folder, .cfg = &t->cfg, .params = &t->model->params,
                                 .layout = mt_weights_layout_for(&t->cfg), .writes = t->mesh->world->rank == 0,
                                 .get = get, .user = t};
  return mt_weights_export(t->ctx, &args);
}
