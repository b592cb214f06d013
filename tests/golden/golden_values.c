/* Trainers with golden weights, and their values under the library's tensor names. */
#include <math.h>
#include <stdio.h>

#include "kernels/base/heap.h"
#include "kernels/base/out.h"
#include "tests/golden/golden.h"

static mk_status put(void *user, const mt_param *param, int64_t first, int64_t count, const void *values) {
  mt_trainer *t = user;
  return mt_trainer_write_range(t, param, first, count, values);
}

mk_status golden_trainer_open(const golden_folder *g, double clip, golden_trainer *out) {
  mk_context *ctx = g->ctx;
  mk_status st = MK_OK;
  golden_trainer gt = {0};
  mt_config cfg = g->cfg;
  cfg.clip = clip;
  MK_TRY_GOTO(ctx, mt_comm_self_create(ctx, &gt.world), out);
  MK_TRY_GOTO(ctx, mt_trainer_create(ctx, &cfg, gt.world, &gt.t), out);
  mt_weights_import_args args = {.path = mt_st_reader_path(g->f32),
                                 .prefix = "weight/",
                                 .cfg = &gt.t->cfg,
                                 .params = &gt.t->model->params,
                                 .dtype = MK_F32,
                                 .put = put,
                                 .user = gt.t};
  MK_TRY_GOTO(ctx, mt_weights_import(ctx, &args), out);
  MK_TRY_GOTO(ctx, mt_trainer_weights_changed(gt.t), out);
  *out = gt;
  return MK_OK;
out:
  golden_trainer_close(&gt);
  return st;
}

void golden_trainer_close(golden_trainer *gt) {
  mt_trainer_destroy(gt->t);
  mt_comm_destroy(gt->world);
  *gt = (golden_trainer){0};
}

static mk_status walk_param(const golden_folder *g, const mt_param *param, const double *values, double *part_values,
                            mk_status (*visit)(void *user, const golden_part *part), void *user) {
  mt_weights_part part;
  int64_t elements = mt_weights_slab_elements(param), cols = param->dim[param->n_dims - 1];
  for (int64_t slab = 0; slab < mt_weights_slabs(param); slab++) {
    for (int i = 0; mt_weights_part_get(g->layout, &g->cfg, param, slab, i, &part); i++) {
      mt_weights_slab_to_part(&part, cols, MK_F64, values + slab * elements, part_values);
      MK_TRY(g->ctx, visit(user, &(golden_part){.part = &part, .ours = part_values}));
    }
  }
  return MK_OK;
}

mk_status golden_walk(const golden_folder *g, mt_trainer *t, mt_value which,
                      mk_status (*visit)(void *user, const golden_part *part), void *user) {
  mk_context *ctx = g->ctx;
  mk_status st = MK_OK;
  double *values = NULL, *part_values = NULL;
  for (int p = 0; p < t->model->params.count; p++) {
    const mt_param *param = &t->model->params.item[p];
    MK_TRY_GOTO(ctx, mk_heap_resize(ctx, &values, (size_t)param->count * sizeof *values), out);
    MK_TRY_GOTO(ctx, mk_heap_resize(ctx, &part_values, (size_t)param->count * sizeof *values), out);
    MK_TRY_GOTO(ctx, mt_trainer_read(t, param->name, which, values), out);
    MK_TRY_GOTO(ctx, walk_param(g, param, values, part_values, visit, user), out);
  }
out:
  mk_heap_free(ctx, values);
  mk_heap_free(ctx, part_values);
  return st;
}

mk_status golden_part_read(const golden_folder *g, const mt_st_reader *file, const char *prefix,
                           const mt_weights_part *part, double *out) {
  char name[2 * MT_WEIGHTS_NAME_BYTES];
  snprintf(name, sizeof name, "%s%s", prefix, part->name);
  const mt_st_tensor *t = mt_st_reader_find(file, name);
  MK_CHECK(g->ctx, t != NULL, MK_ERR_FORMAT, "%s: tensor '%s' is missing", mt_st_reader_path(file), name);
  return mt_st_reader_get(file, t, part->first, part->count, MK_F64, out);
}

golden_losses golden_losses_of(const golden_folder *g, const double sum[MK_SUM_COUNT]) {
  const mt_config *c = &g->cfg;
  golden_losses l = {.ce = sum[MK_SUM_CE], .lb_unscaled = sum[MK_SUM_LB], .z_unscaled = sum[MK_SUM_RZ]};
  l.lb = c->lb_weight * l.lb_unscaled;
  l.total = l.ce + sum[MK_SUM_Z] + l.lb + c->router_z_weight * l.z_unscaled;
  if (g->hf) l.z_unscaled /= (double)mt_config_moe_layers(c); /* a mean over layers there, a sum here */
  return l;
}

void golden_check(golden_report *r, const char *what, const char *where, double error, double limit) {
  bool ok = error <= limit; /* false for NaN */
  r->checks += 1;
  r->failures += !ok;
  mk_out("%-26s %-22s %-52s error %9.2e limit %7.0e %s\n", r->folder, what, where, error, limit, ok ? "ok" : "FAIL");
}
