/* moemark plan FILE...: what a run would do; starts nothing, writes nothing. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/log.h"
#include "suite/cli/verb.h"
#include "suite/provenance/peaks.h"

typedef struct input {
  ms_common common;
  ms_arguments files;
} input;

static error_t parse(int key, char *arg, struct argp_state *state) {
  input *in = state->input;
  (void)arg;
  if (key != ARGP_KEY_INIT) return ARGP_ERR_UNKNOWN;
  state->child_inputs[0] = &in->common;
  return 0;
}

static const struct argp_child CHILDREN[] = {{&ms_common_argp, 0, NULL, 0}, {0}};

static const struct argp ARGP = {
    .parser = parse,
    .children = CHILDREN,
    .args_doc = "FILE...",
    .doc =
        "Prints the cases of a study at one scale: planned memory of a rank by category, FLOP per token, predicted "
        "token/s, expected status.\v"
        "The prediction is a bound: every op is charged max(FLOP / measured GEMM peak, bytes / measured bandwidth). "
        "It is empty until `moemark sysinfo --peaks` has measured this machine."};

static const char *const COLUMNS[] = {
    "study",         "scale",        "case",           "hash",          "ranks",         "params_total",
    "params_active", "flop_token",   "mem_params_gib", "mem_grads_gib", "mem_optim_gib", "mem_act_gib",
    "mem_comm_gib",  "mem_work_gib", "planned_gib",    "budget_gib",    "fits",          "predicted_tok_s",
    "optimizer_pct", "launches",     "expected"};
enum { N_COLUMNS = sizeof COLUMNS / sizeof COLUMNS[0] };

static const char *fits(const ms_case *c) {
  if (c->planned_total_bytes == 0) return "";
  double budget_bytes = c->config.memory_budget_mib * 0x1p20;
  return budget_bytes == 0 || (double)c->planned_total_bytes <= budget_bytes ? "yes" : "no";
}

/* What the run must end with, and what the plan says against it. */
static void expected(const ms_case *c, char *text, size_t bytes) {
  bool over = strcmp(fits(c), "no") == 0;
  if (c->unsupported[0] != '\0') {
    snprintf(text, bytes, "unsupported: %s", c->unsupported);
  } else if (c->expect != NULL) {
    bool doubtful = strcmp(c->expect->status, "oom") == 0 && !over;
    snprintf(text, bytes, "%s (%s)%s", c->expect->status, c->expect->reason, doubtful ? ", but the plan fits" : "");
  } else {
    snprintf(text, bytes, "%s", over ? "ok, but the plan exceeds the budget: out of memory" : "ok");
  }
}

static mk_status add_memory(mk_context *ctx, ms_table *t, const ms_case *c) {
  bool planned = c->planned_total_bytes > 0;
  for (int i = 0; i < MK_MEM_COUNT; i++) {
    MK_TRY(ctx, ms_table_number(ctx, t, "%.4f", planned ? (double)c->planned_bytes[i] / 0x1p30 : NAN));
  }
  MK_TRY(ctx, ms_table_number(ctx, t, "%.4f", planned ? (double)c->planned_total_bytes / 0x1p30 : NAN));
  double budget = c->config.memory_budget_mib;
  MK_TRY(ctx, ms_table_number(ctx, t, "%.4f", budget > 0 ? budget / 1024 : NAN));
  return ms_table_cell(ctx, t, "%s", fits(c));
}

