/* All checks first, then three writes: launches, rows, log. The rows come last but one, so that a row never names
 * launches that are not there. */
#include "suite/judge/baseline.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/folder.h"
#include "kernels/base/heap.h"
#include "kernels/base/json.h"
#include "suite/judge/parts.h"
#include "suite/record/row_counts.h"
#include "suite/record/schema.h"
#include "suite/run/folder.h"
#include "suite/study/schema.h"

enum { LAUNCHES_LEAST = 6 }; /* first n with a 95 % interval of the median */

typedef struct update {
  mk_context *ctx;
  const ms_baseline_options *options;
  ms_csv *summary, *runs, *old, *fresh;
  char commit[64], study[MS_NAME_BYTES], system[MS_NAME_BYTES], run_id[MS_NAME_BYTES], scale[MS_NAME_BYTES];
  char *log; /* text to append */
  ms_baseline_change change;
} update;

static const char *text_at(const cJSON *root, const char *group, const char *key) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(root, group), key);
  return cJSON_IsString(item) ? item->valuestring : "";
}

/* A part of a file's name, from a command line or a file. */
static mk_status name_check(mk_context *ctx, const char *what, const char *name) {
  MK_CHECK(ctx, ms_name_is_plain(name) && strlen(name) < MS_NAME_BYTES, MK_ERR_CONFIG,
           "'%.60s' is no name of a %s (letters, digits, '_', '-' and, inside, '.')", name, what);
  return MK_OK;
}

static mk_status manifest_check(update *u, const cJSON *root, const char *path) {
  mk_context *ctx = u->ctx;
  MK_CHECK(ctx, cJSON_IsObject(root), MK_ERR_FORMAT, "%s: not a JSON object", path);
  const char *state = text_at(root, "run", "state"), *dirty = text_at(root, "code", "dirty");
  MK_CHECK(ctx, strcmp(state, "complete") == 0, MK_ERR_MISMATCH, "refused: the run is '%s', not complete", state);
  MK_CHECK(ctx, strcmp(dirty, "no") == 0, MK_ERR_MISMATCH,
           "refused: the program was built from a tree with changes (dirty: %s); commit, build and run again", dirty);
  snprintf(u->commit, sizeof u->commit, "%s", text_at(root, "code", "commit"));
  snprintf(u->study, sizeof u->study, "%s", text_at(root, "run", "study"));
  snprintf(u->system, sizeof u->system, "%s", text_at(root, "run", "system"));
  snprintf(u->run_id, sizeof u->run_id, "%s", text_at(root, "run", "id"));
  snprintf(u->scale, sizeof u->scale, "%s", text_at(root, "run", "scale"));
  MK_CHECK(ctx, u->study[0] != '\0' && u->system[0] != '\0' && u->run_id[0] != '\0', MK_ERR_FORMAT,
           "%s: names no study, system or run", path);
  mk_status st = name_check(ctx, "study", u->study);
  if (st == MK_OK) st = name_check(ctx, "system", u->system);
  if (st == MK_OK) st = name_check(ctx, "run", u->run_id);
  if (st != MK_OK) mk_error_prefix(ctx, path);
  return st;
}

static mk_status table_read(update *u, const cJSON *root, const char *json, ms_csv_kind kind, const char *name,
                            ms_csv **out) {
  char path[MS_PATH_BYTES];
  MK_TRY(u->ctx, ms_path_join(u->ctx, u->options->run_folder, name, path));
  MK_TRY(u->ctx, ms_result_read(u->ctx, kind, path, out));
  return ms_row_counts_check(u->ctx, root, u->options->run_folder, json, name, *out);
}

/* manifest.json and the launches, then verdict.json and what was judged. */
static mk_status run_read(update *u) {
  mk_context *ctx = u->ctx;
  mk_status st = MK_OK;
  char path[MS_PATH_BYTES];
  cJSON *manifest = NULL, *verdict = NULL;
  MK_TRY_GOTO(ctx, ms_path_join(ctx, u->options->run_folder, "manifest.json", path), out);
  MK_TRY_GOTO(ctx, mk_json_read(ctx, path, &manifest), out);
  MK_TRY_GOTO(ctx, manifest_check(u, manifest, path), out);
  MK_TRY_GOTO(ctx, table_read(u, manifest, "manifest.json", MS_CSV_RUNS, "runs.csv", &u->runs), out);
  MK_TRY_GOTO(ctx, ms_path_join(ctx, u->options->run_folder, "verdict.json", path), out);
  MK_TRY_GOTO(ctx, mk_json_read(ctx, path, &verdict), out);
  MK_TRY_GOTO(ctx, table_read(u, verdict, "verdict.json", MS_CSV_SUMMARY, "summary.csv", &u->summary), out);
out:
  cJSON_Delete(manifest);
  cJSON_Delete(verdict);
  return st;
}

