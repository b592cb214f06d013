/* What a run folder says, for people: tables on the terminal, report.md, learning curves.
 *
 * Everything is read from the folder's CSV and JSON files, so that a report can be made again at any time. Every ratio
 * names its base, every median its n. */
#ifndef SUITE_REPORT_REPORT_H
#define SUITE_REPORT_REPORT_H

#include <cjson/cJSON.h>

#include "suite/record/csv.h"
#include "suite/run/supervisor.h"
#include "suite/study/paths.h"

typedef struct ms_report {
  char folder[MS_PATH_BYTES];
  ms_csv *summary, *contrasts, *claims, *launches, *steps, *evals;
  cJSON *manifest, *verdict;
  char metric[64]; /* the one that the main table shows: of the first contrast, else the study's first */
} ms_report;

/* `folder` may be the run's or a study's `latest` link. A file that is missing or damaged is an error that names it. */
mk_status ms_report_read(mk_context *ctx, const char *folder, ms_report **out);
void ms_report_destroy(mk_context *ctx, ms_report *report);

/* Display tables; cells are text, columns are headings. */
mk_status ms_report_cases(mk_context *ctx, const ms_report *report, ms_csv **out);
mk_status ms_report_contrasts(mk_context *ctx, const ms_report *report, ms_csv **out);
mk_status ms_report_claims(mk_context *ctx, const ms_report *report, ms_csv **out);
mk_status ms_report_metrics(mk_context *ctx, const ms_report *report, ms_csv **out);

/* A text of manifest.json or verdict.json by group and key; "" if missing. */
const char *ms_report_text(const cJSON *root, const char *group, const char *key);

/* To standard output. */
mk_status ms_report_print(mk_context *ctx, const ms_report *report);

/* As Markdown in a fresh heap block. */
mk_status ms_report_markdown(mk_context *ctx, const ms_report *report, char **out);

/* Writes curves.csv (median, least and greatest loss and step time over launches, by case and step) and, where gnuplot
 * is installed, loss.svg and step_ms.svg (and eval.svg) with the script curves.gp behind them. */
mk_status ms_report_curves(mk_context *ctx, ms_supervisor *supervisor, const ms_report *report);

/* Writes report.md and the curves into the run's folder. */
mk_status ms_report_write(mk_context *ctx, ms_supervisor *supervisor, const char *folder);

#endif
