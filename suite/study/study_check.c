/* Names that cross blocks: factors and their definitions, conditions, contrasts, claims. */
#include <string.h>

#include "kernels/base/text.h"
#include "suite/metrics/metric.h"
#include "suite/study/study_read.h"

void ms_fault_factor(ms_reader *reader, const ms_study *study, ms_place place, const char *name) {
  const char *best = "";
  int distance = -1;
  for (int i = 0; i < study->n_factors; i++)
    ms_nearest(name, study->factors[i].name, &best, &distance);
  if (distance < 0) {
    ms_fault(reader, place, "unknown factor '%.60s'; the study has none", name);
  } else {
    ms_fault(reader, place, "unknown factor '%.60s'; the nearest is '%s'", name, best);
  }
}

void ms_fault_level(ms_reader *reader, const ms_factor_levels *levels, ms_place place, const char *name) {
  const char *best = "";
  int distance = -1;
  for (int i = 0; i < levels->count; i++)
    ms_nearest(name, levels->level[i], &best, &distance);
  ms_fault(reader, place, "factor '%s' has no level '%.60s' here; the nearest is '%s'", levels->factor, name, best);
}

const ms_factor_levels *ms_scale_levels(const ms_scale *scale, const char *factor) {
  for (int i = 0; i < scale->n_levels; i++) {
    if (strcmp(scale->levels[i].factor, factor) == 0) return &scale->levels[i];
  }
  return NULL;
}

bool ms_levels_contain(const ms_factor_levels *levels, const char *name) {
  for (int i = 0; i < levels->count; i++) {
    if (strcmp(levels->level[i], name) == 0) return true;
  }
  return false;
}

/* ---- factors and define ---- */

static void check_factor(ms_reader *reader, const ms_study *study, const ms_factor *factor) {
  bool defined = false;
  for (int i = 0; i < study->n_level_defs; i++)
    defined = defined || strcmp(study->levels[i].factor, factor->name) == 0;
  if (factor->type == MS_FACTOR_LEVEL && !defined) {
    ms_fault(reader, factor->place, "factor '%s' is of type level, but define says nothing about it", factor->name);
  }
  if (factor->type == MS_FACTOR_INT) {
    const mt_key *key = mt_config_key_find(factor->name);
    if (key == NULL || key->type != MT_KEY_INT) {
      ms_fault(reader, factor->place,
               "factor '%s' is of type int, so it must be a whole-number trainer key; nearest is '%s'", factor->name,
               mt_config_key_nearest(factor->name));
    }
  }
}

static void check_level(ms_reader *reader, const ms_study *study, const ms_level *level) {
  int factor = ms_study_factor_find(study, level->factor);
  if (factor < 0) {
    ms_fault_factor(reader, study, level->place, level->factor);
  } else if (study->factors[factor].type == MS_FACTOR_INT) {
    ms_fault(reader, level->place, "factor '%s' is of type int: its levels are numbers and define nothing",
             level->factor);
  }
  for (int i = 0; i < level->set.count; i++) {
    const ms_setting *item = &level->set.item[i];
    if (strcmp(item->key, "model") == 0) ms_check_model(reader, item->place, item->value);
  }
  if (level->peer[0] == '\0') return;
  char relative[2 * MS_NAME_BYTES + 32], path[MS_PATH_BYTES];
  strcpy(relative, "baselines/peers/");
  strcat(relative, level->peer);
  strcat(relative, "/run.sh");
  if (ms_path_find(reader->ctx, NULL, relative, path) == MK_OK) return;
  ms_fault(reader, level->place, "level '%s': peer '%s' has no %s", level->name, level->peer, relative);
  mk_error_clear(reader->ctx);
}

/* Two factors that set one key would make the case depend on their order. */
static void check_overlap(ms_reader *reader, const ms_study *study, const ms_level *a) {
  for (int i = 0; i < a->set.count; i++) {
    const char *key = a->set.item[i].key;
    bool taken = ms_study_factor_find(study, key) >= 0 && strcmp(key, a->factor) != 0;
    for (int j = 0; j < study->n_level_defs && !taken; j++) {
      const ms_level *b = &study->levels[j];
      for (int k = 0; k < b->set.count && strcmp(a->factor, b->factor) != 0; k++) {
        taken = taken || strcmp(b->set.item[k].key, key) == 0;
      }
    }
    if (taken) {
      ms_fault(reader, a->set.item[i].place, "key '%s' is set by two factors; only one may set it", key);
    }
  }
}