static bool has_value(const ms_csv *summary, int64_t row) {
  return strcmp(ms_csv_get(summary, row, "verdict"), "XFAIL") != 0 && isfinite(ms_csv_number(summary, row, "median"));
}

static mk_status run_check(update *u) {
  mk_context *ctx = u->ctx;
  for (int64_t row = 0; row < u->summary->n_rows; row++) {
    const char *verdict = ms_csv_get(u->summary, row, "verdict"), *name = ms_csv_get(u->summary, row, "case");
    bool bad = strcmp(verdict, "FAIL") == 0 || strcmp(verdict, "XPASS") == 0 || strcmp(verdict, "interrupted") == 0;
    MK_CHECK(ctx, !bad, MK_ERR_MISMATCH, "refused: %s ended with %s: %s", name, verdict,
             ms_csv_get(u->summary, row, "reason"));
    bool measured = strcmp(ms_csv_get(u->summary, row, "kind"), "simulated") != 0;
    double n = ms_csv_number(u->summary, row, "n");
    MK_CHECK(ctx, !has_value(u->summary, row) || !measured || n >= LAUNCHES_LEAST, MK_ERR_MISMATCH,
             "refused: %s has %.0f launches, a baseline needs %d", name, n, LAUNCHES_LEAST);
    int64_t kept = ms_launches_well(u->runs, name); /* a metric may lack a value in some launches, never have more */
    MK_CHECK(ctx, !has_value(u->summary, row) || n <= (double)kept, MK_ERR_FORMAT,
             "%s: runs.csv has %lld launches of %s, summary.csv says %.0f: the run folder has lost rows",
             u->options->run_folder, (long long)kept, name, n);
  }
  for (int64_t row = 0; row < u->runs->n_rows; row++) {
    const char *throttled = ms_csv_get(u->runs, row, "throttled");
    MK_CHECK(ctx, throttled[0] == '\0' || strcmp(throttled, "0") == 0 || strcmp(throttled, "no") == 0, MK_ERR_MISMATCH,
             "refused: launch %s of %s was throttled", ms_csv_get(u->runs, row, "launch"),
             ms_csv_get(u->runs, row, "case"));
  }
  return MK_OK;
}

static int64_t row_find(const ms_csv *table, const char *name, const char *metric) {
  for (int64_t row = 0; table != NULL && row < table->n_rows; row++) {
    if (strcmp(ms_csv_get(table, row, "case"), name) == 0 && strcmp(ms_csv_get(table, row, "metric"), metric) == 0) {
      return row;
    }
  }
  return -1;
}

/* Old against new, for the log; a worse value needs a reason. */
static mk_status change_note(update *u, int64_t row, int64_t old_row) {
  const char *name = ms_csv_get(u->summary, row, "case"), *metric = ms_csv_get(u->summary, row, "metric");
  double now = ms_csv_number(u->summary, row, "median");
  double before = old_row < 0 ? NAN : ms_csv_number(u->old, old_row, "median");
  bool lower = strcmp(ms_csv_get(u->summary, row, "better"), "lower") == 0;
  bool worse = lower ? now > before : now < before, better = lower ? now < before : now > before;
  u->change.added += isnan(before);
  u->change.worse += worse;
  u->change.better += better;
  u->change.equal += now == before;
  bool reasoned = u->options->reason != NULL && u->options->reason[0] != '\0';
  MK_CHECK(u->ctx, !worse || reasoned, MK_ERR_MISMATCH,
           "refused: %s of %s is worse, %.8g after %.8g; give --reason to accept it", metric, name, now, before);
  char old_text[64], *longer = NULL;
  ms_number_print(before, old_text, sizeof old_text);
  MK_TRY(u->ctx, mk_heap_printf(u->ctx, &longer, "%s  %s %s: %s -> %.10g\n", u->log == NULL ? "" : u->log, name, metric,
                                old_text[0] == '\0' ? "none" : old_text, now));
  mk_heap_free(u->ctx, u->log);
  u->log = longer;
  return MK_OK;
}

