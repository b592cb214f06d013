/* The top of a study file, its destruction and look-ups by name. */
#include "suite/study/study.h"

#include <string.h>

#include "kernels/base/heap.h"
#include "suite/study/study_read.h"

static void read_schema(ms_reader *reader, const ms_node *node, void *out) {
  (void)out;
  char schema[MS_NAME_BYTES];
  if (!ms_read_text(reader, node, "schema", schema, sizeof schema)) return;
  if (strcmp(schema, "moemark/study/1") != 0) {
    ms_fault(reader, node->place, "schema: '%s' is not moemark/study/1", schema);
  }
}

/* id = folder name, so that a study is found by it; files of another name (tests, drafts) may stand anywhere. */
static void read_id(ms_reader *reader, const ms_node *node, void *out) {
  ms_study *study = out;
  char folder[MS_PATH_BYTES];
  if (!ms_read_text(reader, node, "id", study->id, sizeof study->id)) return;
  if (strspn(study->id, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(study->id)) {
    ms_fault(reader, node->place, "id: '%s' may hold lower-case letters, digits and '-' only", study->id);
    return;
  }
  const char *base = strrchr(study->path, '/');
  const char *above = strrchr(study->folder, '/');
  strcpy(folder, above == NULL ? study->folder : above + 1);
  bool is_study_file = base != NULL && strcmp(base + 1, "study.yaml") == 0;
  if (is_study_file && folder[0] != '.' && strcmp(folder, study->id) != 0) {
    ms_fault(reader, node->place, "id: '%s' is not the name of its folder, '%.200s'", study->id, folder);
  }
}

static void read_top(ms_reader *reader, const ms_node *root, ms_study *study) {
  const ms_field fields[] = {
      MS_CUSTOM("schema", true, read_schema),
      MS_CUSTOM("id", true, read_id),
      MS_TEXT(ms_study, title, true),
      MS_CUSTOM("source", true, ms_read_source),
      MS_CUSTOM("tags", false, ms_read_tags),
      MS_CUSTOM("factors", true, ms_read_factors),
      MS_CUSTOM("define", false, ms_read_define),
      MS_CUSTOM("scales", true, ms_read_scales),
      MS_CUSTOM("metrics", true, ms_read_metrics),
      MS_CUSTOM("sanity", true, ms_read_sanity),
      MS_CUSTOM("contrasts", false, ms_read_contrasts),
      MS_CUSTOM("claims", false, ms_read_claims),
      MS_CUSTOM("published", false, ms_read_published),
      MS_CUSTOM("baseline", false, ms_read_baseline),
      MS_CUSTOM("budget", false, ms_read_budget),
  };
  ms_schema_read(reader, root, "a study", fields, sizeof fields / sizeof fields[0], study);
}

static mk_status read_tree(mk_context *ctx, ms_diagnostics *diag, ms_study *study) {
  ms_node *root = NULL;
  MK_TRY(ctx, ms_yaml_read(ctx, study->path, diag, &root));
  if (root == NULL) return MK_OK;
  ms_reader reader = {.ctx = ctx, .path = study->path, .diag = diag};
  read_top(&reader, root, study);
  if (reader.st == MK_OK && root->kind == MS_NODE_MAP) ms_check_study(&reader, study);
  ms_yaml_destroy(ctx, root);
  return reader.st;
}

mk_status ms_study_read(mk_context *ctx, const char *path, ms_diagnostics *diag, ms_study **out) {
  mk_status st = MK_OK;
  ms_study *study = NULL;
  int before = diag->count;
  MK_CHECK(ctx, strlen(path) < MS_PATH_BYTES, MK_ERR_CONFIG, "the path %.200s... is too long", path);
  MK_TRY_GOTO(ctx, mk_heap_alloc(ctx, sizeof *study, &study), out);
  strcpy(study->path, path);
  ms_path_folder(path, study->folder);
  study->baseline_max_age_days = 90;
  MK_TRY_GOTO(ctx, read_tree(ctx, diag, study), out);
  MK_CHECK_GOTO(ctx, diag->count == before, MK_ERR_CONFIG, out, "%.500s: %d fault%s", path, diag->count - before,
                diag->count - before == 1 ? "" : "s");
  MK_TRY_GOTO(ctx, mk_hash_file(ctx, path, study->sha256), out);
  *out = study;
  study = NULL;
out:
  ms_study_destroy(ctx, study);
  return st;
}

static void destroy_scale(mk_context *ctx, ms_scale *scale) {
  mk_heap_free(ctx, scale->set.item);
  for (int i = 0; i < scale->n_levels; i++) {
    mk_heap_free(ctx, scale->levels[i].level);
    mk_heap_free(ctx, scale->levels[i].level_place);
  }
  mk_heap_free(ctx, scale->exclude);
  mk_heap_free(ctx, scale->expect_fail);
  mk_heap_free(ctx, scale->predict);
  mk_heap_free(ctx, scale->accept);
  mk_heap_free(ctx, scale->not_testable);
}

void ms_study_destroy(mk_context *ctx, ms_study *study) {
  if (study == NULL) return;
  for (int i = 0; i < study->n_level_defs; i++)
    mk_heap_free(ctx, study->levels[i].set.item);
  mk_heap_free(ctx, study->levels);
  for (int i = 0; i < study->n_scales; i++)
    destroy_scale(ctx, &study->scales[i]);
  mk_heap_free(ctx, study->scales);
  mk_heap_free(ctx, study->metrics);
  mk_heap_free(ctx, study->sanity);
  mk_heap_free(ctx, study->contrasts);
  mk_heap_free(ctx, study->claims);
  mk_heap_free(ctx, study);
}

const ms_scale *ms_study_scale_find(const ms_study *study, const char *name) {
  for (int i = 0; i < study->n_scales; i++) {
    if (strcmp(study->scales[i].name, name) == 0) return &study->scales[i];
  }
  return NULL;
}

int ms_study_factor_find(const ms_study *study, const char *name) {
  for (int i = 0; i < study->n_factors; i++) {
    if (strcmp(study->factors[i].name, name) == 0) return i;
  }
  return -1;
}

const ms_level *ms_study_level_find(const ms_study *study, const char *scale, const char *factor, const char *name) {
  const ms_level *common = NULL;
  for (int i = 0; i < study->n_level_defs; i++) {
    const ms_level *level = &study->levels[i];
    if (strcmp(level->factor, factor) != 0 || strcmp(level->name, name) != 0) continue;
    if (strcmp(level->scale, scale) == 0) return level;
    if (level->scale[0] == '\0') common = level;
  }
  return common;
}

const ms_claim *ms_study_claim_find(const ms_study *study, const char *id) {
  for (int i = 0; i < study->n_claims; i++) {
    if (strcmp(study->claims[i].id, id) == 0) return &study->claims[i];
  }
  return NULL;
}

const ms_metric_use *ms_study_metric_find(const ms_study *study, const char *name) {
  for (int i = 0; i < study->n_metrics; i++) {
    if (strcmp(study->metrics[i].name, name) == 0) return &study->metrics[i];
  }
  return NULL;
}
