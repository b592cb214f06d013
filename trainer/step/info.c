/* See info.h. */
#include "trainer/step/info.h"

#include <stdio.h>

static int64_t attention_params(const mt_config *c) {
  int64_t width = (2 * c->heads + 2 * c->kv_heads) * c->head_dim;
  return width * c->d_model;
}

static int64_t norm_params(const mt_config *c) {
  int64_t per_layer = (c->norm == MT_NORM_PERI ? 4 : 2) * c->d_model;
  int64_t shared = c->norm == MT_NORM_HYBRID && c->shared_hidden > 0 ? mt_config_moe_layers(c) * c->d_model : 0;
  if (c->qk_norm == MK_QK_NORM_HEAD) per_layer += 2 * c->head_dim;
  if (c->qk_norm == MK_QK_NORM_FULL) per_layer += (c->heads + c->kv_heads) * c->head_dim;
  return shared + c->layers * per_layer + (c->embed_norm ? 2 : 1) * c->d_model;
}

static int64_t params_with(const mt_config *c, int64_t experts) {
  int64_t moe = mt_config_moe_layers(c);
  int64_t count = 2 * c->vocab * c->d_model + norm_params(c) + c->layers * attention_params(c);
  count += c->dense_layers * 3 * c->d_model * c->dense_hidden;
  return count + moe * (c->experts * c->d_model + 3 * c->d_model * (experts * c->expert_hidden + c->shared_hidden));
}

int64_t mt_params_total(const mt_config *c) { return params_with(c, c->experts); }

int64_t mt_params_active(const mt_config *c) { return params_with(c, c->top_k); }

double mt_flop_token(const mt_config *c) {
  double d = (double)c->d_model, moe = (double)mt_config_moe_layers(c);
  double attention =
      6.0 * (double)attention_params(c) + 12.0 * (double)(c->heads * c->head_dim) * ((double)c->seq_len + 1.0) / 2.0;
  double mlp = 6.0 * d * (double)c->experts + 18.0 * d * (double)(c->expert_hidden * c->top_k + c->shared_hidden);
  return (double)c->layers * attention + moe * mlp + (double)c->dense_layers * 18.0 * d * (double)c->dense_hidden +
         6.0 * d * (double)c->vocab;
}

void mt_run_info_fill(mt_trainer *t, mt_run_info *info) {
  const mt_config *c = &t->cfg;
  info->ranks = t->mesh->plan.world;
  mk_device_info_get(t->dev, &info->device);
  info->params_total = mt_params_total(c);
  info->params_active = mt_params_active(c);
  info->flop_token = mt_flop_token(c);
}

/* Peak resident set of this process in bytes; 0 where /proc does not tell. */
static int64_t peak_resident_bytes(void) {
  char line[256];
  long long kib = 0;
  FILE *file = fopen("/proc/self/status", "re");
  if (file == NULL) return 0;
  while (fgets(line, sizeof line, file) != NULL) {
    if (sscanf(line, "VmHWM: %lld kB", &kib) == 1) break;
  }
  fclose(file);
  return (int64_t)kib * 1024;
}

void mt_run_memory_fill(mt_trainer *t, mt_job_memory *memory) {
  mt_rank_memory *own = &memory->rank[t->mesh->plan.rank];
  for (int i = 0; i < MK_MEM_COUNT; i++) {
    own->planned_bytes[i] = (int64_t)t->memory.arena[i].peak_bytes;
    own->peak_bytes[i] = (int64_t)t->dev->peak_bytes[i];
  }
  own->peak_total_bytes = (int64_t)t->dev->peak_total_bytes;
  own->reserved_bytes = peak_resident_bytes();
}

mk_status mt_run_memory_exchange(mt_trainer *t, mt_job_memory *memory) {
  _Static_assert(sizeof(mt_rank_memory) == MT_MEMORY_WORDS * sizeof(int64_t), "ranks send it as words");
  mt_run_memory_fill(t, memory);
  return mt_optim_memory_exchange(&t->optim, t->compute, (int64_t *)memory->rank);
}

mk_status mt_run_rank_spread(mt_trainer *t, double *out) {
  mk_step_log log;
  mk_tensor two = mk_tensor_slice(&t->model->eval_sums, 0, 2);
  MK_TRY(t->ctx, mt_trainer_log_read(t, &log));
  double loss = log.sum[MK_SUM_CE] + log.sum[MK_SUM_Z] + t->cfg.lb_weight * log.sum[MK_SUM_LB] +
                t->cfg.router_z_weight * log.sum[MK_SUM_RZ];
  double pair[2] = {loss, -loss}; /* the largest of -loss is minus the smallest loss */
  MK_TRY(t->ctx, mk_copy_h2d(t->compute, &two, pair));
  MK_TRY(t->ctx, mt_comm_all_reduce(mt_mesh_all(t->mesh), &two, &two, MT_MAX, t->compute));
  MK_TRY(t->ctx, mk_copy_d2h(t->compute, pair, &two));
  MK_TRY(t->ctx, mk_stream_sync(t->compute, false));
  *out = pair[0] + pair[1];
  return MK_OK;
}

void mt_run_profile_write(mt_trainer *t, mt_recorder *rec, mt_run_end *end) {
  double bound_s = 0;
  for (int op = 0; op < MK_OP_COUNT; op++) {
    const mk_op_stats *stats = &t->dev->stats[op];
    if (stats->calls == 0) continue;
    bound_s += stats->bound_s;
    if (mt_recorder_op(rec, mk_op_name((mk_op_id)op), stats) != MK_OK) return;
  }
  end->bound_s = t->step > t->resumed ? bound_s / (double)(t->step - t->resumed) : 0;
}