static mk_status add_case(mk_context *ctx, ms_table *t, const ms_plan *plan, const ms_case *c) {
  char end[2 * MS_LINE_BYTES];
  bool peer = c->peer[0] != '\0';
  expected(c, end, sizeof end);
  MK_TRY(ctx, ms_table_cell(ctx, t, "%s", plan->study->id));
  MK_TRY(ctx, ms_table_cell(ctx, t, "%s", plan->scale->name));
  MK_TRY(ctx, ms_table_cell(ctx, t, "%s", c->name));
  MK_TRY(ctx, ms_table_cell(ctx, t, "%s", c->hash));
  MK_TRY(ctx, ms_table_number(ctx, t, "%.0f", peer ? NAN : (double)c->config.ranks));
  MK_TRY(ctx, ms_table_cell(ctx, t, "%lld", (long long)c->params_total));
  MK_TRY(ctx, ms_table_cell(ctx, t, "%lld", (long long)c->params_active));
  MK_TRY(ctx, ms_table_cell(ctx, t, "%.0f", c->flop_token));
  MK_TRY(ctx, add_memory(ctx, t, c));
  MK_TRY(ctx, ms_table_number(ctx, t, "%.0f", c->predicted_tok_s));
  double share = peer ? NAN : ms_predict_optimizer_share(&c->config, &plan->rates);
  MK_TRY(ctx, ms_table_number(ctx, t, "%.2f", 100 * share));
  MK_TRY(ctx, ms_table_cell(ctx, t, "%lld", (long long)plan->scale->measure.launches));
  return ms_table_cell(ctx, t, "%s", end);
}

static mk_status add_cases(mk_context *ctx, ms_table *t, const ms_plan *plan, const char *where) {
  ms_condition condition = {0};
  if (where != NULL) MK_TRY(ctx, ms_condition_make(ctx, where, &condition));
  for (int i = 0; i < plan->n_cases; i++) {
    bool wanted = true;
    if (where != NULL) MK_TRY(ctx, ms_condition_eval(ctx, plan->study, &condition, &plan->cases[i], &wanted));
    if (wanted) MK_TRY(ctx, add_case(ctx, t, plan, &plan->cases[i]));
  }
  return MK_OK;
}

static mk_status plan_file(mk_context *ctx, const input *in, const char *path, const ms_machine_rates *rates,
                           ms_diagnostics *diag, ms_table *t) {
  mk_status st = MK_OK;
  ms_study *study = NULL;
  ms_plan *plan = NULL;
  const char *scale = in->common.scale != NULL ? in->common.scale : "smoke";
  MK_TRY_GOTO(ctx, ms_study_read(ctx, path, diag, &study), out);
  MK_TRY_GOTO(ctx, ms_plan_create(ctx, study, scale, rates, &in->common.overrides, diag, &plan), out);
  MK_TRY_GOTO(ctx, add_cases(ctx, t, plan, in->common.where), out);
out:
  ms_plan_destroy(ctx, plan);
  ms_study_destroy(ctx, study);
  return st;
}

static mk_status plan_all(mk_context *ctx, const input *in, ms_diagnostics *diag, ms_table *t) {
  ms_machine_rates rates = {0};
  MK_TRY(ctx, ms_peaks_load_here(ctx, &rates));
  if (rates.bandwidth_bytes_per_s == 0) {
    mk_log(ctx, "no prediction: the rates of this machine are not measured (moemark sysinfo --peaks)");
  }
  for (int i = 0; i < in->files.count; i++)
    MK_TRY(ctx, plan_file(ctx, in, in->files.item[i], &rates, diag, t));
  static const char *const WIDE[] = {"scale", "params_total", "params_active", "launches"};
  for (size_t i = 0; i < sizeof WIDE / sizeof WIDE[0]; i++)
    ms_table_hide(t, WIDE[i]);
  if (in->files.count == 1) ms_table_hide(t, "study");
  return ms_table_write(ctx, t, in->common.format);
}

int ms_verb_plan(mk_context *ctx, int argc, char **argv) {
  input in = {.common = {.ctx = ctx}};
  ms_diagnostics diag = {0};
  ms_table *table = NULL;
  mk_status st = ms_cli_parse(ctx, &ARGP, argc, argv, &in, &in.files);
  if (st == MK_OK && in.files.count == 0) {
    ms_common_fini(&in.common);
    return ms_cli_usage(ctx, "plan", "which study files?");
  }
  if (st == MK_OK) st = ms_table_create(ctx, N_COLUMNS, COLUMNS, &table);
  if (st == MK_OK) st = plan_all(ctx, &in, &diag, table);
  bool told = ms_cli_diagnostics(&diag); /* each fault with its place: no further message */
  ms_diagnostics_fini(ctx, &diag);
  ms_table_destroy(ctx, table);
  ms_common_fini(&in.common);
  if (st != MK_OK && told) return ms_cli_exit_code(st);
  return st == MK_OK ? MS_EXIT_OK : ms_cli_failed(ctx);
}
