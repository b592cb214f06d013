/* The report on standard output. */
#include <stdio.h>
#include <string.h>

#include "suite/cli/out.h"
#include "suite/report/caption.h"

static mk_status table_show(mk_context *ctx, const ms_csv *t) {
  mk_status st = MK_OK;
  ms_table *shown = NULL;
  MK_TRY_GOTO(ctx, ms_table_create(ctx, t->n_columns, (const char *const *)t->column, &shown), out);
  for (int64_t row = 0; row < t->n_rows; row++) {
    for (int i = 0; i < t->n_columns; i++) {
      MK_TRY_GOTO(ctx, ms_table_cell(ctx, shown, "%s", ms_csv_get(t, row, t->column[i])), out);
    }
  }
  MK_TRY_GOTO(ctx, ms_table_write(ctx, shown, MS_FORMAT_TABLE), out);
out:
  ms_table_destroy(ctx, shown);
  return st;
}

typedef mk_status (*view_fn)(mk_context *ctx, const ms_report *report, ms_csv **out);

static mk_status view_show(mk_context *ctx, const ms_report *r, const char *title, view_fn view) {
  mk_status st = MK_OK;
  ms_csv *t = NULL;
  MK_TRY_GOTO(ctx, view(ctx, r, &t), out);
  if (t->n_rows == 0) goto out;
  MK_TRY_GOTO(ctx, ms_out_line(ctx, "\n%s", title), out);
  MK_TRY_GOTO(ctx, table_show(ctx, t), out);
out:
  ms_csv_destroy(ctx, t);
  return st;
}

static mk_status failures_show(mk_context *ctx, const ms_report *r) {
  const cJSON *item = NULL, *list = cJSON_GetObjectItemCaseSensitive(r->verdict, "failures");
  cJSON_ArrayForEach(item, list) {
    const char *logs = ms_report_text(item, NULL, "logs"), *rerun = ms_report_text(item, NULL, "rerun");
    MK_TRY(ctx, ms_out_line(ctx, "\n%s  %s: %s", ms_report_text(item, NULL, "verdict"),
                            ms_report_text(item, NULL, "what"), ms_report_text(item, NULL, "reason")));
    if (logs[0] != '\0') MK_TRY(ctx, ms_out_line(ctx, "  logs:  %s/%s", r->folder, logs));
    if (rerun[0] != '\0') MK_TRY(ctx, ms_out_line(ctx, "  rerun: %s", rerun));
  }
  return MK_OK;
}

mk_status ms_report_print(mk_context *ctx, const ms_report *r) {
  char run[MS_CAPTION_BYTES], cases[MS_CAPTION_BYTES], reference[MS_CAPTION_BYTES];
  ms_caption_run(r, run, sizeof run);
  ms_caption_cases(r, cases, sizeof cases);
  ms_caption_reference(r, reference, sizeof reference);
  MK_TRY(ctx, ms_out_line(ctx, "%s", run));
  MK_TRY(ctx, view_show(ctx, r, cases, ms_report_cases));
  bool several = strcmp(ms_csv_get(r->contrasts, 0, "contrast"),
                        ms_csv_get(r->contrasts, r->contrasts->n_rows - 1, "contrast")) != 0;
  if (several) MK_TRY(ctx, view_show(ctx, r, "Contrasts: case over base, one factor differs", ms_report_contrasts));
  MK_TRY(ctx, view_show(ctx, r, "Claims: ratios inside this run", ms_report_claims));
  MK_TRY(ctx, failures_show(ctx, r));
  if (reference[0] != '\0') MK_TRY(ctx, ms_out_line(ctx, "\n%s", reference));
  return ms_out_line(ctx, "\nreport: %s/report.md", r->folder);
}
