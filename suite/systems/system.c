/* A system is one YAML file and, where it has GPUs, one CSV file. */
#include "suite/systems/system.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "kernels/base/text.h"
#include "suite/record/csv.h"
#include "suite/study/paths.h"
#include "suite/study/schema.h"

static const char *const LAUNCHERS[] = {"local", "mpirun", "srun", "sbatch", NULL};
static const char *const BINDS[] = {"none", "core", "socket", NULL};

typedef struct match_words {
  char gpu[64];
  int64_t gpus;
  char device[64];
} match_words;

typedef struct reading {
  ms_system system;
  char gpu_file[MS_SYSTEM_TEXT_BYTES];
  ms_place gpu_place;
} reading;

static void read_schema(ms_reader *r, const ms_node *node, void *out) {
  char text[64];
  (void)out;
  if (ms_read_text(r, node, "schema", text, sizeof text) && strcmp(text, "moemark/system/1") != 0) {
    ms_fault(r, node->place, "schema: '%s' is not moemark/system/1", text);
  }
}

static void read_match(ms_reader *r, const ms_node *node, void *out) {
  static const char *const DEVICES[] = {"cpu", NULL};
  ms_system *s = &((reading *)out)->system;
  match_words w = {0};
  const ms_field fields[] = {MS_TEXT(match_words, gpu, false), MS_INT(match_words, gpus, false, 1, 1e6),
                             MS_WORD(match_words, device, false, DEVICES)};
  ms_schema_read(r, node, "match", fields, 3, &w);
  bool is_gpu = w.gpu[0] != '\0' && w.gpus > 0;
  if (is_gpu == (w.device[0] != '\0')) {
    ms_fault(r, node->place, "match: needs gpu and gpus, or device: cpu");
  }
  snprintf(s->match_gpu, sizeof s->match_gpu, "%s", w.gpu);
  s->match_gpus = w.gpus;
}

/* Numbers of the network; read in full by the simulator, checked for form here. Every value has the block's source. */
typedef struct fabric_words {
  double nics_per_gpu, latency_s, spine_oversubscription;
  int64_t leaf_down;
  char source[MS_SYSTEM_TEXT_BYTES];
} fabric_words;

static void read_fabric(ms_reader *r, const ms_node *node, void *out) {
  fabric_words w = {0};
  (void)out;
  const ms_field fields[] = {MS_NUMBER(fabric_words, nics_per_gpu, true, 0, 64),
                             MS_NUMBER(fabric_words, latency_s, false, 0, 1),
                             MS_NUMBER(fabric_words, spine_oversubscription, false, 0.01, 100),
                             MS_INT(fabric_words, leaf_down, false, 1, 4096), MS_TEXT(fabric_words, source, true)};
  ms_schema_read(r, node, "fabric", fields, 5, &w);
}

static void read_gpu(ms_reader *r, const ms_node *node, void *out) {
  reading *m = out;
  m->gpu_place = node->place;
  ms_read_text(r, node, "gpu", m->gpu_file, sizeof m->gpu_file);
}

static void read_top(ms_reader *r, const ms_node *root, reading *m) {
  const ms_field fields[] = {
      MS_CUSTOM("schema", true, read_schema),
      {"name", MS_FIELD_NAME, true, offsetof(reading, system.name), sizeof m->system.name, 0, 0, NULL, NULL},
      MS_CUSTOM("match", true, read_match),
      MS_CUSTOM("gpu", false, read_gpu),
      {"nodes", MS_FIELD_INT, true, offsetof(reading, system.nodes), 0, 1, 1e6, NULL, NULL},
      {"gpus_per_node", MS_FIELD_INT, false, offsetof(reading, system.gpus_per_node), 0, 1, 1024, NULL, NULL},
      MS_CUSTOM("fabric", false, read_fabric),
      {"launcher", MS_FIELD_WORD, true, offsetof(reading, system.launcher), 64, 0, 0, LAUNCHERS, NULL},
      {"bind", MS_FIELD_WORD, true, offsetof(reading, system.bind), 64, 0, 0, BINDS, NULL},
      {"memory_budget_gib", MS_FIELD_NUMBER, false, offsetof(reading, system.memory_budget_gib), 0, 0.01, 1e6, NULL,
       NULL},
      {"source", MS_FIELD_TEXT, true, offsetof(reading, system.source), sizeof m->system.source, 0, 0, NULL, NULL},
  };
  ms_schema_read(r, root, "a system", fields, sizeof fields / sizeof fields[0], m);
}

static void check(ms_reader *r, const ms_node *root, const reading *m, const char *name) {
  const ms_system *s = &m->system;
  if (s->name[0] != '\0' && strcmp(s->name, name) != 0) {
    ms_fault(r, root->place, "name: '%s' is not the name of its file", s->name);
  }
  if (s->match_gpus == 0) return;
  if (m->gpu_file[0] == '\0') ms_fault(r, root->place, "a system with GPUs needs the key gpu (gpus/<gpu>.csv)");
  if (s->gpus_per_node * s->nodes != s->match_gpus) {
    ms_fault(r, root->place, "nodes %lld x gpus_per_node %lld are not the %lld gpus of match", (long long)s->nodes,
             (long long)s->gpus_per_node, (long long)s->match_gpus);
  }
}