static void user_name(char *out, size_t bytes) {
  const struct passwd *who = getpwuid(geteuid());
  snprintf(out, bytes, "%s", who != NULL ? who->pw_name : "unknown");
}

static mk_status fresh_row(update *u, int64_t row, const char *date) {
  static const char *const SAME[] = {"case", "metric", "unit", "better", "n", "median", "ci_lo", "ci_hi"};
  mk_context *ctx = u->ctx;
  char who[64];
  user_name(who, sizeof who);
  MK_TRY(ctx, ms_csv_row_add(ctx, u->fresh));
  for (size_t i = 0; i < sizeof SAME / sizeof SAME[0]; i++) {
    MK_TRY(ctx, ms_csv_set(ctx, u->fresh, SAME[i], ms_csv_get(u->summary, row, SAME[i])));
  }
  MK_TRY(ctx, ms_csv_set_number(ctx, u->fresh, "delta", ms_csv_number(u->summary, row, "delta_pct") / 100));
  MK_TRY(ctx, ms_csv_set(ctx, u->fresh, "commit", u->commit));
  MK_TRY(ctx, ms_csv_set(ctx, u->fresh, "date_utc", date));
  MK_TRY(ctx, ms_csv_set(ctx, u->fresh, "run_id", u->run_id));
  return ms_csv_set(ctx, u->fresh, "accepted_by", who);
}

static mk_status old_row_keep(update *u, int64_t row) {
  MK_TRY(u->ctx, ms_csv_row_add(u->ctx, u->fresh));
  for (int i = 0; i < u->fresh->n_columns; i++) {
    const char *column = u->fresh->column[i];
    MK_TRY(u->ctx, ms_csv_set(u->ctx, u->fresh, column, ms_csv_get(u->old, row, column)));
  }
  return MK_OK;
}

/* Rows of the run replace rows of the same case and metric; the others stay. */
static mk_status rows_merge(update *u, const char *date) {
  MK_TRY(u->ctx, ms_schema_table(u->ctx, MS_CSV_ACCEPTED, NULL, 0, &u->fresh));
  for (int64_t row = 0; u->old != NULL && row < u->old->n_rows; row++) {
    int64_t now = row_find(u->summary, ms_csv_get(u->old, row, "case"), ms_csv_get(u->old, row, "metric"));
    if (now < 0 || !has_value(u->summary, now)) MK_TRY(u->ctx, old_row_keep(u, row));
  }
  for (int64_t row = 0; row < u->summary->n_rows; row++) {
    if (!has_value(u->summary, row)) continue;
    const char *name = ms_csv_get(u->summary, row, "case"), *metric = ms_csv_get(u->summary, row, "metric");
    MK_TRY(u->ctx, change_note(u, row, row_find(u->old, name, metric)));
    MK_TRY(u->ctx, fresh_row(u, row, date));
  }
  MK_CHECK(u->ctx, u->fresh->n_rows > 0, MK_ERR_MISMATCH, "refused: the run has no value to accept");
  return MK_OK;
}

/* All launches of one accepted file are of one scale: their cases have the same names. */
static mk_status scale_check(update *u, const char *folder) {
  char path[MS_PATH_BYTES], name[2 * MS_NAME_BYTES];
  ms_csv *runs = NULL;
  if (u->old == NULL || u->old->n_rows == 0) return MK_OK;
  snprintf(name, sizeof name, "%.100s.runs.csv", ms_csv_get(u->old, 0, "run_id"));
  MK_TRY(u->ctx, ms_path_join(u->ctx, folder, name, path));
  if (access(path, F_OK) != 0) return MK_OK;
  MK_TRY(u->ctx, ms_result_read(u->ctx, MS_CSV_RUNS, path, &runs));
  char scale[MS_NAME_BYTES];
  snprintf(scale, sizeof scale, "%s", ms_csv_get(runs, 0, "scale"));
  ms_csv_destroy(u->ctx, runs);
  MK_CHECK(u->ctx, scale[0] == '\0' || strcmp(scale, u->scale) == 0, MK_ERR_MISMATCH,
           "refused: the accepted baseline is of scale '%s', this run of scale '%s'", scale, u->scale);
  return MK_OK;
}

