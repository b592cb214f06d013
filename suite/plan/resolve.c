/* From levels to one resolved trainer config. */
#include <stdio.h>
#include <string.h>

#include "suite/models/model.h"
#include "suite/plan/plan_private.h"
#include "trainer/data/source.h"

static const char *const MODEL_KEY = "model";

/* The model: named by the scale, replaced by a level that sets `model`, replaced by -S model=. */
static const char *model_name(const ms_planner *p, const char (*level)[MS_NAME_BYTES]) {
  const char *name = p->scale->model;
  for (int i = 0; i < p->study->n_factors; i++) {
    const ms_level *def = ms_study_level_find(p->study, p->scale->name, p->study->factors[i].name, level[i]);
    for (int j = 0; def != NULL && j < def->set.count; j++) {
      if (strcmp(def->set.item[j].key, MODEL_KEY) == 0) name = def->set.item[j].value;
    }
  }
  for (int i = 0; p->overrides != NULL && i < p->overrides->count; i++) {
    if (strcmp(p->overrides->item[i].key, MODEL_KEY) == 0) name = p->overrides->item[i].value;
  }
  return name;
}

static mk_status apply(ms_planner *p, const ms_settings *set, mt_config *cfg) {
  for (int i = 0; set != NULL && i < set->count; i++) {
    if (strcmp(set->item[i].key, MODEL_KEY) == 0) continue;
    MK_TRY(p->ctx, mt_config_set(p->ctx, cfg, set->item[i].key, set->item[i].value));
  }
  return MK_OK;
}

static mk_status apply_levels(ms_planner *p, const char (*level)[MS_NAME_BYTES], mt_config *cfg) {
  for (int i = 0; i < p->study->n_factors; i++) {
    const ms_factor *factor = &p->study->factors[i];
    if (factor->type == MS_FACTOR_INT) {
      MK_TRY(p->ctx, mt_config_set(p->ctx, cfg, factor->name, level[i]));
    } else {
      const ms_level *def = ms_study_level_find(p->study, p->scale->name, factor->name, level[i]);
      MK_TRY(p->ctx, apply(p, def == NULL ? NULL : &def->set, cfg));
    }
  }
  return MK_OK;
}

/* Content of an input file as the trainer tells data apart: size, first and last MiB. */
static mk_status identify(mk_context *ctx, const char *path, char out[MK_HASH_BYTES]) {
  mk_status st = MK_OK;
  mk_hash *hash = NULL;
  MK_TRY_GOTO(ctx, mk_hash_create(ctx, &hash), out);
  MK_TRY_GOTO(ctx, mt_source_hash_file(ctx, hash, NULL, path), out);
  MK_TRY_GOTO(ctx, mk_hash_end(hash, out), out);
out:
  mk_hash_destroy(hash);
  return st;
}

/* A relative path of the study means a file beside it, or of the source tree or installed data. A file that is not
 * there may still be made: a property of the case, not a fault of the study. */
static mk_status find_input(ms_planner *p, const char *key, char path[MT_TEXT_BYTES], char id[MK_HASH_BYTES],
                            ms_case *c) {
  char found[MS_PATH_BYTES];
  if (path[0] == '\0') return MK_OK;
  mk_status st = ms_path_find(p->ctx, p->study->folder, path, found);
  if (st == MK_OK) st = identify(p->ctx, found, id);
  if (st == MK_ERR_IO) {
    snprintf(c->unsupported, sizeof c->unsupported, "%s: %.400s; the study's README says how to make it", key,
             p->ctx->error.message);
    mk_error_clear(p->ctx);
    return MK_OK;
  }
  MK_TRY(p->ctx, st);
  MK_CHECK(p->ctx, strlen(found) < MT_TEXT_BYTES, MK_ERR_CONFIG, "the path %.300s is too long", found);
  strcpy(path, found);
  return MK_OK;
}

mk_status ms_case_inputs(ms_planner *p, ms_case *c) {
  MK_TRY(p->ctx, find_input(p, "data_path", c->config.data_path, c->data_id, c));
  return find_input(p, "weights_in", c->config.weights_in, c->weights_id, c);
}

mk_status ms_case_resolve(ms_planner *p, const char (*level)[MS_NAME_BYTES], mt_config *out) {
  mk_context *ctx = p->ctx;
  mt_config cfg = mt_config_default();
  char path[MS_PATH_BYTES];
  MK_TRY(ctx, ms_model_find(ctx, model_name(p, level), path));
  MK_TRY(ctx, ms_model_load(ctx, path, p->diag, &cfg));
  MK_TRY(ctx, apply(p, &p->scale->set, &cfg));
  cfg.warmup_steps = p->scale->measure.warmup_steps;
  cfg.steps = p->scale->measure.steps;
  MK_TRY(ctx, apply_levels(p, level, &cfg));
  MK_TRY(ctx, apply(p, p->overrides, &cfg));
  cfg.ep = mt_config_ep(&cfg);
  *out = cfg;
  return MK_OK;
}
