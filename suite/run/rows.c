/* Result tables from a run's launches. Every value is looked up by the column's name, so the order of columns lives in
 * record/schema.c alone. */
#include <math.h>
#include <string.h>

#include "suite/record/schema.h"
#include "suite/run/run.h"

static const double GIB = 1073741824.0;

static bool has_run(const ms_launch *launch) { return launch->records != NULL; }

mk_status ms_run_launches_table(mk_context *ctx, const ms_run *run, ms_csv **out) {
  mk_status st = MK_OK;
  ms_csv *t = NULL;
  MK_TRY_GOTO(ctx, ms_schema_table(ctx, MS_CSV_LAUNCHES, NULL, 0, &t), out);
  for (int i = 0; i < run->n_launches; i++) {
    const ms_launch *l = &run->launches[i];
    MK_TRY_GOTO(ctx, ms_schema_row_add(ctx, MS_CSV_LAUNCHES, t), out);
    MK_TRY_GOTO(ctx, ms_csv_set_integer(ctx, t, "order", l->order), out);
    MK_TRY_GOTO(ctx, ms_csv_set(ctx, t, "case", run->plan->cases[l->case_index].name), out);
    MK_TRY_GOTO(ctx, ms_csv_set_integer(ctx, t, "launch", l->number), out);
    MK_TRY_GOTO(ctx, ms_csv_set(ctx, t, "status", l->status), out);
    MK_TRY_GOTO(ctx, ms_csv_set(ctx, t, "folder", l->folder), out);
    MK_TRY_GOTO(ctx, ms_csv_set(ctx, t, "message", l->message), out);
    if (!has_run(l)) continue;
    MK_TRY_GOTO(ctx, ms_csv_set_integer(ctx, t, "code", l->code), out);
    MK_TRY_GOTO(ctx, ms_csv_set_number(ctx, t, "wall_s", round(1e3 * l->wall_s) / 1e3), out);
    MK_TRY_GOTO(ctx, ms_csv_set_number(ctx, t, "tok_s", l->value[ms_metric_index("tok_s")]), out);
  }
  *out = t;
  t = NULL;
out:
  ms_csv_destroy(ctx, t);
  return st;
}

static bool pipelined(const mt_config *c) { return c->pp > 1; }
static bool dist_opt(const mt_config *c) { return c->shard == MT_SHARD_DIST_OPT; }
static bool fsdp(const mt_config *c) { return c->shard == MT_SHARD_FSDP; }
static bool may_drop(const mt_config *c) { return c->capacity_factor > 0; }
static bool selective(const mt_config *c) { return c->recompute == MT_RECOMPUTE_SELECTIVE; }
static bool mxfp8(const mt_config *c) { return c->precision == MT_MXFP8; }

/* Keys that are columns, and when they mean something; elsewhere their cells are empty. */
static const struct {
  const char *key;
  bool (*means)(const mt_config *);
} KEY[] = {{"model", NULL},
           {"ranks", NULL},
           {"shard", NULL},
           {"ep_transport", NULL},
           {"pp", NULL},
           {"recompute", NULL},
           {"precision", NULL},
           {"routing", NULL},
           {"capacity_factor", NULL},
           {"lb_def", NULL},
           {"seq_len", NULL},
           {"rank_tokens", NULL},
           {"global_tokens", NULL},
           {"pp_schedule", pipelined},
           {"pp_chunks", pipelined},
           {"grad_reduce", dist_opt},
           {"fsdp_shard_ranks", fsdp},
           {"fsdp_reshard", fsdp},
           {"fsdp_reduce", fsdp},
           {"recompute_rule", selective},
           {"mxfp8_attention", mxfp8},
           {"mxfp8_mlp", mxfp8},
           {"mxfp8_ep", mxfp8},
           {"mxfp8_scale", mxfp8},
           {"capacity_scope", may_drop}};

/* What was asked for: texts of configuration keys under the names of their columns. */
static mk_status config_set(mk_context *ctx, const ms_case *c, ms_csv *t) {
  char text[MT_TEXT_BYTES];
  for (size_t i = 0; i < sizeof KEY / sizeof KEY[0]; i++) {
    if (KEY[i].means != NULL && !KEY[i].means(&c->config)) continue;
    mt_config_get(&c->config, mt_config_key_find(KEY[i].key), text, sizeof text);
    MK_TRY(ctx, ms_csv_set(ctx, t, KEY[i].key, text));
  }
  MK_TRY(ctx, ms_csv_set_integer(ctx, t, "ep", mt_config_ep(&c->config)));
  return ms_csv_set(ctx, t, "device_kind", c->config.device);
}