static mk_status log_append(update *u, const char *folder, const char *date) {
  mk_status st = MK_OK;
  char name[MS_NAME_BYTES + 8], path[MS_PATH_BYTES], who[64];
  char *before = NULL, *text = NULL;
  size_t bytes = 0;
  user_name(who, sizeof who);
  snprintf(name, sizeof name, "%s.log", u->system);
  MK_TRY_GOTO(u->ctx, ms_path_join(u->ctx, folder, name, path), out);
  if (access(path, F_OK) == 0) MK_TRY_GOTO(u->ctx, mk_file_read(u->ctx, path, &before, &bytes), out);
  MK_TRY_GOTO(u->ctx,
              mk_heap_printf(u->ctx, &text, "%s%s run %s commit %s by %s, reason: %s\n%s", before == NULL ? "" : before,
                             date, u->run_id, u->commit, who, u->options->reason == NULL ? "none" : u->options->reason,
                             u->log == NULL ? "" : u->log),
              out);
  MK_TRY_GOTO(u->ctx, mk_file_write(u->ctx, path, text, strlen(text)), out);
out:
  mk_heap_free(u->ctx, before);
  mk_heap_free(u->ctx, text);
  return st;
}

static mk_status accepted_folder(mk_context *ctx, const char *given, const char *study, char out[MS_PATH_BYTES]) {
  char root[MS_PATH_BYTES], base[MS_PATH_BYTES];
  if (given != NULL) return ms_path_join(ctx, given, study, out);
  MK_TRY(ctx, ms_path_data_root(ctx, root));
  MK_TRY(ctx, ms_path_join(ctx, root, "baselines/accepted", base));
  return ms_path_join(ctx, base, study, out);
}

static mk_status write_all(update *u, const char *folder, const char *date) {
  char name[MS_NAME_BYTES + 16], path[MS_PATH_BYTES];
  MK_TRY(u->ctx, mk_folder_make(u->ctx, folder));
  snprintf(name, sizeof name, "%s.runs.csv", u->run_id);
  MK_TRY(u->ctx, ms_path_join(u->ctx, folder, name, path));
  MK_TRY(u->ctx, ms_csv_write(u->ctx, path, u->runs));
  MK_TRY(u->ctx, ms_csv_write(u->ctx, u->change.path, u->fresh));
  return log_append(u, folder, date);
}

static mk_status update_run(update *u) {
  mk_context *ctx = u->ctx;
  char folder[MS_PATH_BYTES], date[32];
  ms_utc_now(date);
  MK_TRY(ctx, run_read(u));
  MK_TRY(ctx, run_check(u));
  MK_TRY(ctx, accepted_folder(ctx, u->options->accepted_folder, u->study, folder));
  MK_TRY(ctx, ms_baseline_find(ctx, u->options->accepted_folder, u->study, u->system, u->change.path, &u->old));
  MK_TRY(ctx, scale_check(u, folder));
  MK_TRY(ctx, rows_merge(u, date));
  return u->options->dry_run ? MK_OK : write_all(u, folder, date);
}

mk_status ms_baseline_update(mk_context *ctx, const ms_baseline_options *options, ms_baseline_change *out) {
  update u = {.ctx = ctx, .options = options};
  mk_status st = update_run(&u);
  if (st == MK_OK) *out = u.change;
  ms_csv_destroy(ctx, u.summary);
  ms_csv_destroy(ctx, u.runs);
  ms_csv_destroy(ctx, u.old);
  ms_csv_destroy(ctx, u.fresh);
  mk_heap_free(ctx, u.log);
  return st;
}

mk_status ms_baseline_find(mk_context *ctx, const char *given, const char *study, const char *system,
                           char path[MS_PATH_BYTES], ms_csv **out) {
  char folder[MS_PATH_BYTES], name[2 * MS_NAME_BYTES];
  MK_TRY(ctx, name_check(ctx, "study", study));
  MK_TRY(ctx, name_check(ctx, "system", system));
  MK_TRY(ctx, accepted_folder(ctx, given, study, folder));
  snprintf(name, sizeof name, "%s.csv", system);
  MK_TRY(ctx, ms_path_join(ctx, folder, name, path));
  return access(path, F_OK) != 0 ? MK_OK : ms_result_read(ctx, MS_CSV_ACCEPTED, path, out);
}

mk_status ms_baseline_read(mk_context *ctx, const char *given, const char *study, const char *system, ms_csv **out) {
  char path[MS_PATH_BYTES];
  ms_csv *found = NULL;
  MK_TRY(ctx, ms_baseline_find(ctx, given, study, system, path, &found));
  MK_CHECK(ctx, found != NULL, MK_ERR_MISMATCH,
           "%s: no baseline has been accepted for this study and system (moemark baseline update --from DIR)", path);
  *out = found;
  return MK_OK;
}
