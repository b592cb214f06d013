/* A flat file: keys of the trainer's model group, the source, and counts. Counts stand flat, or as a list `counts` with
 * one row per number of experts where one file serves several. */
#include "suite/models/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "suite/models/counts.h"
#include "suite/study/schema.h"

/* Counts of one row; 0 = not stated. Rounded numbers as printed by the source, exact ones to the digit. */
typedef struct counts_row {
  int64_t experts, seq_len;
  double params_total, params_active;
  int64_t params_total_no_norms, params_active_no_norms, params_total_with_norms, params_active_with_norms;
  int64_t flop_token_olmo_core_3_ddp, flop_token_full_attention, flop_token_megatron_lm, flop_token_torchtitan;
} counts_row;

#define MOST 9.0e15 /* below 2^53 */
#define COUNT(member, must) MS_INT(counts_row, member, must, 1, MOST)

static const ms_field COUNT_FIELDS[] = {
    COUNT(experts, false),
    COUNT(seq_len, true),
    MS_NUMBER(counts_row, params_total, false, 1, MOST),
    MS_NUMBER(counts_row, params_active, false, 1, MOST),
    COUNT(params_total_no_norms, true),
    COUNT(params_active_no_norms, true),
    COUNT(params_total_with_norms, false),
    COUNT(params_active_with_norms, false),
    COUNT(flop_token_olmo_core_3_ddp, true),
    COUNT(flop_token_full_attention, false),
    COUNT(flop_token_megatron_lm, false),
    COUNT(flop_token_torchtitan, false),
};
enum { N_COUNT_FIELDS = sizeof COUNT_FIELDS / sizeof COUNT_FIELDS[0] };

/* Printed digits of a rounded count: 4.580e9 is right to half of its last digit, at most this share. */
#define ROUNDING 5.0e-4

static void compare(ms_reader *r, const ms_node *map, const char *key, int64_t file, int64_t ours) {
  if (file == 0 || file == ours) return;
  const ms_node *node = ms_yaml_child(map, key);
  ms_fault(r, node != NULL ? node->place : map->place, "%s: the file says %lld, the dimensions give %lld", key,
           (long long)file, (long long)ours);
}

static void compare_rounded(ms_reader *r, const ms_node *map, const char *key, double file, int64_t ours) {
  if (file == 0 || fabs(file / (double)ours - 1) <= ROUNDING) return;
  compare(r, map, key, (int64_t)file, ours);
}

static void check_counts(ms_reader *r, const ms_node *map, const counts_row *row, const mt_config *model) {
  mt_config c = *model;
  if (row->experts != 0) c.experts = row->experts;
  c.seq_len = row->seq_len;
  compare_rounded(r, map, "params_total", row->params_total, ms_count_params_total(&c, false));
  compare_rounded(r, map, "params_active", row->params_active, ms_count_params_active(&c, false));
  compare(r, map, "params_total_no_norms", row->params_total_no_norms, ms_count_params_total(&c, false));
  compare(r, map, "params_active_no_norms", row->params_active_no_norms, ms_count_params_active(&c, false));
  compare(r, map, "params_total_with_norms", row->params_total_with_norms, ms_count_params_total(&c, true));
  compare(r, map, "params_active_with_norms", row->params_active_with_norms, ms_count_params_active(&c, true));
  compare(r, map, "flop_token_olmo_core_3_ddp", row->flop_token_olmo_core_3_ddp,
          ms_flops_token(&c, MS_FLOPS_OLMO_CORE_3_DDP));
  compare(r, map, "flop_token_full_attention", row->flop_token_full_attention,
          ms_flops_token(&c, MS_FLOPS_FULL_ATTENTION));
  compare(r, map, "flop_token_megatron_lm", row->flop_token_megatron_lm, ms_flops_token(&c, MS_FLOPS_MEGATRON_LM));
  compare(r, map, "flop_token_torchtitan", row->flop_token_torchtitan, ms_flops_token(&c, MS_FLOPS_TORCHTITAN));
}

/* ---- reading ---- */

typedef struct reading {
  ms_reader *reader;
  mt_config config;
  counts_row flat;
  const ms_node *root;
} reading;

static void read_name(ms_reader *r, const ms_node *node, mt_config *cfg) {
  const char *base = strrchr(r->path, '/');
  char want[MS_PATH_BYTES];
  if (!ms_read_name(r, node, "name", cfg->model, sizeof cfg->model)) return;
  snprintf(want, sizeof want, "%s.yaml", cfg->model);
  if (strcmp(base == NULL ? r->path : base + 1, want) != 0) {
    ms_fault(r, node->place, "name: '%.60s' is not the name of its file", cfg->model);
  }
}

static void read_model_key(ms_reader *r, const ms_node *node, mt_config *cfg) {
  if (!ms_expect(r, node, MS_NODE_TEXT, node->key)) return;
  if (mt_config_set(r->ctx, cfg, node->key, node->text) == MK_OK) return;
  ms_fault(r, node->place, "%s", r->ctx->error.message);
  mk_error_clear(r->ctx);
}

static bool is_model_key(const mt_key *key) {
  return key != NULL && key->group == MT_KEYS_MODEL && strcmp(key->name, "model") != 0;
}

static const ms_field *count_field(const char *name) {
  for (int i = 0; i < N_COUNT_FIELDS; i++) {
    if (strcmp(COUNT_FIELDS[i].name, name) == 0) return &COUNT_FIELDS[i];
  }
  return NULL;
}

