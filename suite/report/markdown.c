/* report.md: the tables of the terminal, all metrics, the machine, what was left out. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/heap.h"
#include "suite/report/caption.h"
#include "suite/report/text.h"
#include "suite/run/folder.h"

typedef mk_status (*view_fn)(mk_context *ctx, const ms_report *report, ms_csv **out);

static void view_add(ms_text *t, const ms_report *r, const char *title, const char *caption, view_fn view) {
  ms_csv *table = NULL;
  if (t->status != MK_OK) return;
  t->status = view(t->ctx, r, &table);
  if (t->status != MK_OK) return;
  if (table->n_rows > 0) {
    ms_text_add(t, "## %s\n\n", title);
    if (caption[0] != '\0') ms_text_add(t, "%s.\n\n", caption);
    ms_text_table(t, table);
  }
  ms_csv_destroy(t->ctx, table);
}

static void failures_add(ms_text *t, const ms_report *r) {
  const cJSON *item = NULL, *list = cJSON_GetObjectItemCaseSensitive(r->verdict, "failures");
  if (cJSON_GetArraySize(list) == 0) return;
  ms_text_add(t, "## Failures\n\n");
  cJSON_ArrayForEach(item, list) {
    ms_text_add(t, "- **%s** %s: %s", ms_report_text(item, NULL, "verdict"), ms_report_text(item, NULL, "what"),
                ms_report_text(item, NULL, "reason"));
    const char *rerun = ms_report_text(item, NULL, "rerun"), *logs = ms_report_text(item, NULL, "logs");
    if (logs[0] != '\0') ms_text_add(t, " (logs: `%s`)", logs);
    if (rerun[0] != '\0') ms_text_add(t, "; again with `%s`", rerun);
    ms_text_add(t, "\n");
  }
  ms_text_add(t, "\n");
}

static void facts_add(ms_text *t, const ms_report *r) {
  static const char *const FACTS[][3] = {
      {"start", "run", "start_utc"},    {"command", "run", "command"},     {"study sha256", "run", "study_sha256"},
      {"commit", "code", "commit"},     {"changed tree", "code", "dirty"}, {"compiler", "code", "compiler"},
      {"CPU", "hardware", "cpu_model"}, {"features", "hardware", "isa"},   {"OS", "software", "os"},
      {"kernel", "software", "kernel"}, {"MPI", "software", "mpi"}};
  ms_text_add(t, "## Where and with what\n\n| fact | value |\n|---|---|\n");
  for (size_t i = 0; i < sizeof FACTS / sizeof FACTS[0]; i++) {
    ms_text_add(t, "| %s | %s |\n", FACTS[i][0], ms_report_text(r->manifest, FACTS[i][1], FACTS[i][2]));
  }
  const cJSON *item = NULL;
  cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(r->manifest, "cases")) {
    const char *device = ms_report_text(item, NULL, "device");
    if (device[0] == '\0') continue;
    ms_text_add(t, "| device of %s | %s |\n", ms_report_text(item, NULL, "case"), device);
  }
  ms_text_add(t, "\nEverything else is in `manifest.json`.\n\n");
}

static void plots_add(ms_text *t, const ms_report *r) {
  static const char *const PLOTS[][2] = {
      {"loss.svg", "Training loss"}, {"eval.svg", "Held-out loss over time"}, {"step_ms.svg", "Step time"}};
  for (size_t i = 0; i < sizeof PLOTS / sizeof PLOTS[0]; i++) {
    char path[MS_PATH_BYTES + 16];
    snprintf(path, sizeof path, "%s/%s", r->folder, PLOTS[i][0]);
    if (access(path, F_OK) == 0) ms_text_add(t, "![%s](%s)\n\n", PLOTS[i][1], PLOTS[i][0]);
  }
}

mk_status ms_report_markdown(mk_context *ctx, const ms_report *r, char **out) {
  char run[MS_CAPTION_BYTES], cases[MS_CAPTION_BYTES], reference[MS_CAPTION_BYTES];
  ms_text t = {.ctx = ctx};
  ms_caption_run(r, run, sizeof run);
  ms_caption_cases(r, cases, sizeof cases);
  ms_caption_reference(r, reference, sizeof reference);
  ms_text_add(&t, "# %s\n\n%s.\n\n", ms_report_text(r->manifest, "run", "study"), run);
  view_add(&t, r, "Cases", cases, ms_report_cases);
  if (reference[0] != '\0') ms_text_add(&t, "%s.\n\n", reference);
  view_add(&t, r, "Claims", "Ratios inside this run", ms_report_claims);
  view_add(&t, r, "Contrasts", "Case over base; n is launches of the case / of the base", ms_report_contrasts);
  failures_add(&t, r);
  plots_add(&t, r);
  view_add(&t, r, "All metrics", "", ms_report_metrics);
  facts_add(&t, r);
  if (t.status != MK_OK) {
    mk_heap_free(ctx, t.text);
    return t.status;
  }
  *out = t.text;
  return MK_OK;
}

mk_status ms_report_write(mk_context *ctx, ms_supervisor *supervisor, const char *folder) {
  mk_status st = MK_OK;
  ms_report *r = NULL;
  char *text = NULL;
  MK_TRY_GOTO(ctx, ms_report_read(ctx, folder, &r), out);
  MK_TRY_GOTO(ctx, ms_report_curves(ctx, supervisor, r), out);
  MK_TRY_GOTO(ctx, ms_report_markdown(ctx, r, &text), out);
  MK_TRY_GOTO(ctx, ms_text_write(ctx, r->folder, "report.md", text), out);
out:
  mk_heap_free(ctx, text);
  ms_report_destroy(ctx, r);
  return st;
}
