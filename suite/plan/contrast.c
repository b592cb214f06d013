/* The two sides of a contrast differ in one factor, and their configs only in what that factor sets. */
#include <stdio.h>
#include <string.h>

#include "suite/plan/plan_private.h"

int ms_case_difference(const ms_case *a, const ms_case *b, char *keys, size_t bytes) {
  size_t n_keys = 0, used = 0;
  int count = 0;
  const mt_key *table = mt_config_keys(&n_keys);
  keys[0] = '\0';
  for (size_t i = 0; i < n_keys; i++) {
    char va[MT_TEXT_BYTES], vb[MT_TEXT_BYTES];
    mt_config_get(&a->config, &table[i], va, sizeof va);
    mt_config_get(&b->config, &table[i], vb, sizeof vb);
    if (strcmp(va, vb) == 0) continue;
    int put = snprintf(keys + used, bytes - used, "%s%s", count == 0 ? "" : ", ", table[i].name);
    if (put > 0 && used + (size_t)put < bytes) used += (size_t)put;
    count += 1;
  }
  return count;
}

/* Keys that the levels of a factor may set: its own name for an int factor, the definitions else; a level that names a
 * model sets all keys of the model. */
static bool may_set(const ms_study *study, int factor, const mt_key *key) {
  const char *name = study->factors[factor].name;
  if (strcmp(name, key->name) == 0) return true;
  for (int i = 0; i < study->n_level_defs; i++) {
    const ms_level *level = &study->levels[i];
    for (int j = 0; j < level->set.count && strcmp(level->factor, name) == 0; j++) {
      const char *set = level->set.item[j].key;
      if (strcmp(set, key->name) == 0) return true;
      if (strcmp(set, "model") == 0 && key->group == MT_KEYS_MODEL) return true;
      if (strcmp(set, "preset") == 0 && mt_preset_sets(level->set.item[j].value, key->name)) return true;
    }
  }
  return false;
}

static mk_status check_pair(ms_planner *p, const ms_contrast *contrast, int factor, const ms_case *a,
                            const ms_case *b) {
  size_t n_keys = 0;
  const mt_key *keys = mt_config_keys(&n_keys);
  for (size_t i = 0; i < n_keys; i++) {
    char va[MT_TEXT_BYTES], vb[MT_TEXT_BYTES];
    mt_config_get(&a->config, &keys[i], va, sizeof va);
    mt_config_get(&b->config, &keys[i], vb, sizeof vb);
    if (strcmp(va, vb) == 0 || may_set(p->study, factor, &keys[i])) continue;
    MK_TRY(p->ctx,
           ms_plan_fault(p, contrast->place,
                         "contrast '%s': %s and %s differ in '%s' (%.40s, %.40s), which factor '%s' does not set",
                         contrast->id, a->name, b->name, keys[i].name, va, vb, contrast->factor));
  }
  return MK_OK;
}

static mk_status check_contrast(ms_planner *p, const ms_plan *plan, const ms_contrast *contrast) {
  int factor = ms_study_factor_find(p->study, contrast->factor);
  for (int i = 0; i < plan->n_cases; i++) {
    char level[MS_MAX_FACTORS][MS_NAME_BYTES];
    memcpy(level, plan->cases[i].level, sizeof level);
    strcpy(level[factor], contrast->base);
    const ms_case *base = ms_plan_case_at(plan, (const char(*)[MS_NAME_BYTES])level);
    if (base != NULL) MK_TRY(p->ctx, check_pair(p, contrast, factor, &plan->cases[i], base));
  }
  return MK_OK;
}

mk_status ms_plan_check_contrasts(ms_planner *p, const ms_plan *plan) {
  for (int i = 0; i < p->study->n_contrasts; i++)
    MK_TRY(p->ctx, check_contrast(p, plan, &p->study->contrasts[i]));
  return MK_OK;
}

/* -S must not fix what the study varies, nor go on from another run. */
mk_status ms_plan_check_overrides(ms_planner *p) {
  for (int i = 0; p->overrides != NULL && i < p->overrides->count; i++) {
    const char *key = p->overrides->item[i].key;
    MK_CHECK(p->ctx, strcmp(key, "resume") != 0 || strcmp(p->overrides->item[i].value, "none") == 0, MK_ERR_CONFIG,
             "-S resume: a launch measures from its start; leave the key out");
    for (int f = 0; f < p->study->n_factors; f++) {
      const mt_key *known = mt_config_key_find(key);
      MK_CHECK(p->ctx, known != NULL, MK_ERR_CONFIG, "-S: unknown key '%s'; the nearest is '%s'", key,
               mt_config_key_nearest(key));
      MK_CHECK(p->ctx, !may_set(p->study, f, known), MK_ERR_CONFIG,
               "-S %s: factor '%s' of study '%s' sets this key; choose its levels with -E", key,
               p->study->factors[f].name, p->study->id);
    }
  }
  return MK_OK;
}
