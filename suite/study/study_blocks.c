/* The blocks that all scales share. */
#include <math.h>
#include <string.h>

#include "suite/study/study_read.h"

static const char *const BETTER[] = {"higher", "lower", NULL};
static const char *const FACTOR_TYPES[] = {"int", "level", NULL};
static const char *const CHECKS[] = {"loss_finite", "params_total", "rank_agreement", "drop_rate", NULL};

/* Name from a map's key. */
static bool read_key_name(ms_reader *reader, const ms_node *node, const char *what, char name[MS_NAME_BYTES]) {
  if (ms_name_is_plain(node->key) && strlen(node->key) < MS_NAME_BYTES) {
    strcpy(name, node->key);
    return true;
  }
  ms_fault(reader, node->key_place, "'%.60s' is no name of a %s (letters, digits, '_', '-' and, inside, '.')",
           node->key, what);
  return false;
}

void ms_read_source(ms_reader *reader, const ms_node *node, void *out) {
  const ms_field fields[] = {MS_NAME(ms_study, cite, true), MS_TEXT(ms_study, where, true),
                             MS_TEXT(ms_study, url, false)};
  ms_schema_read(reader, node, "source", fields, 3, out);
}

void ms_read_tags(ms_reader *reader, const ms_node *node, void *out) {
  ms_study *study = out;
  if (!ms_expect(reader, node, MS_NODE_LIST, "tags")) return;
  for (const ms_node *child = node->first; child != NULL; child = child->next) {
    if (study->n_tags == MS_MAX_TAGS) {
      ms_fault(reader, child->place, "tags: more than %d", MS_MAX_TAGS);
      return;
    }
    if (child->bad || !ms_read_name(reader, child, "tags", study->tags[study->n_tags], MS_NAME_BYTES)) continue;
    study->n_tags += 1;
  }
}

/* ---- factors ---- */

typedef struct factor_words {
  char type[MS_NAME_BYTES];
} factor_words;

void ms_read_factors(ms_reader *reader, const ms_node *node, void *out) {
  ms_study *study = out;
  if (!ms_expect(reader, node, MS_NODE_MAP, "factors")) return;
  for (const ms_node *child = node->first; child != NULL; child = child->next) {
    if (study->n_factors == MS_MAX_FACTORS) {
      ms_fault(reader, child->key_place, "factors: more than %d", MS_MAX_FACTORS);
      return;
    }
    ms_factor *factor = &study->factors[study->n_factors];
    factor_words words = {""};
    const ms_field fields[] = {MS_WORD(factor_words, type, true, FACTOR_TYPES)};
    if (child->bad || !read_key_name(reader, child, "factor", factor->name)) continue;
    ms_schema_read(reader, child, child->key, fields, 1, &words);
    factor->type = strcmp(words.type, "int") == 0 ? MS_FACTOR_INT : MS_FACTOR_LEVEL;
    if (words.type[0] == '\0') factor->type = MS_FACTOR_BROKEN;
    factor->place = child->key_place;
    study->n_factors += 1;
  }
}

/* ---- metrics ---- */

typedef struct metric_words {
  ms_metric_use use;
  char better[MS_NAME_BYTES];
} metric_words;

static bool read_metric(ms_reader *reader, const ms_node *node, void *out) {
  metric_words w = {0};
  w.use.place = node->key_place;
  if (!read_key_name(reader, node, "metric", w.use.name)) return false;
  const ms_field fields[] = {
      {"unit", MS_FIELD_TEXT, true, offsetof(metric_words, use.unit), sizeof w.use.unit, 0, 0, NULL, NULL},
      {"deterministic", MS_FIELD_BOOL, false, offsetof(metric_words, use.deterministic), 0, 0, 0, NULL, NULL},
      {"gate", MS_FIELD_BOOL, false, offsetof(metric_words, use.gate), 0, 0, 0, NULL, NULL},
      {"delta", MS_FIELD_NUMBER, false, offsetof(metric_words, use.delta), 0, 0, 1, NULL, NULL},
      MS_WORD(metric_words, better, false, BETTER)};
  ms_schema_read(reader, node, node->key, fields, 5, &w);
  if (node->kind == MS_NODE_MAP && ms_yaml_child(node, "better") == NULL && !w.use.deterministic) {
    ms_fault(reader, node->key_place, "%s: mandatory key 'better' is missing (higher or lower)", node->key);
  }
  w.use.has_better = w.better[0] != '\0';
  w.use.lower_is_better = strcmp(w.better, "lower") == 0;
  memcpy(out, &w.use, sizeof w.use);
  return true;
}

void ms_read_metrics(ms_reader *reader, const ms_node *node, void *out) {
  ms_study *study = out;
  ms_read_items(reader, node, MS_NODE_MAP, "metrics", sizeof(ms_metric_use), read_metric, &study->metrics,
                &study->n_metrics);
}

/* ---- sanity ---- */

static void read_max(ms_reader *reader, const ms_node *node, void *out) {
  ms_sanity *s = out;
  s->has_max = ms_read_number(reader, node, "max", false, -HUGE_VAL, HUGE_VAL, &s->max);
}

