/* Built with cJSON from what is already known; the only probes here are the working directory and the environment, of
 * which only variables that steer a run are kept. */
#include "suite/provenance/manifest.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "suite/provenance/sysinfo.h"
#include "suite/record/row_counts.h"
#include "suite/run/folder.h"

static const char *const ENV_PREFIXES[] = {"MOEMARK_", "OMP_",   "OMPI_", "NCCL_",   "CUDA_",
                                           "UCX_",     "SLURM_", "DNNL_", "ONEDNN_", NULL};

static bool keeps(const char *variable) {
  for (int i = 0; ENV_PREFIXES[i] != NULL; i++) {
    if (strncmp(variable, ENV_PREFIXES[i], strlen(ENV_PREFIXES[i])) == 0) return true;
  }
  return false;
}

static void environment_add(cJSON *root) {
  cJSON *object = cJSON_AddObjectToObject(root, "environment");
  for (char **variable = environ; *variable != NULL; variable++) {
    const char *equals = strchr(*variable, '=');
    if (equals == NULL || !keeps(*variable)) continue;
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)(equals - *variable), *variable);
    cJSON_AddStringToObject(object, name, equals + 1);
  }
}

static void run_add(cJSON *root, const ms_run *run) {
  cJSON *object = cJSON_AddObjectToObject(root, "run");
  char folder[MS_PATH_BYTES];
  const char *state = run->end_utc[0] == '\0' ? "running" : (run->interrupted ? "interrupted" : "complete");
  int valid = 0, ended = 0;
  for (int i = 0; i < run->n_launches; i++) {
    ended += run->launches[i].records != NULL;
    valid += strcmp(run->launches[i].status, "ok") == 0;
  }
  cJSON_AddStringToObject(object, "id", run->id);
  cJSON_AddStringToObject(object, "state", state);
  cJSON_AddStringToObject(object, "start_utc", run->start_utc);
  cJSON_AddStringToObject(object, "end_utc", run->end_utc);
  cJSON_AddStringToObject(object, "command", run->command);
  cJSON_AddStringToObject(object, "working_directory", getcwd(folder, sizeof folder) != NULL ? folder : "");
  cJSON_AddStringToObject(object, "user", run->machine.user);
  cJSON_AddStringToObject(object, "host", run->machine.host);
  cJSON_AddStringToObject(object, "study", run->plan->study->id);
  cJSON_AddStringToObject(object, "study_path", run->plan->study->path);
  cJSON_AddStringToObject(object, "study_sha256", run->plan->study->sha256);
  cJSON_AddStringToObject(object, "scale", run->plan->scale->name);
  cJSON_AddStringToObject(object, "system", run->system);
  cJSON_AddStringToObject(object, "order", run->plan->scale->measure.order);
  cJSON_AddNumberToObject(object, "order_seed", (double)run->order_seed);
  cJSON_AddNumberToObject(object, "launches_planned", run->n_launches);
  cJSON_AddNumberToObject(object, "launches_ended", ended);
  cJSON_AddNumberToObject(object, "launches_valid", valid);
}

/* Tables grow while the run goes on; they are counted at its end. */
static mk_status rows_add(mk_context *ctx, cJSON *root, const ms_run *run) {
  static const struct {
    const char *name;
    mk_status (*make)(mk_context *ctx, const ms_run *run, ms_csv **out);
  } TABLE[] = {{"launches.csv", ms_run_launches_table},
               {"runs.csv", ms_run_runs_table},
               {"steps.csv", ms_run_steps_table},
               {"evals.csv", ms_run_evals_table}};
  for (size_t i = 0; i < sizeof TABLE / sizeof TABLE[0] && run->end_utc[0] != '\0'; i++) {
    ms_csv *table = NULL;
    MK_TRY(ctx, TABLE[i].make(ctx, run, &table));
    ms_row_counts_add(root, TABLE[i].name, table->n_rows);
    ms_csv_destroy(ctx, table);
  }
  return MK_OK;
}

/* First launch of a case that has run, or NULL. */
static const ms_launch *first_of(const ms_run *run, int case_index) {
  for (int i = 0; i < run->n_launches; i++) {
    const ms_launch *l = &run->launches[i];
    if (l->case_index == case_index && l->records != NULL && l->records->has_start) return l;
  }
  return NULL;
}

/* Text of a configuration key. */
static void key_add(cJSON *object, const mt_config *cfg, const char *key) {
  char text[MT_TEXT_BYTES];
  mt_config_get(cfg, mt_config_key_find(key), text, sizeof text);
  cJSON_AddStringToObject(object, key, text);
}

static void cases_add(cJSON *root, const ms_run *run) {
  cJSON *array = cJSON_AddArrayToObject(root, "cases");
  for (int i = 0; i < run->plan->n_cases; i++) {
    const ms_case *c = &run->plan->cases[i];
    const ms_launch *l = first_of(run, i);
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "case", c->name);
    cJSON_AddStringToObject(object, "config_hash", c->hash);
    cJSON_AddStringToObject(object, "kind", ms_case_kind(c));
    cJSON_AddNumberToObject(object, "ranks", (double)c->config.ranks);
    cJSON_AddNumberToObject(object, "experts", (double)c->config.experts);
    cJSON_AddNumberToObject(object, "top_k", (double)c->config.top_k);
    cJSON_AddNumberToObject(object, "shared_hidden", (double)c->config.shared_hidden);
    cJSON_AddNumberToObject(object, "capacity_factor", c->config.capacity_factor);
    if (c->config.capacity_factor > 0) key_add(object, &c->config, "capacity_scope");
    if (l != NULL) {
      cJSON_AddStringToObject(object, "device", l->records->describe);
      cJSON_AddStringToObject(object, "kernel", l->records->kernel);
      cJSON_AddStringToObject(object, "isa", l->records->isa);
      cJSON_AddStringToObject(object, "library", l->records->library);
      cJSON_AddNumberToObject(object, "threads", (double)l->records->threads);
      cJSON_AddStringToObject(object, "comparability", l->comparability);
    }
    cJSON_AddItemToArray(array, object);
  }
}

/* The programs that ran, by content. A file that cannot be read has no hash. */
static void binary_add(mk_context *ctx, cJSON *code, const char *key, const char *path) {
  char hash[MK_HASH_BYTES];
  if (path[0] == '\0' || mk_hash_file(ctx, path, hash) != MK_OK) {
    mk_error_clear(ctx);
    return;
  }
  cJSON_AddStringToObject(code, key, hash);
}

mk_status ms_manifest_write(mk_context *ctx, const ms_run *run) {
  mk_status st = MK_OK;
  cJSON *root = cJSON_CreateObject();
  char *text = NULL;
  cJSON_AddStringToObject(root, "schema", "moemark/manifest/1");
  run_add(root, run);
  MK_TRY_GOTO(ctx, rows_add(ctx, root, run), out);
  cJSON *code = ms_sysinfo_code(root);
  binary_add(ctx, code, "moemark_sha256", "/proc/self/exe");
  binary_add(ctx, code, "trainer_sha256", run->trainer);
  ms_sysinfo_machine(root, &run->machine);
  environment_add(root);
  cases_add(root, run);
  text = cJSON_Print(root);
  MK_CHECK_GOTO(ctx, text != NULL, MK_ERR_MEMORY, out, "manifest.json: out of host memory");
  MK_TRY_GOTO(ctx, ms_text_write(ctx, run->folder, "manifest.json", text), out);
out:
  cJSON_free(text);
  cJSON_Delete(root);
  return st;
}