static void unknown_key(ms_reader *r, const ms_node *node) {
  static const char *const OTHERS[] = {"schema", "name", "source", "counts"};
  const char *best = "";
  int distance = -1;
  size_t n_keys = 0;
  const mt_key *keys = mt_config_keys(&n_keys);
  for (size_t i = 0; i < n_keys; i++) {
    if (is_model_key(&keys[i])) ms_nearest(node->key, keys[i].name, &best, &distance);
  }
  for (int i = 0; i < N_COUNT_FIELDS; i++)
    ms_nearest(node->key, COUNT_FIELDS[i].name, &best, &distance);
  for (int i = 0; i < 4; i++)
    ms_nearest(node->key, OTHERS[i], &best, &distance);
  ms_fault(r, node->key_place, "unknown key '%.60s' in a model; the nearest is '%s'", node->key, best);
}

static void read_key(reading *m, const ms_node *node) {
  ms_reader *r = m->reader;
  char text[MT_TEXT_BYTES];
  if (strcmp(node->key, "schema") == 0) {
    if (ms_read_text(r, node, "schema", text, sizeof text) && strcmp(text, "moemark/model/2") != 0) {
      ms_fault(r, node->place, "schema: '%.60s' is not moemark/model/2", text);
    }
  } else if (strcmp(node->key, "source") == 0) {
    ms_read_text(r, node, "source", text, sizeof text);
  } else if (strcmp(node->key, "name") == 0) {
    read_name(r, node, &m->config);
  } else if (is_model_key(mt_config_key_find(node->key))) {
    read_model_key(r, node, &m->config);
  } else if (count_field(node->key) == NULL && strcmp(node->key, "counts") != 0) {
    unknown_key(r, node);
  }
}

static void need(ms_reader *r, const ms_node *root, const char *key) {
  if (ms_yaml_child(root, key) == NULL) ms_fault(r, root->place, "a model: mandatory key '%s' is missing", key);
}

static void need_keys(ms_reader *r, const ms_node *root) {
  size_t n_keys = 0;
  const mt_key *keys = mt_config_keys(&n_keys);
  need(r, root, "schema");
  need(r, root, "name");
  need(r, root, "source");
  for (size_t i = 0; i < n_keys; i++) {
    if (is_model_key(&keys[i])) need(r, root, keys[i].name);
  }
}

/* A map with the counts among other keys: only those are looked at. */
static void read_flat_counts(ms_reader *r, const ms_node *root, const mt_config *cfg) {
  counts_row row = {0};
  ms_node counts = {.kind = MS_NODE_MAP, .place = root->place};
  ms_node copies[N_COUNT_FIELDS];
  for (int i = 0; i < N_COUNT_FIELDS; i++) {
    const ms_node *node = ms_yaml_child(root, COUNT_FIELDS[i].name);
    if (node == NULL || strcmp(node->key, "experts") == 0) continue;
    copies[counts.count] = *node;
    copies[counts.count].next = counts.first;
    counts.first = &copies[counts.count++];
  }
  ms_schema_read(r, &counts, "a model", COUNT_FIELDS, N_COUNT_FIELDS, &row);
  if (r->diag->count == 0) check_counts(r, root, &row, cfg);
}

static void read_counts(ms_reader *r, const ms_node *root, const mt_config *cfg) {
  const ms_node *list = ms_yaml_child(root, "counts");
  if (list == NULL) {
    read_flat_counts(r, root, cfg);
    return;
  }
  if (!ms_expect(r, list, MS_NODE_LIST, "counts")) return;
  for (const ms_node *map = list->first; map != NULL; map = map->next) {
    counts_row row = {0};
    int before = r->diag->count;
    ms_schema_read(r, map, "counts", COUNT_FIELDS, N_COUNT_FIELDS, &row);
    if (r->diag->count == before && row.seq_len > 0) check_counts(r, map, &row, cfg);
  }
}

static void read_model(reading *m) {
  ms_reader *r = m->reader;
  if (!ms_expect(r, m->root, MS_NODE_MAP, "a model")) return;
  for (const ms_node *node = m->root->first; node != NULL; node = node->next) {
    if (!node->bad) read_key(m, node);
  }
  need_keys(r, m->root);
  if (r->st == MK_OK && r->diag->count == 0) read_counts(r, m->root, &m->config);
}

mk_status ms_model_find(mk_context *ctx, const char *name, char path[MS_PATH_BYTES]) {
  char relative[MT_TEXT_BYTES + 32];
  MK_CHECK(ctx, ms_name_is_plain(name) && strlen(name) < MT_TEXT_BYTES, MK_ERR_CONFIG, "'%.60s' is no name of a model",
           name);
  snprintf(relative, sizeof relative, "suite/models/%s.yaml", name);
  return ms_path_find(ctx, NULL, relative, path);
}

mk_status ms_model_load(mk_context *ctx, const char *path, ms_diagnostics *diag, mt_config *cfg) {
  ms_diagnostics own = {0};
  ms_node *root = NULL;
  ms_reader reader = {.ctx = ctx, .path = path, .diag = &own};
  reading m = {.reader = &reader, .config = *cfg};
  mk_status st = ms_yaml_read(ctx, path, &own, &root);
  if (st == MK_OK && root != NULL) {
    m.root = root;
    read_model(&m);
    st = reader.st;
  }
  ms_yaml_destroy(ctx, root);
  if (st == MK_OK && own.count > 0) {
    st = MK_FAIL(ctx, MK_ERR_CONFIG, "%.500s: %d fault%s", path, own.count, own.count == 1 ? "" : "s");
  }
  mk_status moved = ms_diagnostics_move(ctx, &own, diag);
  if (st == MK_OK) st = moved;
  if (st == MK_OK) *cfg = m.config;
  return st;
}