/* ---- conditions ---- */

static ms_place inside(ms_place place, int offset) { return (ms_place){place.line, place.col + offset}; }

static void check_comparison(ms_reader *reader, const ms_study *study, const ms_scale *scale, ms_place start,
                             const ms_comparison *c) {
  ms_place place = inside(start, c->side.offset);
  int factor = ms_study_factor_find(study, c->side.factor);
  if (factor < 0) {
    ms_fault_factor(reader, study, place, c->side.factor);
    return;
  }
  double number = 0;
  bool is_int = study->factors[factor].type == MS_FACTOR_INT;
  if (study->factors[factor].type == MS_FACTOR_BROKEN) return;
  if (is_int && !mk_text_number(c->side.level, true, &number)) {
    ms_fault(reader, place, "factor '%s' is of type int, but '%s' is no whole number", c->side.factor, c->side.level);
  } else if (!is_int && c->order != MS_EQ && c->order != MS_NE) {
    ms_fault(reader, place, "levels of '%s' have no order; use == or !=", c->side.factor);
  } else if (!is_int && scale != NULL) {
    const ms_factor_levels *levels = ms_scale_levels(scale, c->side.factor);
    if (levels != NULL && !ms_levels_contain(levels, c->side.level)) {
      ms_fault_level(reader, levels, place, c->side.level);
    }
  }
}

void ms_check_condition(ms_reader *reader, const ms_study *study, const ms_scale *scale,
                        const ms_condition *condition) {
  ms_expr *expr = NULL;
  ms_expr_fault fault;
  mk_status st = ms_expr_parse_condition(reader->ctx, condition->text, &fault, &expr);
  if (st == MK_ERR_CONFIG) {
    ms_fault(reader, inside(condition->place, fault.offset), "condition \"%.120s\": %s", condition->text,
             fault.message);
    return;
  }
  if (st != MK_OK) {
    reader->st = st;
    return;
  }
  for (int i = 0; i < expr->n_compares; i++) {
    check_comparison(reader, study, scale, condition->place, &expr->compare[i]);
  }
  ms_expr_destroy(reader->ctx, expr);
}

/* ---- contrasts, claims ---- */

static void fault_metric(ms_reader *reader, const ms_study *study, ms_place place, const char *name) {
  const char *best = "";
  int distance = -1;
  for (int i = 0; i < study->n_metrics; i++)
    ms_nearest(name, study->metrics[i].name, &best, &distance);
  if (distance < 0) {
    ms_fault(reader, place, "metric '%.60s' does not stand under metrics, which is empty", name);
  } else {
    ms_fault(reader, place, "metric '%.60s' does not stand under metrics; the nearest is '%s'", name, best);
  }
}

/* Names, units and directions are those of suite/metrics: a study chooses metrics, it does not redefine them. */
static void check_metric(ms_reader *reader, const ms_metric_use *use) {
  const ms_metric *metric = ms_metric_find(use->name);
  if (metric == NULL) {
    const char *best = "";
    int distance = -1, count = 0;
    const ms_metric *list = ms_metric_list(&count);
    for (int i = 0; i < count; i++)
      ms_nearest(use->name, list[i].name, &best, &distance);
    ms_fault(reader, use->place, "unknown metric '%s'; the nearest is '%s'", use->name, best);
    return;
  }
  if (use->unit[0] != '\0' && strcmp(use->unit, metric->unit) != 0) {
    ms_fault(reader, use->place, "metric '%s' has the unit %s, not %s", use->name, metric->unit, use->unit);
  }
  if (use->has_better && use->lower_is_better != metric->lower_is_better) {
    ms_fault(reader, use->place, "metric '%s' is better when %s", use->name,
             metric->lower_is_better ? "lower" : "higher");
  }
  if (use->deterministic && !metric->deterministic) {
    ms_fault(reader, use->place, "metric '%s' varies from launch to launch; it is not deterministic", use->name);
  }
}

/* A level that some scale lists. */
static bool level_somewhere(const ms_study *study, const char *factor, const char *level) {
  for (int i = 0; i < study->n_scales; i++) {
    const ms_factor_levels *levels = ms_scale_levels(&study->scales[i], factor);
    if (levels != NULL && ms_levels_contain(levels, level)) return true;
  }
  return false;
}

