/* One scale: trainer settings, levels, exclusions, expectations, measurement, predictions and bounds. */
#include <math.h>
#include <string.h>

#include "suite/study/study_read.h"

static const char *const ORDERS[] = {"shuffled_blocks", "sequential", NULL};
static const char *const STATS[] = {"tokens_over_time", "median_step", NULL};
static const char *const SEEDS[] = {"fixed", "per_launch", NULL};
static const char *const FAILURES[] = {"oom", "nonfinite", "config", "io", "format", "comm", "timeout", "error", NULL};

static bool read_condition(ms_reader *reader, const ms_node *node, ms_condition *out) {
  out->place = node->text_place;
  return ms_read_text(reader, node, "when", out->text, sizeof out->text);
}

/* ---- trainer ---- */

/* `memory_budget: scaled` is the suite's; everything else is the trainer's. */
static void read_scale_key(ms_reader *reader, const ms_node *node, ms_scale *scale) {
  if (strcmp(node->key, "memory_budget") == 0) {
    char word[MS_NAME_BYTES];
    if (!ms_read_text(reader, node, "memory_budget", word, sizeof word)) return;
    if (strcmp(word, "scaled") != 0) {
      ms_fault(reader, node->place, "memory_budget: '%s' is not the word scaled; a number is memory_budget_mib", word);
      return;
    }
    scale->memory.scaled = true;
    scale->memory.scaled_place = node->place;
  } else if (strcmp(node->key, "model") == 0) {
    ms_fault(reader, node->key_place, "model: stands beside set, not in it (trainer: {model: ..., set: {...}})");
  } else if (ms_read_setting(reader, node, &scale->set.item[scale->set.count])) {
    scale->set.count += 1;
  }
}

static void read_set(ms_reader *reader, const ms_node *node, void *out) {
  ms_scale *scale = out;
  if (!ms_expect(reader, node, MS_NODE_MAP, "set")) return;
  if (!ms_read_array(reader, node, sizeof *scale->set.item, &scale->set.item)) return;
  for (const ms_node *child = node->first; child != NULL; child = child->next) {
    if (!child->bad) read_scale_key(reader, child, scale);
  }
}

static void read_trainer(ms_reader *reader, const ms_node *node, void *out) {
  ms_scale *scale = out;
  const ms_field fields[] = {MS_NAME(ms_scale, model, true), MS_CUSTOM("set", false, read_set)};
  ms_schema_read(reader, node, "trainer", fields, 2, out);
  const ms_node *model = node->kind == MS_NODE_MAP ? ms_yaml_child(node, "model") : NULL;
  scale->model_place = model != NULL ? model->place : node->place;
}

/* ---- factors ---- */

static void read_levels(ms_reader *reader, const ms_node *node, ms_factor_levels *out) {
  out->place = node->key_place;
  if (!ms_expect(reader, node, MS_NODE_LIST, node->key)) return;
  if (node->count == 0) ms_fault(reader, node->place, "%s: has no levels", node->key);
  if (!ms_read_array(reader, node, sizeof *out->level, &out->level)) return;
  if (!ms_read_array(reader, node, sizeof *out->level_place, &out->level_place)) return;
  for (const ms_node *child = node->first; child != NULL; child = child->next) {
    if (child->bad || !ms_read_name(reader, child, node->key, out->level[out->count], MS_NAME_BYTES)) continue;
    if (ms_levels_contain(out, child->text)) {
      ms_fault(reader, child->place, "%s: level '%s' stands twice", node->key, child->text);
      continue;
    }
    out->level_place[out->count++] = child->place;
  }
}

static void read_factors(ms_reader *reader, const ms_node *node, void *out) {
  ms_scale *scale = out;
  if (!ms_expect(reader, node, MS_NODE_MAP, "factors")) return;
  for (const ms_node *child = node->first; child != NULL; child = child->next) {
    if (child->bad) continue;
    if (scale->n_levels == MS_MAX_FACTORS || strlen(child->key) >= MS_NAME_BYTES) {
      ms_fault(reader, child->key_place, "factors: more than %d, or a name that is too long", MS_MAX_FACTORS);
      return;
    }
    ms_factor_levels *levels = &scale->levels[scale->n_levels++];
    strcpy(levels->factor, child->key);
    read_levels(reader, child, levels);
  }
}

static bool read_case_level(ms_reader *reader, const ms_node *node, ms_case_level *out) {
  out->place = node->place;
  if (strlen(node->key) >= sizeof out->factor) return false;
  strcpy(out->factor, node->key);
  return ms_read_name(reader, node, node->key, out->level, sizeof out->level);
}

