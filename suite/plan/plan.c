/* The cases of a scale: product of the levels in the order of the file, minus exclusions. */
#include "suite/plan/plan.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "suite/models/counts.h"
#include "suite/plan/plan_private.h"
#include "trainer/step/plan.h"

enum { MAX_CASES = 4096 };

mk_status ms_plan_fault(ms_planner *p, ms_place place, const char *fmt, ...) {
  char text[MK_MESSAGE_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return ms_diagnostics_add(p->ctx, p->diag, p->study->path, place, "%s", text);
}

mk_status ms_plan_absorb(ms_planner *p, mk_status st, ms_place place, const char *what) {
  if (st == MK_OK || (st == MK_ERR_MEMORY && p->ctx->error.status == MK_ERR_MEMORY)) return st;
  char message[MK_MESSAGE_BYTES];
  strcpy(message, p->ctx->error.message);
  mk_error_clear(p->ctx);
  for (int i = 0; i < p->diag->count; i++) {
    if (strstr(p->diag->line[i], message) != NULL) return MK_OK; /* the same in another case */
  }
  return ms_plan_fault(p, place, "%s: %.900s", what, message);
}

/* ---- one case ---- */

static void name_case(const ms_study *study, ms_case *c) {
  size_t used = 0;
  for (int i = 0; i < study->n_factors; i++) {
    int put = snprintf(c->name + used, sizeof c->name - used, "%s%%%s=%s", i == 0 ? "" : " ", study->factors[i].name,
                       c->level[i]);
    if (put > 0 && used + (size_t)put < sizeof c->name) used += (size_t)put;
  }
}

/* Copies `args` with {factor} replaced by the case's level. */
static void fill_args(const ms_study *study, const ms_level *level, ms_case *c) {
  size_t used = 0;
  for (const char *at = level->args; *at != '\0' && used + 1 < sizeof c->peer_args;) {
    const char *text = NULL;
    for (int i = 0; *at == '{' && i < study->n_factors && text == NULL; i++) {
      size_t length = strlen(study->factors[i].name);
      if (strncmp(at + 1, study->factors[i].name, length) != 0 || at[1 + length] != '}') continue;
      text = c->level[i];
      at += length + 2;
    }
    if (text == NULL) {
      c->peer_args[used++] = *at++;
    } else {
      used += (size_t)snprintf(c->peer_args + used, sizeof c->peer_args - used, "%s", text);
    }
  }
  c->peer_args[used < sizeof c->peer_args ? used : sizeof c->peer_args - 1] = '\0';
}

static void find_peer(const ms_study *study, const ms_scale *scale, ms_case *c) {
  for (int i = 0; i < study->n_factors; i++) {
    const ms_level *level = ms_study_level_find(study, scale->name, study->factors[i].name, c->level[i]);
    if (level == NULL || level->peer[0] == '\0') continue;
    strcpy(c->peer, level->peer);
    fill_args(study, level, c);
  }
}

const char *ms_case_kind(const ms_case *c) { return c->peer[0] != '\0' ? "measured" : mt_config_kind(&c->config); }

bool ms_case_is_emulated(const ms_case *c) { return strcmp(ms_case_kind(c), "emulated") == 0; }

/* What stands for a key in the hash: its value, but for an input file its content, so that the same study and file hash
 * alike in every folder and for every user, and another file of that name does not. */
static void hashed_value(const ms_case *c, const mt_key *key, char *text, size_t bytes) {
  const char *id = strcmp(key->name, "data_path") == 0    ? c->data_id
                   : strcmp(key->name, "weights_in") == 0 ? c->weights_id
                                                          : "";
  mt_config_get(&c->config, key, text, bytes);
  if (id[0] != '\0') snprintf(text, bytes, "content %s", id);
}

static mk_status hash_case(mk_context *ctx, ms_case *c) {
  size_t n_keys = 0, used = 0;
  const mt_key *keys = mt_config_keys(&n_keys);
  char *text = NULL, value[MT_TEXT_BYTES], hex[MK_HASH_BYTES];
  size_t bytes = n_keys * (MT_TEXT_BYTES + MS_NAME_BYTES) + 2 * MS_LINE_BYTES;
  MK_TRY(ctx, mk_heap_alloc(ctx, bytes, &text));
  for (size_t i = 0; i < n_keys; i++) {
    hashed_value(c, &keys[i], value, sizeof value);
    used += (size_t)snprintf(text + used, bytes - used, "%s=%s\n", keys[i].name, value);
  }
  used += (size_t)snprintf(text + used, bytes - used, "peer=%s %s\n", c->peer, c->peer_args);
  mk_status st = mk_hash_bytes(ctx, text, used, hex);
  mk_heap_free(ctx, text);
  if (st == MK_OK) snprintf(c->hash, sizeof c->hash, "%.12s", hex);
  return st;
}

/* The config must hold together; what this build cannot run yet is a property of the case, not a fault of the file. */
static mk_status check_config(ms_planner *p, ms_case *c, bool *sound) {
  mk_status st = mt_config_check(p->ctx, &c->config);
  *sound = st == MK_OK || st == MK_ERR_UNSUPPORTED;
  if (st == MK_ERR_UNSUPPORTED) {
    snprintf(c->unsupported, sizeof c->unsupported, "%.500s", p->ctx->error.message);
    mk_error_clear(p->ctx);
    return MK_OK;
  }
  return ms_plan_absorb(p, st, p->scale->place, c->name);
}

static mk_status plan_memory(ms_planner *p, ms_case *c) {
  if (c->peer[0] != '\0') return MK_OK;
  mk_status st = mt_plan_memory(p->ctx, &c->config, c->planned_bytes);
  if (st == MK_ERR_UNSUPPORTED || (st != MK_OK && c->unsupported[0] != '\0')) {
    if (c->unsupported[0] == '\0') snprintf(c->unsupported, sizeof c->unsupported, "%.500s", p->ctx->error.message);
    mk_error_clear(p->ctx);
    memset(c->planned_bytes, 0, sizeof c->planned_bytes);
    return MK_OK;
  }
  for (int i = 0; i < MK_MEM_COUNT; i++)
    c->planned_total_bytes += c->planned_bytes[i];
  return ms_plan_absorb(p, st, p->scale->place, c->name);
}

static mk_status find_expectation(ms_planner *p, ms_case *c) {
  for (int i = 0; i < p->scale->n_expect_fail && c->expect == NULL; i++) {
    bool holds = false;
    MK_TRY(p->ctx, ms_condition_eval(p->ctx, p->study, &p->scale->expect_fail[i].when, c, &holds));
    if (holds) c->expect = &p->scale->expect_fail[i];
  }
  return MK_OK;
}

static mk_status fill_case(ms_planner *p, const ms_machine_rates *rates, double budget_mib, ms_case *c) {
  mk_context *ctx = p->ctx;
  bool sound = false;
  mk_status resolved = ms_case_resolve(p, (const char(*)[MS_NAME_BYTES])c->level, &c->config);
  MK_TRY(ctx, ms_plan_absorb(p, resolved, p->scale->place, c->name));
  if (resolved != MK_OK) return MK_OK;
  if (budget_mib > 0 && c->config.memory_budget_mib == 0) c->config.memory_budget_mib = budget_mib;
  find_peer(p->study, p->scale, c);
  MK_TRY(ctx, ms_plan_absorb(p, ms_case_inputs(p, c), p->scale->place, c->name));
  MK_TRY(ctx, check_config(p, c, &sound));
  if (!sound) return MK_OK;
  MK_TRY(ctx, plan_memory(p, c));
  MK_TRY(ctx, find_expectation(p, c));
  c->flop_token = (double)ms_flops_token(&c->config, MS_FLOPS_OLMO_CORE_3_DDP);
  c->params_total = ms_count_params_total(&c->config, true);
  c->params_active = ms_count_params_active(&c->config, true);
  bool predicted = c->peer[0] == '\0' && rates != NULL && !ms_case_is_emulated(c);
  c->predicted_tok_s = predicted ? ms_predict_tok_s(&c->config, rates) : NAN;
  return hash_case(ctx, c);
}

/* ---- the product ---- */

static mk_status count_product(ms_planner *p, int *out) {
  double product = 1;
  for (int i = 0; i < p->scale->n_levels; i++)
    product *= p->scale->levels[i].count;
  *out = 0;
  if (product > MAX_CASES) {
    return ms_plan_fault(p, p->scale->place, "scale '%s' has %.0f cases; at most %d are planned", p->scale->name,
                         product, MAX_CASES);
  }
  *out = (int)product;
  return MK_OK;
}

/* Levels of case `index`: the last factor varies fastest. */
static void set_levels(const ms_planner *p, int index, ms_case *c) {
  for (int i = p->study->n_factors - 1; i >= 0; i--) {
    const ms_factor_levels *levels = NULL;
    for (int j = 0; j < p->scale->n_levels; j++) {
      if (strcmp(p->scale->levels[j].factor, p->study->factors[i].name) == 0) levels = &p->scale->levels[j];
    }
    strcpy(c->level[i], levels->level[index % levels->count]);
    index /= levels->count;
  }
  name_case(p->study, c);
}

static mk_status is_excluded(ms_planner *p, const ms_case *c, bool *hit, bool *out) {
  *out = false;
  for (int i = 0; i < p->scale->n_exclude; i++) {
    bool holds = false;
    MK_TRY(p->ctx, ms_condition_eval(p->ctx, p->study, &p->scale->exclude[i].when, c, &holds));
    hit[i] = hit[i] || holds;
    *out = *out || holds;
  }
  return MK_OK;
}

/* A condition that no case meets is a slip of the pen: the study says less than its author thinks. */
static mk_status check_used(ms_planner *p, const ms_plan *plan, const bool *excluded) {
  for (int i = 0; i < p->scale->n_exclude; i++) {
    const ms_condition *when = &p->scale->exclude[i].when;
    if (!excluded[i])
      MK_TRY(p->ctx, ms_plan_fault(p, when->place, "no case of scale '%s' is excluded by this", p->scale->name));
  }
  for (int i = 0; i < p->scale->n_expect_fail; i++) {
    bool used = false;
    for (int j = 0; j < plan->n_cases; j++) {
      bool holds = false;
      MK_TRY(p->ctx, ms_condition_eval(p->ctx, p->study, &p->scale->expect_fail[i].when, &plan->cases[j], &holds));
      used = used || holds;
    }
    const ms_condition *when = &p->scale->expect_fail[i].when;
    if (!used)
      MK_TRY(p->ctx, ms_plan_fault(p, when->place, "no case of scale '%s' meets this condition", p->scale->name));
  }
  return MK_OK;
}

static mk_status fill_plan(ms_planner *p, const ms_machine_rates *rates, ms_plan *plan) {
  mk_status st = MK_OK;
  int product = 0;
  double budget_mib = 0;
  bool *excluded = NULL;
  MK_TRY_GOTO(p->ctx, count_product(p, &product), out);
  MK_TRY_GOTO(p->ctx, ms_plan_scaled_budget(p, &budget_mib), out);
  if (p->diag->count > 0) goto out;
  MK_TRY_GOTO(p->ctx, mk_heap_array(p->ctx, (size_t)product + 1, sizeof *plan->cases, &plan->cases), out);
  MK_TRY_GOTO(p->ctx, mk_heap_array(p->ctx, (size_t)p->scale->n_exclude + 1, sizeof *excluded, &excluded), out);
  for (int i = 0; i < product; i++) {
    ms_case *c = &plan->cases[plan->n_cases];
    bool skip = false;
    *c = (ms_case){0};
    set_levels(p, i, c);
    MK_TRY_GOTO(p->ctx, is_excluded(p, c, excluded, &skip), out);
    if (skip) continue;
    plan->n_cases += 1;
    MK_TRY_GOTO(p->ctx, fill_case(p, rates, budget_mib, c), out);
  }
  MK_TRY_GOTO(p->ctx, check_used(p, plan, excluded), out);
  if (p->diag->count == 0) st = ms_plan_check_contrasts(p, plan);
out:
  mk_heap_free(p->ctx, excluded);
  return st;
}

static mk_status fail_scale(mk_context *ctx, const ms_study *study, const char *scale) {
  char names[MS_LINE_BYTES] = "";
  for (int i = 0; i < study->n_scales; i++) {
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", study->scales[i].name);
  }
  return MK_FAIL(ctx, MK_ERR_CONFIG, "study '%s' has no scale '%.60s'; it has %s", study->id, scale, names);
}

mk_status ms_plan_create(mk_context *ctx, const ms_study *study, const char *scale, const ms_machine_rates *rates,
                         const ms_settings *overrides, ms_diagnostics *diag, ms_plan **out) {
  mk_status st = MK_OK;
  ms_plan *plan = NULL;
  ms_diagnostics own = {0};
  ms_planner p = {
      .ctx = ctx, .diag = &own, .study = study, .scale = ms_study_scale_find(study, scale), .overrides = overrides};
  if (p.scale == NULL) return fail_scale(ctx, study, scale);
  MK_TRY(ctx, ms_plan_check_overrides(&p));
  MK_TRY_GOTO(ctx, mk_heap_alloc(ctx, sizeof *plan, &plan), out);
  *plan = (ms_plan){.study = study, .scale = p.scale, .rates = rates == NULL ? (ms_machine_rates){0} : *rates};
  MK_TRY_GOTO(ctx, fill_plan(&p, rates, plan), out);
  MK_CHECK_GOTO(ctx, own.count == 0, MK_ERR_CONFIG, out, "%.500s: scale '%s' has %d fault%s", study->path, scale,
                own.count, own.count == 1 ? "" : "s");
  *out = plan;
  plan = NULL;
out:
  ms_plan_destroy(ctx, plan);
  mk_status moved = ms_diagnostics_move(ctx, &own, diag);
  return st == MK_OK ? moved : st;
}

const char *ms_plan_system(const ms_plan *plan) {
  return plan->scale->system[0] != '\0' ? plan->scale->system : "local";
}

void ms_plan_destroy(mk_context *ctx, ms_plan *plan) {
  if (plan == NULL) return;
  mk_heap_free(ctx, plan->cases);
  mk_heap_free(ctx, plan);
}

const ms_case *ms_plan_case_at(const ms_plan *plan, const char (*level)[MS_NAME_BYTES]) {
  for (int i = 0; i < plan->n_cases; i++) {
    bool same = true;
    for (int j = 0; j < plan->study->n_factors; j++)
      same = same && strcmp(plan->cases[i].level[j], level[j]) == 0;
    if (same) return &plan->cases[i];
  }
  return NULL;
}

const ms_case *ms_plan_case_find(const ms_plan *plan, const ms_metric_ref *ref) {
  char level[MS_MAX_FACTORS][MS_NAME_BYTES] = {""};
  for (int i = 0; i < ref->n_select; i++) {
    int factor = ms_study_factor_find(plan->study, ref->select[i].factor);
    if (factor >= 0) strcpy(level[factor], ref->select[i].level);
  }
  return ms_plan_case_at(plan, (const char(*)[MS_NAME_BYTES])level);
}
