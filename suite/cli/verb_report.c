/* moemark report DIR: the tables of a finished run again, on the terminal or as Markdown. */
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "suite/cli/verb.h"
#include "suite/report/report.h"

typedef struct input {
  mk_context *ctx;
  bool markdown;
  const char *file;
  ms_arguments folders;
} input;

enum { KEY_MARKDOWN = 256 };

static error_t parse(int key, char *arg, struct argp_state *state) {
  input *in = state->input;
  switch (key) {
    case KEY_MARKDOWN:
      in->markdown = true;
      return 0;
    case 'o':
      return ms_cli_path(in->ctx, "output", arg, &in->file);
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option OPTIONS[] = {{"md", KEY_MARKDOWN, NULL, 0, "Markdown on standard output", 1},
                                             {"output", 'o', "FILE", 0, "Markdown into FILE", 1},
                                             {0}};

static const struct argp ARGP = {.options = OPTIONS,
                                 .parser = parse,
                                 .args_doc = "DIR",
                                 .doc = "Prints the report of a run folder. Nothing is measured or judged again."};

static mk_status show(mk_context *ctx, const input *in) {
  mk_status st = MK_OK;
  ms_report *report = NULL;
  char *text = NULL;
  MK_TRY_GOTO(ctx, ms_report_read(ctx, in->folders.item[0], &report), out);
  if (!in->markdown && in->file == NULL) {
    MK_TRY_GOTO(ctx, ms_report_print(ctx, report), out);
    goto out;
  }
  MK_TRY_GOTO(ctx, ms_report_markdown(ctx, report, &text), out);
  if (in->file != NULL) {
    MK_TRY_GOTO(ctx, mk_file_write(ctx, in->file, text, strlen(text)), out);
  } else {
    MK_TRY_GOTO(ctx, ms_out_text(ctx, text), out);
  }
out:
  mk_heap_free(ctx, text);
  ms_report_destroy(ctx, report);
  return st;
}

int ms_verb_report(mk_context *ctx, int argc, char **argv) {
  input in = {.ctx = ctx};
  if (ms_cli_parse(ctx, &ARGP, argc, argv, &in, &in.folders) != MK_OK) return ms_cli_failed(ctx);
  if (in.folders.count != 1) return ms_cli_usage(ctx, "report", "which run folder?");
  return show(ctx, &in) == MK_OK ? MS_EXIT_OK : ms_cli_failed(ctx);
}
