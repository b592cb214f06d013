/* Names inside one scale against the rest of the study. */
#include <stdio.h>
#include <string.h>

#include "kernels/base/text.h"
#include "suite/study/study_read.h"

void ms_check_model(ms_reader *reader, ms_place place, const char *name) {
  char relative[MT_TEXT_BYTES + 32], path[MS_PATH_BYTES];
  if (!ms_name_is_plain(name)) return; /* reported where it was read */
  snprintf(relative, sizeof relative, "suite/models/%s.yaml", name);
  if (ms_path_find(reader->ctx, NULL, relative, path) == MK_OK) return;
  mk_error_clear(reader->ctx);
  ms_fault(reader, place, "unknown model '%.60s': there is no %.80s", name, relative);
}

/* A number has one spelling: 8 and 08 would be two cases of one configuration. */
static void check_int_levels(ms_reader *reader, const ms_factor_levels *levels) {
  mt_config scratch = mt_config_default();
  mk_context *ctx = reader->ctx;
  char text[MT_TEXT_BYTES];
  const mt_key *key = mt_config_key_find(levels->factor);
  if (key == NULL) return; /* reported with the factor */
  for (int i = 0; i < levels->count; i++) {
    if (mt_config_set(ctx, &scratch, levels->factor, levels->level[i]) != MK_OK) {
      ms_fault(reader, levels->level_place[i], "%s", ctx->error.message);
      mk_error_clear(ctx);
      continue;
    }
    mt_config_get(&scratch, key, text, sizeof text);
    if (key->type != MT_KEY_INT || strcmp(text, levels->level[i]) == 0) continue;
    ms_fault(reader, levels->level_place[i], "%s: write '%.60s' as %s", levels->factor, levels->level[i], text);
  }
}

static void check_level_names(ms_reader *reader, const ms_study *study, const ms_scale *scale,
                              const ms_factor_levels *levels) {
  for (int i = 0; i < levels->count; i++) {
    if (ms_study_level_find(study, scale->name, levels->factor, levels->level[i]) != NULL) continue;
    const char *best = "";
    int distance = -1;
    for (int j = 0; j < study->n_level_defs; j++) {
      if (strcmp(study->levels[j].factor, levels->factor) == 0) {
        ms_nearest(levels->level[i], study->levels[j].name, &best, &distance);
      }
    }
    if (distance < 0) return; /* define says nothing about the factor: reported there */
    ms_fault(reader, levels->level_place[i], "level '%s' of factor '%s' is not defined; the nearest is '%s'",
             levels->level[i], levels->factor, best);
  }
}

static void check_levels(ms_reader *reader, const ms_study *study, const ms_scale *scale) {
  for (int i = 0; i < scale->n_levels; i++) {
    const ms_factor_levels *levels = &scale->levels[i];
    int factor = ms_study_factor_find(study, levels->factor);
    if (factor < 0) {
      ms_fault_factor(reader, study, levels->place, levels->factor);
    } else if (study->factors[factor].type == MS_FACTOR_INT) {
      check_int_levels(reader, levels);
    } else if (study->factors[factor].type == MS_FACTOR_LEVEL) {
      check_level_names(reader, study, scale, levels);
    }
  }
  for (int i = 0; i < study->n_factors; i++) {
    if (ms_scale_levels(scale, study->factors[i].name) == NULL) {
      ms_fault(reader, scale->place, "scale '%s' lists no levels of factor '%s'", scale->name, study->factors[i].name);
    }
  }
}

/* The level at this scale that sets a key by its name; NULL: none does. What a preset or a model brings along does not
 * count: a study may fix those keys for the levels that name none. */
static const ms_level *level_that_sets(const ms_study *study, const ms_scale *scale, const char *key) {
  for (int i = 0; i < study->n_level_defs; i++) {
    const ms_level *level = &study->levels[i];
    if (ms_study_level_find(study, scale->name, level->factor, level->name) != level) continue; /* of another scale */
    for (int j = 0; j < level->set.count; j++) {
      if (strcmp(level->set.item[j].key, key) == 0) return level;
    }
  }
  return NULL;
}

/* A key that a factor sets must not be fixed in `set:` too: the reader of the file would not know which counts. */
static void check_set(ms_reader *reader, const ms_study *study, const ms_scale *scale) {
  for (int i = 0; i < scale->set.count; i++) {
    const ms_setting *s = &scale->set.item[i];
    bool is_step = strcmp(s->key, "warmup_steps") == 0 || strcmp(s->key, "steps") == 0;
    if (is_step) ms_fault(reader, s->place, "%s: is set by the block measure", s->key);
    if (ms_study_factor_find(study, s->key) >= 0) {
      ms_fault(reader, s->place, "%s: is a factor, so set must not fix it", s->key);
    }
    const ms_level *level = level_that_sets(study, scale, s->key);
    if (level != NULL) {
      ms_fault(reader, s->place, "%s: level '%s' of factor '%s' sets it, so set must not fix it", s->key, level->name,
               level->factor);
    }
  }
}

