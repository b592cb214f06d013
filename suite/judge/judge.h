/* From a run's launches to verdicts: sanity and expected failures first, then intervals, references, contrasts, claims.
 *
 * Order when several apply to a case: FAIL > XPASS > XFAIL > unsupported > PASS. A value that is missing or not finite
 * never passes. Kinds (measured, simulated, emulated) never meet in one ratio. */
#ifndef SUITE_JUDGE_JUDGE_H
#define SUITE_JUDGE_JUDGE_H

#include "suite/exit_codes.h"
#include "suite/run/run.h"
#include "suite/stats/stats.h"

enum { MS_VERDICT_BYTES = 32, MS_REASON_BYTES = 1024 };

typedef struct ms_case_result {
  char verdict[MS_VERDICT_BYTES]; /* PASS FAIL XFAIL XPASS unsupported interrupted; empty: not run */
  char reason[MS_REASON_BYTES];
  char unchecked[MS_REASON_BYTES]; /* sanity checks that the records cannot answer; empty: none */
  const ms_launch *cause;          /* launch behind the reason; may be NULL */
  int n, n_failed;                 /* "ok" launches, others */
  bool not_steady;                 /* in at least one launch */
} ms_case_result;

typedef struct ms_metric_result {
  int case_index;
  const ms_metric_use *use;
  const ms_metric *metric; /* NULL: this build does not know the metric */
  int n, outliers;
  double median, ci_lo, ci_hi, ci_pct; /* NaN where n allows no interval */
  double min, max, mad_pct;
  double predicted, bound, bound_pct;
  double ref, ref_ratio;
  char ref_kind[MS_VERDICT_BYTES]; /* baseline, published, or empty */
  char verdict[MS_VERDICT_BYTES];
  char reason[MS_REASON_BYTES];
} ms_metric_result;

typedef struct ms_contrast_result {
  const ms_contrast *contrast;
  int case_index, base_index;
  int n, n_base;
  ms_ratio ratio;              /* case over base; value NaN when one of them has none */
  double published_ratio;      /* NaN = not published */
  char label[MS_REASON_BYTES]; /* low_n, "stack vs stack", or why there is no ratio */
} ms_contrast_result;

typedef struct ms_claim_result {
  const ms_claim *claim;
  double value, lo, hi, predicted;
  const ms_bound *accept;         /* NULL: not judged at this scale */
  int n;                          /* fewest launches behind one side */
  char verdict[MS_VERDICT_BYTES]; /* met, not met, INCONCLUSIVE, not testable, not judged; with " (low_n)" */
  char reason[MS_REASON_BYTES];
} ms_claim_result;

typedef struct ms_judgement {
  const ms_run *run;
  bool strict;
  ms_csv *published, *accepted;      /* NULL: none */
  char accepted_path[MS_PATH_BYTES]; /* where accepted baselines of this study and system are kept */
  ms_case_result *cases;             /* by case */
  ms_metric_result *metrics;         /* case-major, in the study's order of metrics */
  int n_metrics;
  ms_contrast_result *contrasts;
  int n_contrasts;
  ms_claim_result *claims; /* by claim */
  ms_exit exit_code;
  int undecided;                 /* judgements that could not be made */
  char warning[MS_REASON_BYTES]; /* about baselines; empty: none */
} ms_judgement;

typedef struct ms_judge_options {
  const char *accepted_folder; /* holds <study>/<system>.csv; NULL: baselines/accepted of the data root */
  bool strict;                 /* undecided judgements give exit code 4 */
} ms_judge_options;

/* Whether published numbers and the accepted baseline can be read: asked before launches that may take hours. */
mk_status ms_judge_references_check(mk_context *ctx, const ms_plan *plan, const ms_judge_options *options);

mk_status ms_judge_create(mk_context *ctx, const ms_run *run, const ms_judge_options *options, ms_judgement **out);
void ms_judge_destroy(mk_context *ctx, ms_judgement *judgement);

/* Writes summary.csv, contrasts.csv, claims.csv, flops.csv and verdict.json into the run's folder. */
mk_status ms_judge_write(mk_context *ctx, const ms_judgement *judgement);

/* The code that counts when two apply: 130, 2, 5, 3, 1, 4, 0. */
ms_exit ms_exit_stronger(ms_exit a, ms_exit b);

/* Result of a case's metric by name; NULL when the study does not use it. */
const ms_metric_result *ms_judge_metric(const ms_judgement *judgement, int case_index, const char *metric);

#endif
