/* Steps of the judge, in the order in which they run. Each fills its part of the judgement. */
#ifndef SUITE_JUDGE_PARTS_H
#define SUITE_JUDGE_PARTS_H

#include "suite/judge/judge.h"

/* Sanity of one "ok" launch. False with a reason when it must not count. What the records cannot answer is added to
 * `unchecked`. */
bool ms_sanity_holds(const ms_judgement *j, const ms_launch *launch, char *reason, char *unchecked);

mk_status ms_judge_cases(mk_context *ctx, ms_judgement *j);
mk_status ms_judge_metrics(mk_context *ctx, ms_judgement *j);
mk_status ms_judge_contrasts(mk_context *ctx, ms_judgement *j);
mk_status ms_judge_claims(mk_context *ctx, ms_judgement *j);

/* exit_code and undecided from all parts. */
void ms_judge_exit_code(ms_judgement *j);

/* Row of the published file for a metric of a case, or -1; *same_system says whether it may be judged (otherwise it is
 * shown only). */
int ms_published_row(const ms_judgement *j, int case_index, const char *metric, bool *same_system);

/* Values of one metric of a case that count, ascending, in a fresh heap block. None when the case did not pass. */
mk_status ms_judge_values(mk_context *ctx, const ms_judgement *j, int case_index, const char *metric, double **out,
                          int *count);

/* Launches of a case that ran well, by runs.csv; a metric may lack a value in some of them, never have more. */
int64_t ms_launches_well(const ms_csv *runs, const char *name);

/* Every row of an accepted file (at `path`) has its launches beside it, no fewer than it says. MK_ERR_FORMAT else. */
mk_status ms_accepted_check(mk_context *ctx, const char *path, const ms_csv *accepted);

/* Launches accepted as baseline for a metric of a case, in a fresh heap block; none when there is no accepted row, or
 * it was made by another machine, kernel or configuration (`reason` then says so). *row is the accepted row or -1. */
mk_status ms_accepted_values(mk_context *ctx, const ms_judgement *j, int case_index, const char *metric, double **out,
                             int *count, int64_t *row, char *reason);

enum { MS_JUDGE_TABLES = 4 };

/* A table that was written, and how many rows it has. */
typedef struct ms_judge_rows {
  const char *name;
  int64_t rows;
} ms_judge_rows;

/* Writes verdict.json, with the rows of the MS_JUDGE_TABLES tables beside it. */
mk_status ms_verdict_write(mk_context *ctx, const ms_judgement *j, const ms_judge_rows *rows);

#endif
