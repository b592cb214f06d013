/* Device values on the host, in FP64: for tests, weight files and moemark-golden. Waits for the device; never used
 * inside a step. */
#include "kernels/base/heap.h"
#include "trainer/data/data.h"
#include "trainer/step/trainer.h"

static double value_at(const void *data, mk_dtype dtype, int64_t i) {
  switch (dtype) {
    case MK_F32:
      return ((const float *)data)[i];
    case MK_BF16:
      return mk_bf16_to_f32(((const mk_bf16 *)data)[i]);
    case MK_F64:
      return ((const double *)data)[i];
    case MK_I32:
      return ((const int32_t *)data)[i];
    case MK_I64:
      return (double)((const int64_t *)data)[i];
    default:
      return ((const uint8_t *)data)[i];
  }
}

static void value_put(void *data, mk_dtype dtype, int64_t i, double value) {
  switch (dtype) {
    case MK_F32:
      ((float *)data)[i] = (float)value;
      break;
    case MK_BF16:
      ((mk_bf16 *)data)[i] = mk_f32_to_bf16((float)value);
      break;
    default:
      ((double *)data)[i] = value;
      break;
  }
}

mk_status mt_trainer_tensor_read(mt_trainer *t, const mk_tensor *tensor, double *out) {
  mk_context *ctx = t->ctx;
  mk_status st = MK_OK;
  void *raw = NULL;
  int64_t count = mk_tensor_count(tensor);
  if (count == 0) return MK_OK;
  MK_TRY_GOTO(ctx, mk_heap_alloc(ctx, mk_tensor_bytes(tensor), &raw), out);
  MK_TRY_GOTO(ctx, mk_stream_sync(t->comm, false), out);
  MK_TRY_GOTO(ctx, mk_copy_d2h(t->compute, raw, tensor), out);
  MK_TRY_GOTO(ctx, mk_stream_sync(t->compute, false), out);
  for (int64_t i = 0; i < count; i++)
    out[i] = value_at(raw, tensor->dtype, i);
out:
  mk_heap_free(ctx, raw);
  return st;
}

static mk_status param_find(mt_trainer *t, const char *name, mt_param **out) {
  *out = mt_params_by_name(&t->model->params, name);
  MK_CHECK(t->ctx, *out != NULL, MK_ERR_ARG, "the model has no parameter '%s'", name);
  return MK_OK;
}

mk_status mt_trainer_read(mt_trainer *t, const char *name, mt_value which, double *out) {
  mt_param *p = NULL;
  MK_TRY(t->ctx, param_find(t, name, &p));
  const mt_sharding_ops *ops = t->sharding->ops;
  bool cut = t->model->params.store[p->expert].ranks > 1 && (which == MT_VALUE_WEIGHT || which == MT_VALUE_GRADIENT);
  const mk_tensor *const by_value[] = {
      [MT_VALUE_WEIGHT] = &p->w, [MT_VALUE_GRADIENT] = &p->grad, [MT_VALUE_MAIN] = &p->main,
      [MT_VALUE_M] = &p->m,      [MT_VALUE_V] = &p->v,
  };
  if (cut) MK_TRY(t->ctx, ops->show(t->sharding, p->unit, which == MT_VALUE_GRADIENT));
  MK_TRY(t->ctx, mt_trainer_tensor_read(t, by_value[which], out));
  return cut ? ops->hide(t->sharding, p->unit, which == MT_VALUE_GRADIENT) : MK_OK;
}

static mk_status upload(mt_trainer *t, const mk_tensor *tensor, const double *values) {
  mk_context *ctx = t->ctx;
  mk_status st = MK_OK;
  void *raw = NULL;
  MK_TRY_GOTO(ctx, mk_heap_alloc(ctx, mk_tensor_bytes(tensor), &raw), out);
  for (int64_t i = 0; i < mk_tensor_count(tensor); i++)
    value_put(raw, tensor->dtype, i, values[i]);
  MK_TRY_GOTO(ctx, mk_copy_h2d(t->compute, tensor, raw), out);
  MK_TRY_GOTO(ctx, mk_stream_sync(t->compute, false), out);
out:
  mk_heap_free(ctx, raw);
  return st;
}

mk_status mt_trainer_write(mt_trainer *t, const char *name, const double *values) {
  mt_param *p = NULL;
  MK_TRY(t->ctx, param_find(t, name, &p));
  if (t->model->params.store[p->expert].ranks > 1) {
    MK_TRY(t->ctx, upload(t, &p->own_w, values + p->shard_first));
  } else {
    MK_TRY(t->ctx, upload(t, &p->w, values));
  }
  return upload(t, &p->main, values + p->shard_first);
}

static const mk_tensor *state_tensor(const mt_param *p, mt_value which) {
  return which == MT_VALUE_MAIN ? &p->main : which == MT_VALUE_M ? &p->m : &p->v;
}

mk_status mt_trainer_state_read(mt_trainer *t, const mt_param *p, mt_value which, int64_t first, int64_t count,
                                void *out) {
  int64_t begin = first - p->first - p->shard_first;
  MK_CHECK(t->ctx, begin >= 0 && begin + count <= p->shard_count, MK_ERR_ARG,
           "%s: elements %lld + %lld are not in this rank's shard", p->name, (long long)first, (long long)count);
  mk_tensor piece = mk_tensor_slice(state_tensor(p, which), begin, count);
  MK_TRY(t->ctx, mk_copy_d2h(t->compute, out, &piece));
  return mk_stream_sync(t->compute, false);
}