static mk_status identity_set(mk_context *ctx, const ms_run *run, const ms_launch *l, ms_csv *t) {
  const ms_study *study = run->plan->study;
  const ms_case *c = &run->plan->cases[l->case_index];
  if (c->peer[0] == '\0') {
    MK_TRY(ctx, config_set(ctx, c, t));
    MK_TRY(ctx, ms_csv_set_integer(ctx, t, "seed", ms_launch_seed(run, l)));
  } else {
    MK_TRY(ctx, ms_csv_set(ctx, t, "device_kind", "cpu"));
    MK_TRY(ctx, ms_csv_set_integer(ctx, t, "ranks", 1));
  }
  MK_TRY(ctx, ms_csv_set(ctx, t, "run_id", run->id));
  MK_TRY(ctx, ms_csv_set(ctx, t, "study", study->id));
  MK_TRY(ctx, ms_csv_set(ctx, t, "scale", run->plan->scale->name));
  MK_TRY(ctx, ms_csv_set(ctx, t, "case", c->name));
  MK_TRY(ctx, ms_csv_set(ctx, t, "kind", ms_case_kind(c)));
  MK_TRY(ctx, ms_csv_set(ctx, t, "system", run->system));
  MK_TRY(ctx, ms_csv_set_integer(ctx, t, "devices", c->peer[0] == '\0' ? c->config.ranks : 1));
  MK_TRY(ctx, ms_csv_set_integer(ctx, t, "nodes", 1));
  for (int i = 0; i < study->n_factors; i++)
    MK_TRY(ctx, ms_csv_set(ctx, t, study->factors[i].name, c->level[i]));
  MK_TRY(ctx, ms_csv_set_integer(ctx, t, "launch", l->number));
  MK_TRY(ctx, ms_csv_set_integer(ctx, t, "order", l->order));
  MK_TRY(ctx, ms_csv_set(ctx, t, "status", l->status));
  MK_TRY(ctx, ms_csv_set(ctx, t, "start_utc", l->start_utc));
  MK_TRY(ctx, ms_csv_set(ctx, t, "nodelist", run->machine.host));
  return ms_csv_set(ctx, t, "comparability", l->comparability);
}

static mk_status memory_set(mk_context *ctx, const ms_records *r, ms_csv *t) {
  static const char *const COLUMN[MS_MEM_PARTS] = {"mem_params_gib", "mem_grads_gib", "mem_optim_gib",
                                                   "mem_act_gib",    "mem_comm_gib",  "mem_work_gib"};
  for (int i = 0; i < MS_MEM_PARTS; i++)
    MK_TRY(ctx, ms_csv_set_number(ctx, t, COLUMN[i], r->peak_bytes[i] / GIB));
  return MK_OK;
}

/* Columns whose values are metrics, and the metric's name. */
static const char *const PAIR[][2] = {{"tok_s", "tok_s"},
                                      {"tok_s_gpu", "tok_s_gpu"},
                                      {"step_ms_p50", "step_ms_p50"},
                                      {"step_ms_p95", "step_ms_p95"},
                                      {"step_ms_p99", "step_ms_p99"},
                                      {"flop_token", "flop_token"},
                                      {"mfu_olmo3_pct", "mfu_pct"},
                                      {"bound_pct", "bound_pct"},
                                      {"peak_mem_gib", "peak_mem"},
                                      {"mem_reserved_gib", "mem_reserved"},
                                      {"wire_bytes_step", "wire_bytes_step"},
                                      {"host_waits_step", "host_waits_step"},
                                      {"loss_last", "loss_last"},
                                      {"drop_rate", "drop_rate"},
                                      {"imbalance", "imbalance"},
                                      {"straggler", "straggler"},
                                      {"not_steady", "not_steady"}};
enum { N_PAIRS = sizeof PAIR / sizeof PAIR[0] };

const char *ms_run_metric_column(const char *metric) {
  for (int i = 0; i < N_PAIRS; i++) {
    if (strcmp(PAIR[i][1], metric) == 0) return PAIR[i][0];
  }
  return NULL;
}

static mk_status metrics_set(mk_context *ctx, const ms_launch *l, ms_csv *t) {
  for (int i = 0; i < N_PAIRS; i++) {
    MK_TRY(ctx, ms_csv_set_number(ctx, t, PAIR[i][0], l->value[ms_metric_index(PAIR[i][1])]));
  }
  MK_TRY(ctx, ms_csv_set_integer(ctx, t, "warmup_steps", l->warmup_steps));
  MK_TRY(ctx, ms_csv_set_integer(ctx, t, "steps", l->steps));
  MK_TRY(ctx, ms_csv_set_number(ctx, t, "time_s", l->time_s));
  MK_TRY(ctx, ms_csv_set_number(ctx, t, "tokens", l->tokens));
  MK_TRY(ctx, ms_csv_set_number(ctx, t, "mfu_peak_flops", l->peak_flops));
  return ms_csv_set(ctx, t, "kernel", l->records->kernel);
}

