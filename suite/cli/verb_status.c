/* moemark status DIR: every launch of a run, its state and where its logs are. Works while the run goes on. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/json.h"
#include "suite/cli/verb.h"
#include "suite/record/row_counts.h"
#include "suite/record/schema.h"

typedef struct input {
  mk_context *ctx;
  ms_format format;
  ms_arguments folders;
} input;

static error_t parse(int key, char *arg, struct argp_state *state) {
  input *in = state->input;
  if (key != 'f') return ARGP_ERR_UNKNOWN;
  return ms_cli_format(in->ctx, arg, &in->format);
}

static const struct argp_option OPTIONS[] = {{"format", 'f', "WORD", 0, "table, csv or json", 1}, {0}};

static const struct argp ARGP = {.options = OPTIONS,
                                 .parser = parse,
                                 .args_doc = "DIR",
                                 .doc = "Prints the launches of a run folder: state, exit code, time, logs."};

static const char *const COLUMNS[] = {"order",  "case",  "launch", "status", "code",
                                      "wall_s", "tok_s", "logs",   "message"};
enum { N_COLUMNS = sizeof COLUMNS / sizeof COLUMNS[0] };

static mk_status row_add(mk_context *ctx, const char *folder, const ms_csv *launches, int64_t row, ms_table *t) {
  static const char *const SAME[] = {"order", "case", "launch", "status", "code", "wall_s"};
  for (size_t i = 0; i < sizeof SAME / sizeof SAME[0]; i++) {
    MK_TRY(ctx, ms_table_cell(ctx, t, "%s", ms_csv_get(launches, row, SAME[i])));
  }
  MK_TRY(ctx, ms_table_number(ctx, t, "%.1f", ms_csv_number(launches, row, "tok_s")));
  const char *logs = ms_csv_get(launches, row, "folder");
  MK_TRY(ctx, ms_table_cell(ctx, t, "%s%s%s", logs[0] == '\0' ? "" : folder, logs[0] == '\0' ? "" : "/", logs));
  return ms_table_cell(ctx, t, "%s", ms_csv_get(launches, row, "message"));
}

/* Once the run has ended its manifest says how many launches there are. */
static mk_status count_check(mk_context *ctx, const char *folder, const ms_csv *launches) {
  char path[MS_PATH_BYTES];
  cJSON *manifest = NULL;
  MK_TRY(ctx, ms_path_join(ctx, folder, "manifest.json", path));
  if (access(path, F_OK) != 0) return MK_OK;
  MK_TRY(ctx, mk_json_read(ctx, path, &manifest));
  mk_status st = ms_row_counts_check(ctx, manifest, folder, "manifest.json", "launches.csv", launches);
  cJSON_Delete(manifest);
  return st;
}

static mk_status show(mk_context *ctx, const char *folder, ms_format format) {
  mk_status st = MK_OK;
  char path[MS_PATH_BYTES], whole[MS_PATH_BYTES];
  ms_csv *launches = NULL;
  ms_table *t = NULL;
  MK_CHECK_GOTO(ctx, realpath(folder, whole) != NULL, MK_ERR_CONFIG, out, "%s: no such folder", folder);
  MK_TRY_GOTO(ctx, ms_path_join(ctx, whole, "launches.csv", path), out);
  MK_CHECK_GOTO(ctx, access(path, R_OK) == 0, MK_ERR_CONFIG, out,
                "%s: not a run folder (it has no launches.csv); give out/<study>/latest or out/<study>/<run>", folder);
  MK_TRY_GOTO(ctx, ms_result_read(ctx, MS_CSV_LAUNCHES, path, &launches), out);
  MK_TRY_GOTO(ctx, count_check(ctx, whole, launches), out);
  MK_TRY_GOTO(ctx, ms_table_create(ctx, N_COLUMNS, COLUMNS, &t), out);
  for (int64_t row = 0; row < launches->n_rows; row++) {
    MK_TRY_GOTO(ctx, row_add(ctx, whole, launches, row, t), out);
  }
  MK_TRY_GOTO(ctx, ms_table_write(ctx, t, format), out);
out:
  ms_table_destroy(ctx, t);
  ms_csv_destroy(ctx, launches);
  return st;
}

int ms_verb_status(mk_context *ctx, int argc, char **argv) {
  input in = {.ctx = ctx};
  if (ms_cli_parse(ctx, &ARGP, argc, argv, &in, &in.folders) != MK_OK) return ms_cli_failed(ctx);
  if (in.folders.count != 1) return ms_cli_usage(ctx, "status", "which run folder?");
  return show(ctx, in.folders.item[0], in.format) == MK_OK ? MS_EXIT_OK : ms_cli_failed(ctx);
}