static void need_key(ms_reader *reader, const ms_node *map, const char *check, const char *key) {
  if (ms_yaml_child(map, key) == NULL) {
    ms_fault(reader, map->place, "sanity: check '%s' needs the key '%s'", check, key);
  }
}

static bool read_check(ms_reader *reader, const ms_node *node, void *out) {
  ms_sanity *s = out;
  s->place = node->place;
  const ms_field fields[] = {MS_WORD(ms_sanity, check, true, CHECKS),    MS_NAME(ms_sanity, of, false),
                             MS_NAME(ms_sanity, equals, false),          MS_NUMBER(ms_sanity, rel, false, 0, 1),
                             MS_NUMBER(ms_sanity, abs, false, 0, 1e300), MS_CUSTOM("max", false, read_max)};
  ms_schema_read(reader, node, "sanity", fields, 6, s);
  if (s->check[0] == '\0') return false;
  if (strcmp(s->check, "params_total") == 0) need_key(reader, node, s->check, "equals");
  if (strcmp(s->check, "rank_agreement") == 0) need_key(reader, node, s->check, "of");
  if (strcmp(s->check, "drop_rate") == 0) need_key(reader, node, s->check, "max");
  return true;
}

void ms_read_sanity(ms_reader *reader, const ms_node *node, void *out) {
  ms_study *study = out;
  ms_read_items(reader, node, MS_NODE_LIST, "sanity", sizeof(ms_sanity), read_check, &study->sanity, &study->n_sanity);
}

/* ---- contrasts, claims ---- */

static bool read_contrast(ms_reader *reader, const ms_node *node, void *out) {
  ms_contrast *c = out;
  c->place = node->place;
  const ms_field fields[] = {MS_NAME(ms_contrast, id, true), MS_NAME(ms_contrast, factor, true),
                             MS_NAME(ms_contrast, base, true), MS_NAME(ms_contrast, within, false),
                             MS_NAME(ms_contrast, metric, true)};
  ms_schema_read(reader, node, "contrast", fields, 5, c);
  return c->id[0] != '\0' && c->factor[0] != '\0' && c->base[0] != '\0' && c->metric[0] != '\0';
}

void ms_read_contrasts(ms_reader *reader, const ms_node *node, void *out) {
  ms_study *study = out;
  ms_read_items(reader, node, MS_NODE_LIST, "contrasts", sizeof(ms_contrast), read_contrast, &study->contrasts,
                &study->n_contrasts);
}

static void read_expr(ms_reader *reader, const ms_node *node, void *out) {
  ms_claim *claim = out;
  claim->expr_place = node->text_place;
  ms_read_text(reader, node, "expr", claim->expr, sizeof claim->expr);
}

static bool read_claim(ms_reader *reader, const ms_node *node, void *out) {
  ms_claim *claim = out;
  claim->place = node->place;
  claim->published = NAN;
  const ms_field fields[] = {MS_NAME(ms_claim, id, true), MS_TEXT(ms_claim, says, true),
                             MS_NUMBER(ms_claim, published, false, -HUGE_VAL, HUGE_VAL),
                             MS_CUSTOM("expr", true, read_expr)};
  ms_schema_read(reader, node, "claim", fields, 4, claim);
  return claim->id[0] != '\0';
}

void ms_read_claims(ms_reader *reader, const ms_node *node, void *out) {
  ms_study *study = out;
  ms_read_items(reader, node, MS_NODE_LIST, "claims", sizeof(ms_claim), read_claim, &study->claims, &study->n_claims);
}

/* ---- published, baseline, budget ---- */

static void read_published_file(ms_reader *reader, const ms_node *node, void *out) {
  ms_study *study = out;
  char name[MS_LINE_BYTES];
  if (!ms_read_text(reader, node, "file", name, sizeof name)) return;
  if (ms_path_find(reader->ctx, study->folder, name, study->published_file) == MK_OK) return;
  study->published_file[0] = '\0';
  ms_fault(reader, node->place, "%s", reader->ctx->error.message);
  mk_error_clear(reader->ctx);
}

void ms_read_published(ms_reader *reader, const ms_node *node, void *out) {
  const ms_field fields[] = {
      MS_CUSTOM("file", true, read_published_file),
      {"tolerance", MS_FIELD_NUMBER, true, offsetof(ms_study, published_tolerance), 0, 0, 1, NULL, NULL}};
  ms_schema_read(reader, node, "published", fields, 2, out);
}

void ms_read_baseline(ms_reader *reader, const ms_node *node, void *out) {
  const ms_field fields[] = {
      {"require", MS_FIELD_BOOL, false, offsetof(ms_study, baseline_require), 0, 0, 0, NULL, NULL},
      {"max_age_days", MS_FIELD_INT, false, offsetof(ms_study, baseline_max_age_days), 0, 1, 36500, NULL, NULL}};
  ms_schema_read(reader, node, "baseline", fields, 2, out);
}

void ms_read_budget(ms_reader *reader, const ms_node *node, void *out) {
  const ms_field fields[] = {
      {"gpu_minutes", MS_FIELD_NUMBER, true, offsetof(ms_study, budget_gpu_minutes), 0, 0, 1e12, NULL, NULL}};
  ms_schema_read(reader, node, "budget", fields, 1, out);
}
