/* moemark baseline show|update: accepted measurements of a study on a system. */
#include <string.h>

#include "suite/cli/verb.h"
#include "suite/judge/baseline.h"

typedef struct input {
  mk_context *ctx;
  ms_baseline_options update;
  const char *system;
  ms_format format;
  ms_arguments words;
} input;

enum { KEY_FROM = 256, KEY_REASON, KEY_DRY_RUN, KEY_SYSTEM, KEY_BASELINES };

static error_t parse(int key, char *arg, struct argp_state *state) {
  input *in = state->input;
  switch (key) {
    case KEY_FROM:
      return ms_cli_path(in->ctx, "from", arg, &in->update.run_folder);
    case KEY_REASON:
      in->update.reason = arg;
      return 0;
    case KEY_DRY_RUN:
      in->update.dry_run = true;
      return 0;
    case KEY_BASELINES:
      return ms_cli_path(in->ctx, "baselines", arg, &in->update.accepted_folder);
    case KEY_SYSTEM:
      in->system = arg;
      return 0;
    case 'f':
      return ms_cli_format(in->ctx, arg, &in->format);
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option OPTIONS[] = {
    {"from", KEY_FROM, "DIR", 0, "update: finished run folder to accept", 1},
    {"reason", KEY_REASON, "TEXT", 0, "update: why; needed when a value is worse than the accepted one", 1},
    {"dry-run", KEY_DRY_RUN, NULL, 0, "update: say what would change, change nothing", 1},
    {"system", KEY_SYSTEM, "NAME", 0, "show: system (default: local)", 1},
    {"baselines", KEY_BASELINES, "DIR", 0, "folder of accepted baselines (default: baselines/accepted of the source)",
     1},
    {"format", 'f', "WORD", 0, "show: table, csv or json", 1},
    {0}};

static const struct argp ARGP = {
    .options = OPTIONS,
    .parser = parse,
    .args_doc = "show STUDY\nupdate --from DIR",
    .doc =
        "Shows accepted baselines, or accepts a finished run as baseline.\v"
        "A run is refused (exit code 5) when it is not complete, has failures, fewer than six launches of a measured "
        "case, a build from a changed tree, throttling, another scale than the accepted one, or a worse value without "
        "--reason. Old and new values go into <system>.log beside the table."};

static mk_status show(mk_context *ctx, const input *in) {
  mk_status st = MK_OK;
  ms_csv *rows = NULL;
  ms_table *t = NULL;
  const char *system = in->system != NULL ? in->system : "local";
  MK_TRY_GOTO(ctx, ms_baseline_read(ctx, in->update.accepted_folder, in->words.item[1], system, &rows), out);
  MK_TRY_GOTO(ctx, ms_table_create(ctx, rows->n_columns, (const char *const *)rows->column, &t), out);
  for (int64_t row = 0; row < rows->n_rows; row++) {
    for (int i = 0; i < rows->n_columns; i++) {
      MK_TRY_GOTO(ctx, ms_table_cell(ctx, t, "%s", ms_csv_get(rows, row, rows->column[i])), out);
    }
  }
  MK_TRY_GOTO(ctx, ms_table_write(ctx, t, in->format), out);
out:
  ms_table_destroy(ctx, t);
  ms_csv_destroy(ctx, rows);
  return st;
}

static mk_status update(mk_context *ctx, const input *in) {
  ms_baseline_change change;
  MK_TRY(ctx, ms_baseline_update(ctx, &in->update, &change));
  return ms_out_line(ctx, "%s%s: %d new values, %d better, %d worse, %d equal", in->update.dry_run ? "dry run: " : "",
                     change.path, change.added, change.better, change.worse, change.equal);
}

int ms_verb_baseline(mk_context *ctx, int argc, char **argv) {
  input in = {.ctx = ctx};
  if (ms_cli_parse(ctx, &ARGP, argc, argv, &in, &in.words) != MK_OK) return ms_cli_failed(ctx);
  bool shows = in.words.count == 2 && strcmp(in.words.item[0], "show") == 0;
  bool updates = in.words.count == 1 && strcmp(in.words.item[0], "update") == 0 && in.update.run_folder != NULL;
  if (!shows && !updates) return ms_cli_usage(ctx, "baseline", "give 'show STUDY' or 'update --from DIR'");
  mk_status st = shows ? show(ctx, &in) : update(ctx, &in);
  return st == MK_OK ? MS_EXIT_OK : ms_cli_failed(ctx);
}