static void check_claim_name(ms_reader *reader, const ms_study *study, ms_place place, const char *id) {
  if (ms_study_claim_find(study, id) != NULL) return;
  const char *best = "";
  int distance = -1;
  for (int i = 0; i < study->n_claims; i++)
    ms_nearest(id, study->claims[i].id, &best, &distance);
  if (distance < 0) {
    ms_fault(reader, place, "unknown claim '%s'; the study has none", id);
  } else {
    ms_fault(reader, place, "unknown claim '%s'; the nearest is '%s'", id, best);
  }
}

static bool predicted(const ms_scale *scale, const char *claim) {
  for (int i = 0; i < scale->n_predict; i++) {
    if (strcmp(scale->predict[i].claim, claim) == 0) return true;
  }
  return false;
}

static void check_claims(ms_reader *reader, const ms_study *study, const ms_scale *scale) {
  for (int i = 0; i < scale->n_predict; i++) {
    check_claim_name(reader, study, scale->predict[i].place, scale->predict[i].claim);
  }
  for (int i = 0; i < scale->n_not_testable; i++) {
    check_claim_name(reader, study, scale->not_testable[i].place, scale->not_testable[i].claim);
  }
  for (int i = 0; i < scale->n_accept; i++) {
    const ms_bound *bound = &scale->accept[i];
    check_claim_name(reader, study, bound->place, bound->claim);
    if (strcmp(scale->name, "local") == 0 && !predicted(scale, bound->claim)) {
      ms_fault(reader, bound->place, "claim '%s' is judged at scale local, so predict must state its value",
               bound->claim);
    }
    if (bound->by_seed && strcmp(scale->measure.seeds, "per_launch") != 0) {
      ms_fault(reader, bound->place, "claim '%s' compares launches by seed, but all have one; set seeds: per_launch",
               bound->claim);
    }
    for (int j = 0; j < scale->n_not_testable; j++) {
      if (strcmp(scale->not_testable[j].claim, bound->claim) == 0) {
        ms_fault(reader, bound->place, "claim '%s' is both accepted and not testable", bound->claim);
      }
    }
  }
}

/* The reference names one case, here and at the scale `published`, whose system states a memory. */
static void check_memory(ms_reader *reader, const ms_study *study, const ms_scale *scale) {
  const ms_memory_reference *m = &scale->memory;
  const ms_scale *published = ms_study_scale_find(study, "published");
  if (!m->scaled) {
    if (m->n_of > 0) ms_fault(reader, m->place, "memory_reference has no use without memory_budget: scaled");
    return;
  }
  if (m->n_of == 0) ms_fault(reader, m->scaled_place, "memory_budget: scaled needs the block memory_reference");
  if (published == NULL || published->system[0] == '\0') {
    ms_fault(reader, m->scaled_place, "memory_budget: scaled needs a scale published with a system");
    return;
  }
  for (int i = 0; i < m->n_of; i++) {
    const ms_scale *both[] = {scale, published};
    for (int j = 0; j < 2; j++) {
      const ms_factor_levels *levels = ms_scale_levels(both[j], m->of[i].factor);
      if (levels == NULL) {
        ms_fault_factor(reader, study, m->of[i].place, m->of[i].factor);
        break;
      }
      if (!ms_levels_contain(levels, m->of[i].level)) {
        ms_fault(reader, m->of[i].place, "scale '%s' has no level '%s' of factor '%s'", both[j]->name, m->of[i].level,
                 m->of[i].factor);
      }
    }
  }
  if (m->n_of > 0 && m->n_of != study->n_factors) {
    ms_fault(reader, m->place, "memory_reference must name a level of every factor");
  }
}

static void check_published_case(ms_reader *reader, const ms_study *study, const ms_published_case *item) {
  for (int i = 0; i < study->n_level_defs; i++) {
    if (strcmp(study->levels[i].name, item->level) == 0) return;
  }
  ms_fault(reader, item->place, "published_case: '%s' is no level under define", item->level);
}

void ms_check_scale(ms_reader *reader, const ms_study *study, const ms_scale *scale) {
  if (scale->model[0] != '\0') ms_check_model(reader, scale->model_place, scale->model);
  check_levels(reader, study, scale);
  check_set(reader, study, scale);
  for (int i = 0; i < scale->n_exclude; i++)
    ms_check_condition(reader, study, scale, &scale->exclude[i].when);
  for (int i = 0; i < scale->n_expect_fail; i++)
    ms_check_condition(reader, study, scale, &scale->expect_fail[i].when);
  check_claims(reader, study, scale);
  check_memory(reader, study, scale);
  for (int i = 0; i < scale->n_published_case; i++)
    check_published_case(reader, study, &scale->published_case[i]);
}