/* Values of the master dtype into a tensor of any floating dtype. */
static mk_status upload_master(mt_trainer *t, const mk_tensor *tensor, const void *values) {
  mk_dtype master = mt_master_dtype(&t->cfg);
  mk_context *ctx = t->ctx;
  mk_status st = MK_OK;
  mk_bf16 *narrow = NULL;
  int64_t count = mk_tensor_count(tensor);
  if (tensor->dtype != master) {
    MK_TRY_GOTO(ctx, mk_heap_alloc(ctx, mk_tensor_bytes(tensor), &narrow), out);
    for (int64_t i = 0; i < count; i++)
      value_put(narrow, tensor->dtype, i, value_at(values, master, i));
  }
  MK_TRY_GOTO(ctx, mk_copy_h2d(t->compute, tensor, narrow != NULL ? (const void *)narrow : values), out);
  MK_TRY_GOTO(ctx, mk_stream_sync(t->compute, false), out);
out:
  mk_heap_free(ctx, narrow);
  return st;
}

mk_status mt_trainer_state_write(mt_trainer *t, const mt_param *p, mt_value which, int64_t first, int64_t count,
                                 const void *values) {
  int64_t begin = first - p->first; /* in the local parameter */
  int64_t from = begin > p->shard_first ? begin : p->shard_first;
  int64_t end = p->shard_first + p->shard_count < begin + count ? p->shard_first + p->shard_count : begin + count;
  bool main = which == MT_VALUE_MAIN, whole = t->model->params.store[p->expert].ranks == 1;
  if (main && whole) {
    mk_tensor w = mk_tensor_slice(&p->w, begin, count);
    MK_TRY(t->ctx, upload_master(t, &w, values));
  }
  if (from >= end) return MK_OK;
  const char *own = (const char *)values + (size_t)(from - begin) * mk_dtype_bytes(mt_master_dtype(&t->cfg));
  mk_tensor state = mk_tensor_slice(state_tensor(p, which), from - p->shard_first, end - from);
  MK_TRY(t->ctx, upload_master(t, &state, own));
  if (!main || whole) return MK_OK;
  mk_tensor own_w = mk_tensor_slice(&p->own_w, from - p->shard_first, end - from);
  return upload_master(t, &own_w, own);
}

mk_status mt_trainer_write_range(mt_trainer *t, const mt_param *p, int64_t first, int64_t count, const float *values) {
  mk_context *ctx = t->ctx;
  mk_status st = MK_OK;
  double *wide = NULL;
  if (mt_master_dtype(&t->cfg) == MK_F32) return mt_trainer_state_write(t, p, MT_VALUE_MAIN, first, count, values);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)count, sizeof *wide, &wide), out);
  for (int64_t i = 0; i < count; i++)
    wide[i] = values[i];
  MK_TRY_GOTO(ctx, mt_trainer_state_write(t, p, MT_VALUE_MAIN, first, count, wide), out);
out:
  mk_heap_free(ctx, wide);
  return st;
}

mk_status mt_trainer_weights_changed(mt_trainer *t) {
  MK_TRY(t->ctx, mt_model_pack(t->model, t->compute));
  return mk_stream_sync(t->compute, false);
}

/* One action of an evaluation, from tokens and labels on the host. */
static mk_status evaluate_action(mt_trainer *t, const mt_pp_action *a, const mt_pass *pass, const int32_t *tokens,
                                 const int32_t *labels) {
  if (a->op == MT_PP_COMPUTE) {
    const mt_pp_stage *stage = &t->model->chunk[a->chunk].stage;
    mt_set *set = &t->model->set[a->set];
    if (stage->embeds) MK_TRY(t->ctx, mk_copy_h2d(t->compute, &set->ids, tokens));
    if (stage->predicts) MK_TRY(t->ctx, mk_copy_h2d(t->compute, &set->labels, labels));
  }
  return mt_pp_run(t->pp, t->model, a, pass);
}

mk_status mt_trainer_evaluate(mt_trainer *t, int64_t microbatch, const int32_t *tokens, const int32_t *labels,
                              double *ce_sum, double *label_count, void *logits) {
  mk_context *ctx = t->ctx;
  mt_model *m = t->model;
  const mt_pp_list *list = t->pp->evaluation_list;
  double sums[MK_SUM_COUNT];
  mt_pass pass = {.logits_out = logits,
                  .microbatches = 1,
                  .first_token = mt_data_first_token(&t->cfg, t->mesh->plan.dp_rank, microbatch)};
  MK_TRY(ctx, mk_fill(t->compute, &m->eval_sums, 0));
  mt_trainer_hook(t, &pass);
  for (int64_t i = 0; i < list->count; i++)
    MK_TRY(ctx, evaluate_action(t, &list->action[i], &pass, tokens, labels));
  MK_TRY(ctx, mk_copy_d2h(t->compute, sums, &m->eval_sums));
  MK_TRY(ctx, mk_stream_sync(t->compute, false));
  *ce_sum = sums[MK_SUM_CE] * (double)mt_data_labels_per_step(&t->cfg); /* the state's divisor */
  *label_count = sums[MK_SUM_LABELS];
  return MK_OK;
}