static void check_contrast(ms_reader *reader, const ms_study *study, const ms_contrast *c) {
  if (ms_study_metric_find(study, c->metric) == NULL) fault_metric(reader, study, c->place, c->metric);
  if (ms_study_factor_find(study, c->factor) < 0) {
    ms_fault_factor(reader, study, c->place, c->factor);
  } else if (!level_somewhere(study, c->factor, c->base)) {
    ms_fault(reader, c->place, "contrast '%s': no scale has level '%s' of factor '%s'", c->id, c->base, c->factor);
  }
  if (c->within[0] == '\0') return;
  if (ms_study_factor_find(study, c->within) < 0) ms_fault_factor(reader, study, c->place, c->within);
  if (strcmp(c->within, c->factor) == 0) {
    ms_fault(reader, c->place, "contrast '%s': within names the factor '%s' under test", c->id, c->factor);
  }
}

static void check_metric_ref(ms_reader *reader, const ms_study *study, const ms_claim *claim,
                             const ms_metric_ref *ref) {
  ms_place place = inside(claim->expr_place, ref->offset);
  bool seen[MS_MAX_FACTORS] = {false};
  if (ms_study_metric_find(study, ref->metric) == NULL) fault_metric(reader, study, place, ref->metric);
  for (int i = 0; i < ref->n_select; i++) {
    const ms_selector *s = &ref->select[i];
    ms_place at = inside(claim->expr_place, s->offset);
    int factor = ms_study_factor_find(study, s->factor);
    if (factor < 0) {
      ms_fault_factor(reader, study, at, s->factor);
      continue;
    }
    if (seen[factor]) ms_fault(reader, at, "factor '%s' is named twice", s->factor);
    seen[factor] = true;
    if (!level_somewhere(study, s->factor, s->level)) {
      ms_fault(reader, at, "no scale has level '%s' of factor '%s'", s->level, s->factor);
    }
  }
  for (int i = 0; i < study->n_factors; i++) {
    if (!seen[i]) {
      ms_fault(reader, place, "metric '%s' must name a level of factor '%s', so that it means one case", ref->metric,
               study->factors[i].name);
    }
  }
}

static void check_claim(ms_reader *reader, const ms_study *study, const ms_claim *claim) {
  ms_expr *expr = NULL;
  ms_expr_fault fault;
  if (claim->expr[0] == '\0') return;
  mk_status st = ms_expr_parse_claim(reader->ctx, claim->expr, &fault, &expr);
  if (st == MK_ERR_CONFIG) {
    ms_fault(reader, inside(claim->expr_place, fault.offset), "claim '%s': %s", claim->id, fault.message);
    return;
  }
  if (st != MK_OK) {
    reader->st = st;
    return;
  }
  if (expr->n_metrics == 0) ms_fault(reader, claim->expr_place, "claim '%s' names no metric", claim->id);
  for (int i = 0; i < expr->n_metrics; i++)
    check_metric_ref(reader, study, claim, &expr->metric[i]);
  ms_expr_destroy(reader->ctx, expr);
}

void ms_check_study(ms_reader *reader, const ms_study *study) {
  for (int i = 0; i < study->n_factors; i++)
    check_factor(reader, study, &study->factors[i]);
  for (int i = 0; i < study->n_level_defs; i++) {
    check_level(reader, study, &study->levels[i]);
    check_overlap(reader, study, &study->levels[i]);
  }
  for (int i = 0; i < study->n_metrics; i++)
    check_metric(reader, &study->metrics[i]);
  for (int i = 0; i < study->n_contrasts; i++)
    check_contrast(reader, study, &study->contrasts[i]);
  for (int i = 0; i < study->n_claims; i++) {
    const ms_claim *claim = &study->claims[i];
    if (ms_study_claim_find(study, claim->id) != claim)
      ms_fault(reader, claim->place, "claim '%s' stands twice", claim->id);
    check_claim(reader, study, claim);
  }
  for (int i = 0; i < study->n_sanity; i++) {
    const ms_sanity *s = &study->sanity[i];
    if (s->of[0] != '\0' && ms_study_metric_find(study, s->of) == NULL) fault_metric(reader, study, s->place, s->of);
  }
  for (int i = 0; i < study->n_scales; i++)
    ms_check_scale(reader, study, &study->scales[i]);
  if (study->n_scales > 0 && ms_study_scale_find(study, "smoke") == NULL) {
    ms_fault(reader, study->scales[0].place, "the scale smoke is missing; every study has it");
  }
}