mk_status ms_run_runs_table(mk_context *ctx, const ms_run *run, ms_csv **out) {
  mk_status st = MK_OK;
  const char *factors[MS_MAX_FACTORS];
  ms_csv *t = NULL;
  const ms_study *study = run->plan->study;
  for (int i = 0; i < study->n_factors; i++)
    factors[i] = study->factors[i].name;
  MK_TRY_GOTO(ctx, ms_schema_table(ctx, MS_CSV_RUNS, factors, study->n_factors, &t), out);
  for (int i = 0; i < run->n_launches; i++) {
    const ms_launch *l = &run->launches[i];
    if (!has_run(l)) continue;
    MK_TRY_GOTO(ctx, ms_schema_row_add(ctx, MS_CSV_RUNS, t), out);
    MK_TRY_GOTO(ctx, identity_set(ctx, run, l, t), out);
    MK_TRY_GOTO(ctx, metrics_set(ctx, l, t), out);
    MK_TRY_GOTO(ctx, memory_set(ctx, l->records, t), out);
  }
  *out = t;
  t = NULL;
out:
  ms_csv_destroy(ctx, t);
  return st;
}

static mk_status key_set(mk_context *ctx, const ms_run *run, const ms_launch *l, ms_csv *t) {
  MK_TRY(ctx, ms_csv_set(ctx, t, "run_id", run->id));
  MK_TRY(ctx, ms_csv_set(ctx, t, "case", run->plan->cases[l->case_index].name));
  return ms_csv_set_integer(ctx, t, "launch", l->number);
}

static mk_status step_set(mk_context *ctx, const ms_step *s, ms_csv *t) {
  const struct {
    const char *column;
    double value;
  } cells[] = {{"rank_max_ms", 1e3 * s->time_s},
               {"rank_median_ms", 1e3 * s->time_median_s},
               {"tokens", s->tokens},
               {"loss", s->loss},
               {"ce", s->ce},
               {"z", s->z},
               {"lb_mean", s->lb_mean},
               {"rz", s->rz},
               {"grad_norm", s->grad_norm},
               {"lr", s->lr},
               {"skipped", s->skipped},
               {"drop_rate", s->drop_rate},
               {"imbalance", s->imbalance}};
  MK_TRY(ctx, ms_csv_set_integer(ctx, t, "step", s->step));
  for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
    MK_TRY(ctx, ms_csv_set_number(ctx, t, cells[i].column, cells[i].value));
  }
  return MK_OK;
}

mk_status ms_run_steps_table(mk_context *ctx, const ms_run *run, ms_csv **out) {
  mk_status st = MK_OK;
  ms_csv *t = NULL;
  MK_TRY_GOTO(ctx, ms_schema_table(ctx, MS_CSV_STEPS, NULL, 0, &t), out);
  for (int i = 0; i < run->n_launches; i++) {
    const ms_launch *l = &run->launches[i];
    for (int64_t s = 0; has_run(l) && s < l->records->n_steps; s++) {
      MK_TRY_GOTO(ctx, ms_schema_row_add(ctx, MS_CSV_STEPS, t), out);
      MK_TRY_GOTO(ctx, key_set(ctx, run, l, t), out);
      MK_TRY_GOTO(ctx, step_set(ctx, &l->records->steps[s], t), out);
    }
  }
  *out = t;
  t = NULL;
out:
  ms_csv_destroy(ctx, t);
  return st;
}

mk_status ms_run_evals_table(mk_context *ctx, const ms_run *run, ms_csv **out) {
  mk_status st = MK_OK;
  ms_csv *t = NULL;
  MK_TRY_GOTO(ctx, ms_schema_table(ctx, MS_CSV_EVALS, NULL, 0, &t), out);
  for (int i = 0; i < run->n_launches; i++) {
    const ms_launch *l = &run->launches[i];
    for (int64_t e = 0; has_run(l) && e < l->records->n_evals; e++) {
      const ms_eval *eval = &l->records->evals[e];
      MK_TRY_GOTO(ctx, ms_schema_row_add(ctx, MS_CSV_EVALS, t), out);
      MK_TRY_GOTO(ctx, key_set(ctx, run, l, t), out);
      MK_TRY_GOTO(ctx, ms_csv_set_integer(ctx, t, "step", eval->step), out);
      MK_TRY_GOTO(ctx, ms_csv_set_number(ctx, t, "time_s", eval->time_s), out);
      MK_TRY_GOTO(ctx, ms_csv_set_number(ctx, t, "tokens", eval->tokens), out);
      MK_TRY_GOTO(ctx, ms_csv_set_number(ctx, t, "loss", eval->loss), out);
    }
  }
  *out = t;
  t = NULL;
out:
  ms_csv_destroy(ctx, t);
  return st;
}