static void read_memory_reference(ms_reader *reader, const ms_node *node, void *out) {
  ms_scale *scale = out;
  scale->memory.place = node->place;
  if (!ms_expect(reader, node, MS_NODE_MAP, "memory_reference")) return;
  for (const ms_node *child = node->first; child != NULL; child = child->next) {
    if (child->bad || scale->memory.n_of == MS_MAX_FACTORS) continue;
    if (read_case_level(reader, child, &scale->memory.of[scale->memory.n_of])) scale->memory.n_of += 1;
  }
}

/* ---- exclude, expect_fail ---- */

static void read_exclude_when(ms_reader *reader, const ms_node *node, void *out) {
  read_condition(reader, node, &((ms_exclude *)out)->when);
}

static bool read_exclude(ms_reader *reader, const ms_node *node, void *out) {
  const ms_field fields[] = {MS_CUSTOM("when", true, read_exclude_when), MS_TEXT(ms_exclude, reason, true)};
  ms_schema_read(reader, node, "exclude", fields, 2, out);
  return ((ms_exclude *)out)->when.text[0] != '\0';
}

static void read_excludes(ms_reader *reader, const ms_node *node, void *out) {
  ms_scale *scale = out;
  ms_read_items(reader, node, MS_NODE_LIST, "exclude", sizeof(ms_exclude), read_exclude, &scale->exclude,
                &scale->n_exclude);
}

static void read_expect_when(ms_reader *reader, const ms_node *node, void *out) {
  read_condition(reader, node, &((ms_expect_fail *)out)->when);
}

static bool read_expect(ms_reader *reader, const ms_node *node, void *out) {
  const ms_field fields[] = {MS_CUSTOM("when", true, read_expect_when), MS_WORD(ms_expect_fail, status, true, FAILURES),
                             MS_TEXT(ms_expect_fail, reason, true)};
  ms_schema_read(reader, node, "expect_fail", fields, 3, out);
  return ((ms_expect_fail *)out)->when.text[0] != '\0';
}

static void read_expects(ms_reader *reader, const ms_node *node, void *out) {
  ms_scale *scale = out;
  ms_read_items(reader, node, MS_NODE_LIST, "expect_fail", sizeof(ms_expect_fail), read_expect, &scale->expect_fail,
                &scale->n_expect_fail);
}

/* ---- measure ---- */

static void read_measure(ms_reader *reader, const ms_node *node, void *out) {
  ms_measure *measure = &((ms_scale *)out)->measure;
  const ms_field fields[] = {
      MS_INT(ms_measure, warmup_steps, true, 0, 1e6), MS_INT(ms_measure, steps, true, 1, 1e9),
      MS_INT(ms_measure, launches, true, 1, 1000),    MS_WORD(ms_measure, order, false, ORDERS),
      MS_WORD(ms_measure, stat, false, STATS),        MS_NUMBER(ms_measure, timeout_s, false, 0.1, 1e7),
      MS_WORD(ms_measure, seeds, false, SEEDS)};
  ms_schema_read(reader, node, "measure", fields, 7, measure);
}

/* ---- predict, accept, not_testable, published_case: maps from a claim or level ---- */

static bool read_claim_key(ms_reader *reader, const ms_node *node, char id[MS_NAME_BYTES], ms_place *place) {
  *place = node->key_place;
  if (ms_name_is_plain(node->key) && strlen(node->key) < MS_NAME_BYTES) {
    strcpy(id, node->key);
    return true;
  }
  ms_fault(reader, node->key_place, "'%.60s' is no name", node->key);
  return false;
}

static bool read_prediction(ms_reader *reader, const ms_node *node, void *out) {
  ms_prediction *p = out;
  return read_claim_key(reader, node, p->claim, &p->place) &&
         ms_read_number(reader, node, node->key, false, -HUGE_VAL, HUGE_VAL, &p->value);
}

static void read_predict(ms_reader *reader, const ms_node *node, void *out) {
  ms_scale *scale = out;
  ms_read_items(reader, node, MS_NODE_MAP, "predict", sizeof(ms_prediction), read_prediction, &scale->predict,
                &scale->n_predict);
}

/* Cuts " by seed" off a text. */
static bool cut_by_seed(char *text) {
  static const char ending[] = " by seed";
  size_t length = strlen(text), cut = sizeof ending - 1;
  if (length < cut || strcmp(text + length - cut, ending) != 0) return false;
  text[length - cut] = '\0';
  return true;
}

