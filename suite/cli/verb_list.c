/* moemark list [studies|cases|systems|metrics|baselines]. */
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/arguments.h"
#include "kernels/base/folder.h"
#include "suite/cli/verb.h"
#include "suite/metrics/metric.h"
#include "suite/record/csv.h"
#include "suite/systems/system.h"

typedef struct input {
  ms_common common;
  const char *what;
  const char *tag;
  bool has_name;
  regex_t name;
  ms_arguments files;
  bool *faulty; /* set where a study could not be read */
} input;

static error_t parse(int key, char *arg, struct argp_state *state) {
  input *in = state->input;
  switch (key) {
    case ARGP_KEY_INIT:
      state->child_inputs[0] = &in->common;
      return 0;
    case 't':
      in->tag = arg;
      return 0;
    case 'n':
      if (in->has_name) regfree(&in->name);
      in->has_name = regcomp(&in->name, arg, REG_EXTENDED | REG_NOSUB) == 0;
      return in->has_name ? 0 : mk_arguments_fail(in->common.ctx, "--name: '%.80s' is no regular expression", arg);
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option OPTIONS[] = {
    {"name", 'n', "REGEX", 0, "only names that match (case names for cases)", 1},
    {"tag", 't', "TAG", 0, "only studies with this tag", 1},
    {0}};
static const struct argp_child CHILDREN[] = {{&ms_common_argp, 0, NULL, 0}, {0}};
static const struct argp ARGP = {
    .options = OPTIONS,
    .parser = parse,
    .children = CHILDREN,
    .args_doc = "[studies|cases|systems|metrics|baselines] [FILE...]",
    .doc = "Lists what there is. Without FILE, studies and cases are those of experiments/."};

static bool name_wanted(const input *in, const char *name) {
  return !in->has_name || regexec(&in->name, name, 0, NULL, 0) == 0;
}

/* ---- folders ---- */

typedef mk_status (*file_fn)(mk_context *ctx, const input *in, const char *path, const char *name, ms_table *t);

/* Calls fn for every entry of <data root>/<folder> that ends in `ending` (may be empty), in the order of names; a
 * missing folder has none. */
static mk_status for_each(mk_context *ctx, const input *in, const char *folder, const char *ending, file_fn fn,
                          ms_table *t) {
  char root[MS_PATH_BYTES], path[MS_PATH_BYTES], file[MS_PATH_BYTES];
  char **names = NULL;
  size_t count = 0;
  mk_status st = MK_OK;
  MK_TRY(ctx, ms_path_data_root(ctx, root));
  MK_TRY(ctx, ms_path_join(ctx, root, folder, path));
  if (access(path, F_OK) == 0) MK_TRY(ctx, mk_folder_names(ctx, path, "", &names, &count));
  for (size_t i = 0; i < count && st == MK_OK; i++) {
    size_t length = strlen(names[i]), tail = strlen(ending);
    if (names[i][0] == '.' || length <= tail || strcmp(names[i] + length - tail, ending) != 0) continue;
    st = ms_path_join(ctx, path, names[i], file);
    names[i][length - tail] = '\0';
    if (st == MK_OK) st = fn(ctx, in, file, names[i], t);
  }
  mk_folder_names_free(ctx, names, count);
  return st;
}

/* A study that cannot be read is reported and the list goes on; the exit code tells it. */
static mk_status read_study(mk_context *ctx, const input *in, const char *path, ms_study **out) {
  ms_diagnostics diag = {0};
  *out = NULL;
  mk_status st = ms_study_read(ctx, path, &diag, out);
  ms_cli_diagnostics(&diag);
  bool reported = diag.count > 0;
  ms_diagnostics_fini(ctx, &diag);
  if (st != MK_OK && reported) {
    *in->faulty = true;
    mk_error_clear(ctx);
    return MK_OK;
  }
  return st;
}

/* ---- studies, cases ---- */

static bool study_wanted(const input *in, const ms_study *study) {
  bool tagged = in->tag == NULL;
  for (int i = 0; i < study->n_tags; i++)
    tagged = tagged || strcmp(study->tags[i], in->tag) == 0;
  return tagged;
}

static mk_status add_study(mk_context *ctx, const ms_study *study, ms_table *t) {
  char scales[4 * MS_NAME_BYTES] = "", tags[MS_MAX_TAGS * MS_NAME_BYTES] = "";
  for (int i = 0; i < study->n_scales; i++) {
    strcat(scales, i == 0 ? "" : " ");
    strcat(scales, study->scales[i].name);
  }
  for (int i = 0; i < study->n_tags; i++) {
    strcat(tags, i == 0 ? "" : " ");
    strcat(tags, study->tags[i]);
  }
  MK_TRY(ctx, ms_table_cell(ctx, t, "%s", study->id));
  MK_TRY(ctx, ms_table_cell(ctx, t, "%s", scales));
  MK_TRY(ctx, ms_table_cell(ctx, t, "%s", tags));
  MK_TRY(ctx, ms_table_cell(ctx, t, "%s", study->title));
  return ms_table_cell(ctx, t, "%s", study->path);
}

static mk_status list_study(mk_context *ctx, const input *in, const char *path, const char *name, ms_table *t) {
  ms_study *study = NULL;
  (void)name;
  MK_TRY(ctx, read_study(ctx, in, path, &study));
  if (study == NULL) return MK_OK;
  mk_status st = study_wanted(in, study) && name_wanted(in, study->id) ? add_study(ctx, study, t) : MK_OK;
  ms_study_destroy(ctx, study);
  return st;
}

static mk_status add_cases(mk_context *ctx, const input *in, const ms_study *study, ms_table *t) {
  mk_status st = MK_OK;
  ms_plan *plan = NULL;
  ms_diagnostics diag = {0};
  ms_condition where = {0};
  const char *scale = in->common.scale != NULL ? in->common.scale : "smoke";
  if (ms_study_scale_find(study, scale) == NULL) {
    MK_CHECK(ctx, in->files.count == 0, MK_ERR_CONFIG, "--scale: %s has no scale '%.60s'", study->path, scale);
    return MK_OK;
  }
  if (in->common.where != NULL) MK_TRY_GOTO(ctx, ms_condition_make(ctx, in->common.where, &where), out);
  MK_TRY_GOTO(ctx, ms_plan_create(ctx, study, scale, NULL, &in->common.overrides, &diag, &plan), out);
  for (int i = 0; i < plan->n_cases; i++) {
    const ms_case *c = &plan->cases[i];
    bool wanted = name_wanted(in, c->name);
    if (wanted && where.text[0] != '\0') MK_TRY_GOTO(ctx, ms_condition_eval(ctx, study, &where, c, &wanted), out);
    if (!wanted) continue;
    MK_TRY_GOTO(ctx, ms_table_cell(ctx, t, "%s", study->id), out);
    MK_TRY_GOTO(ctx, ms_table_cell(ctx, t, "%s", scale), out);
    MK_TRY_GOTO(ctx, ms_table_cell(ctx, t, "%s", c->name), out);
    MK_TRY_GOTO(ctx, ms_table_cell(ctx, t, "%s", c->hash), out);
  }
out:
  ms_cli_diagnostics(&diag);
  ms_diagnostics_fini(ctx, &diag);
  ms_plan_destroy(ctx, plan);
  return st;
}

static mk_status list_cases(mk_context *ctx, const input *in, const char *path, const char *name, ms_table *t) {
  ms_study *study = NULL;
  (void)name;
  MK_TRY(ctx, read_study(ctx, in, path, &study));
  if (study == NULL) return MK_OK;
  mk_status st = study_wanted(in, study) ? add_cases(ctx, in, study, t) : MK_OK;
  ms_study_destroy(ctx, study);
  return st;
}

/* experiments/<name>/study.yaml */
static mk_status in_folder(mk_context *ctx, const input *in, const char *path, const char *name, ms_table *t) {
  char file[MS_PATH_BYTES], probe[MS_PATH_BYTES];
  MK_TRY(ctx, ms_path_join(ctx, path, "study.yaml", file));
  if (ms_path_find(ctx, NULL, file, probe) != MK_OK) {
    mk_error_clear(ctx);
    return MK_OK;
  }
  return strcmp(in->what, "cases") == 0 ? list_cases(ctx, in, file, name, t) : list_study(ctx, in, file, name, t);
}

static mk_status list_files(mk_context *ctx, const input *in, ms_table *t) {
  file_fn fn = strcmp(in->what, "cases") == 0 ? list_cases : list_study;
  if (in->files.count == 0) return for_each(ctx, in, "experiments", "", in_folder, t);
  for (int i = 0; i < in->files.count; i++)
    MK_TRY(ctx, fn(ctx, in, in->files.item[i], "", t));
  return MK_OK;
}

/* ---- systems, metrics, baselines ---- */

static mk_status add_system(mk_context *ctx, const ms_system *s, ms_table *t) {
  bool cpu = s->match_gpus == 0;
  MK_TRY(ctx, ms_table_cell(ctx, t, "%s", s->name));
  MK_TRY(ctx, ms_table_cell(ctx, t, "%s", cpu ? "cpu" : s->match_gpu));
  MK_TRY(ctx, ms_table_number(ctx, t, "%.0f", cpu ? NAN : (double)s->match_gpus));
  MK_TRY(ctx, ms_table_cell(ctx, t, "%lld", (long long)s->nodes));
  MK_TRY(ctx, ms_table_number(ctx, t, "%.4g", cpu ? NAN : ms_system_gpu_value(s, "peak_bf16_flops") / 1e12));
  MK_TRY(ctx, ms_table_number(ctx, t, "%.4g", s->memory_budget_gib > 0 ? s->memory_budget_gib : NAN));
  MK_TRY(ctx, ms_table_cell(ctx, t, "%s", s->launcher));
  return ms_table_cell(ctx, t, "%s", s->source);
}

static mk_status list_system(mk_context *ctx, const input *in, const char *path, const char *name, ms_table *t) {
  ms_system *system = NULL;
  ms_diagnostics diag = {0};
  (void)path;
  if (!name_wanted(in, name)) return MK_OK;
  mk_status st = ms_system_read(ctx, name, &diag, &system);
  ms_cli_diagnostics(&diag);
  ms_diagnostics_fini(ctx, &diag);
  if (st == MK_OK) st = add_system(ctx, system, t);
  ms_system_destroy(ctx, system);
  return st;
}

static mk_status list_systems(mk_context *ctx, const input *in, ms_table *t) {
  return for_each(ctx, in, "suite/systems", ".yaml", list_system, t);
}

static mk_status list_metrics(mk_context *ctx, const input *in, ms_table *t) {
  int count = 0;
  const ms_metric *metric = ms_metric_list(&count);
  for (int i = 0; i < count; i++) {
    if (!name_wanted(in, metric[i].name)) continue;
    MK_TRY(ctx, ms_table_cell(ctx, t, "%s", metric[i].name));
    MK_TRY(ctx, ms_table_cell(ctx, t, "%s", metric[i].unit));
    MK_TRY(ctx, ms_table_cell(ctx, t, "%s", metric[i].lower_is_better ? "lower" : "higher"));
    MK_TRY(ctx, ms_table_cell(ctx, t, "%s", metric[i].deterministic ? "yes" : "no"));
    MK_TRY(ctx, ms_table_cell(ctx, t, "%s", metric[i].help));
  }
  return MK_OK;
}

static mk_status list_baseline(mk_context *ctx, const input *in, const char *path, const char *name, ms_table *t) {
  ms_csv *csv = NULL;
  if (!name_wanted(in, name)) return MK_OK;
  MK_TRY(ctx, ms_csv_read(ctx, path, &csv));
  mk_status st = ms_table_cell(ctx, t, "%s", name);
  if (st == MK_OK) st = ms_table_cell(ctx, t, "%s", strstr(path, "/accepted/") != NULL ? "accepted" : "published");
  if (st == MK_OK) st = ms_table_cell(ctx, t, "%lld", (long long)csv->n_rows);
  if (st == MK_OK) st = ms_table_cell(ctx, t, "%s", path);
  ms_csv_destroy(ctx, csv);
  return st;
}

/* baselines/accepted/<study>/<system>.csv; raw launches beside it are no baselines. */
static mk_status list_accepted(mk_context *ctx, const input *in, const char *path, const char *name, ms_table *t) {
  char relative[MS_PATH_BYTES];
  (void)path;
  snprintf(relative, sizeof relative, "baselines/accepted/%.255s", name);
  return for_each(ctx, in, relative, ".csv", list_baseline, t);
}

static mk_status list_baselines(mk_context *ctx, const input *in, ms_table *t) {
  MK_TRY(ctx, for_each(ctx, in, "baselines/published", ".csv", list_baseline, t));
  return for_each(ctx, in, "baselines/accepted", "", list_accepted, t);
}

/* ---- the verb ---- */

typedef struct listing {
  const char *name;
  mk_status (*list)(mk_context *ctx, const input *in, ms_table *t);
  const char *column[8];
  int n_columns;
} listing;

static const listing LISTINGS[] = {
    {"studies", list_files, {"study", "scales", "tags", "title", "path"}, 5},
    {"cases", list_files, {"study", "scale", "case", "hash"}, 4},
    {"systems",
     list_systems,
     {"system", "device", "gpus", "nodes", "peak_bf16_tflop_s_gpu", "memory_budget_gib", "launcher", "source"},
     8},
    {"metrics", list_metrics, {"metric", "unit", "better", "deterministic", "meaning"}, 5},
    {"baselines", list_baselines, {"baseline", "kind", "rows", "path"}, 4},
};

static const listing *find_listing(mk_context *ctx, const char *what) {
  for (size_t i = 0; i < sizeof LISTINGS / sizeof LISTINGS[0]; i++) {
    if (strcmp(LISTINGS[i].name, what) == 0) return &LISTINGS[i];
  }
  MK_FAIL(ctx, MK_ERR_CONFIG, "list: '%.60s' is not one of studies, cases, systems, metrics, baselines", what);
  return NULL;
}

int ms_verb_list(mk_context *ctx, int argc, char **argv) {
  bool faulty = false;
  input in = {.common = {.ctx = ctx}, .what = "studies", .faulty = &faulty};
  ms_table *table = NULL;
  const listing *l = NULL;
  mk_status st = ms_cli_parse(ctx, &ARGP, argc, argv, &in, &in.files);
  if (st == MK_OK && in.files.count > 0) {
    in.what = in.files.item[0];
    in.files.item += 1;
    in.files.count -= 1;
  }
  if (st == MK_OK) l = find_listing(ctx, in.what);
  if (l == NULL) st = ctx->error.status;
  if (st == MK_OK && in.files.count > 0 && l->list != list_files) {
    st = MK_FAIL(ctx, MK_ERR_CONFIG, "list: %s takes no file, but '%.200s' was given", in.what, in.files.item[0]);
  }
  if (st == MK_OK) st = ms_table_create(ctx, l->n_columns, l->column, &table);
  if (st == MK_OK) st = l->list(ctx, &in, table);
  if (st == MK_OK) st = ms_table_write(ctx, table, in.common.format);
  ms_table_destroy(ctx, table);
  ms_common_fini(&in.common);
  if (in.has_name) regfree(&in.name);
  if (st != MK_OK) return ms_cli_failed(ctx);
  return faulty ? MS_EXIT_USAGE : MS_EXIT_OK;
}