/* ---- the GPU's file ---- */

static void copy(char *to, size_t bytes, const ms_csv *csv, int64_t row, const char *column) {
  snprintf(to, bytes, "%s", ms_csv_get(csv, row, column));
}

static mk_status fill_gpu(mk_context *ctx, const char *path, const ms_csv *csv, ms_system *s) {
  static const char *const COLUMNS[] = {"key", "value", "unit", "source", "note"};
  for (int i = 0; i < 5; i++) {
    MK_CHECK(ctx, ms_csv_column(csv, COLUMNS[i]) >= 0, MK_ERR_FORMAT, "%s: has no column '%s'", path, COLUMNS[i]);
  }
  MK_TRY(ctx, mk_heap_array(ctx, (size_t)csv->n_rows, sizeof *s->gpu, &s->gpu));
  for (int64_t row = 0; row < csv->n_rows; row++) {
    ms_gpu_value *v = &s->gpu[s->n_gpu++];
    copy(v->key, sizeof v->key, csv, row, "key");
    copy(v->text, sizeof v->text, csv, row, "value");
    copy(v->unit, sizeof v->unit, csv, row, "unit");
    copy(v->source, sizeof v->source, csv, row, "source");
    copy(v->note, sizeof v->note, csv, row, "note");
    if (!mk_text_number(v->text, false, &v->value)) v->value = NAN;
    MK_CHECK(ctx, v->key[0] != '\0' && v->text[0] != '\0' && v->unit[0] != '\0' && v->source[0] != '\0', MK_ERR_FORMAT,
             "%s:%lld: every row needs key, value, unit and source", path, (long long)row + 2);
  }
  return MK_OK;
}

static mk_status read_gpu_file(mk_context *ctx, const char *file, ms_system *s) {
  mk_status st = MK_OK;
  ms_csv *csv = NULL;
  char folder[MS_PATH_BYTES], path[MS_PATH_BYTES];
  ms_path_folder(s->path, folder);
  MK_TRY(ctx, ms_path_find(ctx, folder, file, path));
  MK_TRY_GOTO(ctx, ms_csv_read(ctx, path, &csv), out);
  MK_TRY_GOTO(ctx, fill_gpu(ctx, path, csv, s), out);
out:
  ms_csv_destroy(ctx, csv);
  return st;
}

/* A fault of the GPU's file is reported where the system names it. */
static void attach_gpu(ms_reader *r, reading *m) {
  if (m->gpu_file[0] == '\0' || read_gpu_file(r->ctx, m->gpu_file, &m->system) == MK_OK) return;
  if (r->ctx->error.status == MK_ERR_MEMORY) {
    r->st = MK_ERR_MEMORY;
    return;
  }
  ms_fault(r, m->gpu_place, "gpu: %s", r->ctx->error.message);
  mk_error_clear(r->ctx);
}

static mk_status read_file(mk_context *ctx, const char *name, ms_diagnostics *diag, reading *m) {
  ms_node *root = NULL;
  ms_reader reader = {.ctx = ctx, .path = m->system.path, .diag = diag};
  MK_TRY(ctx, ms_yaml_read(ctx, m->system.path, diag, &root));
  if (root == NULL) return MK_OK;
  read_top(&reader, root, m);
  if (root->kind == MS_NODE_MAP) check(&reader, root, m, name);
  attach_gpu(&reader, m);
  ms_yaml_destroy(ctx, root);
  return reader.st;
}

mk_status ms_system_read(mk_context *ctx, const char *name, ms_diagnostics *diag, ms_system **out) {
  mk_status st = MK_OK;
  reading m = {0};
  ms_system *system = NULL;
  char relative[128];
  int before = diag->count;
  MK_CHECK(ctx, ms_name_is_plain(name) && strlen(name) < sizeof m.system.name, MK_ERR_CONFIG,
           "'%.60s' is no name of a system", name);
  snprintf(relative, sizeof relative, "suite/systems/%s.yaml", name);
  MK_TRY_GOTO(ctx, ms_path_find(ctx, NULL, relative, m.system.path), out);
  MK_TRY_GOTO(ctx, read_file(ctx, name, diag, &m), out);
  MK_CHECK_GOTO(ctx, diag->count == before, MK_ERR_CONFIG, out, "%s: %d fault%s", m.system.path, diag->count - before,
                diag->count - before == 1 ? "" : "s");
  MK_TRY_GOTO(ctx, mk_heap_alloc(ctx, sizeof *system, &system), out);
  *system = m.system;
  m.system.gpu = NULL;
  *out = system;
out:
  mk_heap_free(ctx, m.system.gpu);
  return st;
}

void ms_system_destroy(mk_context *ctx, ms_system *system) {
  if (system == NULL) return;
  mk_heap_free(ctx, system->gpu);
  mk_heap_free(ctx, system);
}

bool ms_system_offers(const ms_system *system, const char *device) {
  return system->match_gpus == 0 || strcmp(device, "cuda") == 0 || strcmp(device, "sim") == 0;
}

double ms_system_gpu_value(const ms_system *system, const char *key) {
  for (int i = 0; i < system->n_gpu; i++) {
    if (strcmp(system->gpu[i].key, key) == 0) return system->gpu[i].value;
  }
  return NAN;
}