static bool read_bound(ms_reader *reader, const ms_node *node, void *out) {
  ms_bound *bound = out;
  char text[MS_NAME_BYTES];
  if (!read_claim_key(reader, node, bound->claim, &bound->place)) return false;
  if (!ms_read_text(reader, node, node->key, text, sizeof text)) return false;
  bool within = strncmp(text, "+-", 2) == 0; /* equal within a margin */
  bound->by_seed = within && cut_by_seed(text);
  size_t length = within ? 2 : strspn(text, "<>=");
  const char *number = text + length + strspn(text + length, " ");
  bool legal = within || (length == 1 ? text[0] != '=' : length == 2 && text[0] != '=' && text[1] == '=');
  ms_node value = *node;
  value.text = (char *)number;
  if (!legal) {
    ms_fault(reader, node->place,
             "%s: '%s' is no bound such as \">= 0.9\" (with <, <=, > or >=), \"+- 0.02\" or \"+- 0.02 by seed\"",
             node->key, text);
    return false;
  }
  memcpy(bound->op, text, length);
  bound->op[length] = '\0';
  return ms_read_number(reader, &value, node->key, false, within ? 0 : -HUGE_VAL, HUGE_VAL, &bound->value);
}

static void read_accept(ms_reader *reader, const ms_node *node, void *out) {
  ms_scale *scale = out;
  ms_read_items(reader, node, MS_NODE_MAP, "accept", sizeof(ms_bound), read_bound, &scale->accept, &scale->n_accept);
}

static bool read_untestable(ms_reader *reader, const ms_node *node, void *out) {
  ms_not_testable *item = out;
  return read_claim_key(reader, node, item->claim, &item->place) &&
         ms_read_text(reader, node, node->key, item->reason, sizeof item->reason);
}

static void read_not_testable(ms_reader *reader, const ms_node *node, void *out) {
  ms_scale *scale = out;
  ms_read_items(reader, node, MS_NODE_MAP, "not_testable", sizeof(ms_not_testable), read_untestable,
                &scale->not_testable, &scale->n_not_testable);
}

static void read_published_case(ms_reader *reader, const ms_node *node, void *out) {
  ms_scale *scale = out;
  if (!ms_expect(reader, node, MS_NODE_MAP, "published_case")) return;
  for (const ms_node *child = node->first; child != NULL; child = child->next) {
    if (scale->n_published_case == MS_MAX_PUBLISHED_CASES) {
      ms_fault(reader, child->key_place, "published_case: more than %d entries", MS_MAX_PUBLISHED_CASES);
      return;
    }
    ms_published_case *item = &scale->published_case[scale->n_published_case];
    if (child->bad || !read_claim_key(reader, child, item->level, &item->place)) continue;
    if (ms_read_name(reader, child, child->key, item->published, sizeof item->published)) scale->n_published_case += 1;
  }
}

/* ---- the scale ---- */

/* The levels that a scale defines go into the study's list: ms_read_scales. */
static void read_later(ms_reader *reader, const ms_node *node, void *out) {
  (void)reader;
  (void)node;
  (void)out;
}

static bool read_scale(ms_reader *reader, const ms_node *node, void *out) {
  static const char *const NAMES[] = {"smoke", "local", "published"};
  ms_scale *scale = out;
  const char *best = "";
  int distance = -1;
  for (int i = 0; i < 3; i++)
    ms_nearest(node->key, NAMES[i], &best, &distance);
  if (distance != 0) {
    ms_fault(reader, node->key_place, "unknown scale '%.60s'; the nearest is '%s'", node->key, best);
    return false;
  }
  strcpy(scale->name, node->key);
  scale->place = node->key_place;
  strcpy(scale->measure.order, ORDERS[0]);
  strcpy(scale->measure.stat, STATS[0]);
  scale->measure.timeout_s = 600;
  const ms_field fields[] = {
      MS_CUSTOM("trainer", true, read_trainer),
      MS_NAME(ms_scale, system, false),
      MS_CUSTOM("define", false, read_later),
      MS_CUSTOM("factors", true, read_factors),
      MS_CUSTOM("exclude", false, read_excludes),
      MS_CUSTOM("expect_fail", false, read_expects),
      MS_CUSTOM("measure", true, read_measure),
      MS_CUSTOM("predict", false, read_predict),
      MS_CUSTOM("accept", false, read_accept),
      MS_CUSTOM("not_testable", false, read_not_testable),
      MS_CUSTOM("published_case", false, read_published_case),
      MS_CUSTOM("memory_reference", false, read_memory_reference),
  };
  ms_schema_read(reader, node, node->key, fields, sizeof fields / sizeof fields[0], scale);
  return true;
}

void ms_read_scales(ms_reader *reader, const ms_node *node, void *out) {
  ms_study *study = out;
  ms_read_items(reader, node, MS_NODE_MAP, "scales", sizeof(ms_scale), read_scale, &study->scales, &study->n_scales);
  for (int i = 0; i < study->n_scales; i++) {
    const ms_node *define = ms_yaml_child(ms_yaml_child(node, study->scales[i].name), "define");
    if (define != NULL && !define->bad) ms_read_define_of(reader, define, study->scales[i].name, study);
  }
}
