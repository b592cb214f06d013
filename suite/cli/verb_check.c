/* moemark check FILE...: reads each file to its end, plans every scale, reports every fault. */
#include <string.h>

#include "kernels/base/heap.h"
#include "suite/cli/verb.h"

static const struct argp ARGP = {
    .args_doc = "FILE...",
    .doc =
        "Validates study files. Every fault is one line file:line:col: error: message on standard error; the exit "
        "code is 2 when there is one. Nothing is started.\v"
        "Beside the file itself, each of its scales is planned: models, systems, published numbers and peers must "
        "exist, and every case's trainer configuration must hold together."};

/* A fault of one scale does not hide those of the next. */
static mk_status check_scales(mk_context *ctx, const ms_study *study, ms_diagnostics *diag, int *cases) {
  for (int i = 0; i < study->n_scales; i++) {
    ms_plan *plan = NULL;
    int before = diag->count;
    mk_status st = ms_plan_create(ctx, study, study->scales[i].name, NULL, NULL, diag, &plan);
    if (st != MK_OK && diag->count == before) return st;
    if (st != MK_OK) mk_error_clear(ctx);
    *cases += plan != NULL ? plan->n_cases : 0;
    ms_plan_destroy(ctx, plan);
  }
  return MK_OK;
}

static mk_status check_file(mk_context *ctx, const char *path, ms_diagnostics *diag) {
  ms_study *study = NULL;
  int cases = 0;
  mk_status st = ms_study_read(ctx, path, diag, &study);
  if (st != MK_OK && diag->count > 0) {
    mk_error_clear(ctx);
    return MK_OK;
  }
  MK_TRY(ctx, st);
  st = check_scales(ctx, study, diag, &cases);
  if (st == MK_OK && diag->count == 0) {
    st = ms_out_line(ctx, "%s: ok (%d scale%s, %d cases)", path, study->n_scales, study->n_scales == 1 ? "" : "s",
                     cases);
  }
  ms_study_destroy(ctx, study);
  return st;
}

int ms_verb_check(mk_context *ctx, int argc, char **argv) {
  ms_arguments files = {0};
  bool clean = true;
  if (ms_cli_parse(ctx, &ARGP, argc, argv, NULL, &files) != MK_OK) return ms_cli_failed(ctx);
  if (files.count == 0) return ms_cli_usage(ctx, "check", "which study files?");
  for (int i = 0; i < files.count; i++) {
    ms_diagnostics diag = {0};
    mk_status st = check_file(ctx, files.item[i], &diag);
    ms_cli_diagnostics(&diag);
    clean = clean && diag.count == 0;
    ms_diagnostics_fini(ctx, &diag);
    if (st != MK_OK) return ms_cli_failed(ctx);
  }
  return clean ? MS_EXIT_OK : MS_EXIT_USAGE;
}
