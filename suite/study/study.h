/* A study file as a structure. One parse reads everything and reports all errors (file:line:col: error: message, with
 * the nearest known key); nothing is interpreted twice. Format: suite/README.md, example: experiments/expert-scaling.
 */
#ifndef SUITE_STUDY_STUDY_H
#define SUITE_STUDY_STUDY_H

#include "kernels/base/hash.h"
#include "suite/study/diagnostics.h"
#include "suite/study/paths.h"
#include "trainer/launch/config.h"

enum { MS_NAME_BYTES = 64, MS_LINE_BYTES = 512, MS_MAX_FACTORS = 8, MS_MAX_TAGS = 16, MS_MAX_PUBLISHED_CASES = 16 };

/* key: value of the trainer, as written; checked against mt_config's keys while parsing. In a level's set `model` names
 * a file of suite/models/ that is loaded before the other keys. */
typedef struct ms_setting {
  char key[MS_NAME_BYTES];
  char value[MT_TEXT_BYTES];
  ms_place place;
} ms_setting;

typedef struct ms_settings {
  ms_setting *item;
  int count;
} ms_settings;

/* MS_FACTOR_BROKEN only while a file with that fault is being checked. */
typedef enum ms_factor_type { MS_FACTOR_INT, MS_FACTOR_LEVEL, MS_FACTOR_BROKEN } ms_factor_type;

typedef struct ms_factor {
  char name[MS_NAME_BYTES];
  ms_factor_type type;
  ms_place place;
} ms_factor;

/* What a level of a `level` factor sets. A level with `peer` runs baselines/peers/<peer>/run.sh instead of our trainer,
 * with the arguments of `args`, in which {factor} stands for the case's level of that factor. */
typedef struct ms_level {
  char factor[MS_NAME_BYTES];
  char name[MS_NAME_BYTES];
  char scale[MS_NAME_BYTES]; /* the scale whose own define: it stands in; empty = the study's, for all scales */
  ms_settings set;
  char peer[MS_NAME_BYTES]; /* empty: our trainer */
  char args[MS_LINE_BYTES];
  ms_place place;
} ms_level;

/* A condition over factors, e.g. "stack == dist_opt and experts >= 64", with its text for messages. */
typedef struct ms_condition {
  char text[MS_LINE_BYTES];
  ms_place place;
} ms_condition;

typedef struct ms_exclude {
  ms_condition when;
  char reason[MS_LINE_BYTES];
} ms_exclude;

typedef struct ms_expect_fail {
  ms_condition when;
  char status[MS_NAME_BYTES]; /* "oom", ... as in the end record */
  char reason[MS_LINE_BYTES];
} ms_expect_fail;

typedef struct ms_factor_levels {
  char factor[MS_NAME_BYTES];
  char (*level)[MS_NAME_BYTES];
  ms_place *level_place;
  int count;
  ms_place place;
} ms_factor_levels;

/* factor: level, where a map names a case. */
typedef struct ms_case_level {
  char factor[MS_NAME_BYTES], level[MS_NAME_BYTES];
  ms_place place;
} ms_case_level;

/* `memory_budget: scaled` in a scale's set, with the block memory_reference naming one case: budget of a rank =
 * published memory of a device (system of the scale `published`) x planned bytes of that case here / the same at
 * `published`. */
typedef struct ms_memory_reference {
  bool scaled;
  ms_place scaled_place;
  ms_case_level of[MS_MAX_FACTORS];
  int n_of;
  ms_place place;
} ms_memory_reference;

typedef struct ms_bound { /* accept: {C1: ">= 0.90", C2: "+- 0.02", C3: "+- 0.02 by seed"} */
  char claim[MS_NAME_BYTES];
  char op[3]; /* ">=", "<=", ">", "<"; "+-": a difference of two means equals 0 within value */
  double value;
  bool by_seed; /* the difference is taken between launches of one seed */
  ms_place place;
} ms_bound;

typedef struct ms_prediction {
  char claim[MS_NAME_BYTES];
  double value;
  ms_place place;
} ms_prediction;

typedef struct ms_not_testable {
  char claim[MS_NAME_BYTES];
  char reason[MS_LINE_BYTES];
  ms_place place;
} ms_not_testable;

/* published_case: our level -> level name in the published file */
typedef struct ms_published_case {
  char level[MS_NAME_BYTES], published[MS_NAME_BYTES];
  ms_place place;
} ms_published_case;

typedef struct ms_measure {
  int64_t warmup_steps, steps, launches;
  char order[MS_NAME_BYTES]; /* shuffled_blocks | sequential */
  char stat[MS_NAME_BYTES];  /* tokens_over_time | median_step */
  char seeds[MS_NAME_BYTES]; /* fixed | per_launch: launch n adds n - 1 to the seed */
  double timeout_s;
} ms_measure;

typedef struct ms_scale {
  char name[MS_NAME_BYTES]; /* smoke, local, published */
  char model[MS_NAME_BYTES];
  ms_place model_place;
  ms_settings set;
  char system[MS_NAME_BYTES]; /* empty = local */
  ms_factor_levels levels[MS_MAX_FACTORS];
  int n_levels;
  ms_exclude *exclude;
  int n_exclude;
  ms_expect_fail *expect_fail;
  int n_expect_fail;
  ms_measure measure;
  ms_prediction *predict;
  int n_predict;
  ms_bound *accept;
  int n_accept;
  ms_not_testable *not_testable;
  int n_not_testable;
  ms_published_case published_case[MS_MAX_PUBLISHED_CASES];
  int n_published_case;
  ms_memory_reference memory;
  ms_place place;
} ms_scale;

typedef struct ms_metric_use {
  char name[MS_NAME_BYTES];
  char unit[MS_NAME_BYTES];
  bool has_better, lower_is_better, deterministic, gate;
  double delta; /* relevance threshold; 0 = not set */
  ms_place place;
} ms_metric_use;

typedef struct ms_sanity {
  char check[MS_NAME_BYTES]; /* loss_finite, params_total, rank_agreement, drop_rate */
  char of[MS_NAME_BYTES];
  char equals[MS_NAME_BYTES]; /* "published.params_total" or a number */
  double rel, abs, max;
  bool has_max;
  ms_place place;
} ms_sanity;

typedef struct ms_contrast {
  char id[MS_NAME_BYTES], factor[MS_NAME_BYTES], base[MS_NAME_BYTES];
  char within[MS_NAME_BYTES]; /* factor along which the pairs are listed; empty: all others */
  char metric[MS_NAME_BYTES];
  ms_place place;
} ms_contrast;

typedef struct ms_claim {
  char id[MS_NAME_BYTES];
  char says[MS_LINE_BYTES];
  double published;         /* NaN when the source gives none */
  char expr[MS_LINE_BYTES]; /* metric[factor=level,...] / metric[...], or - between two for "+-" */
  ms_place place, expr_place;
} ms_claim;

typedef struct ms_study {
  char path[MS_PATH_BYTES], folder[MS_PATH_BYTES];
  char sha256[MK_HASH_BYTES]; /* of the file's bytes */
  char id[MS_NAME_BYTES], title[MS_LINE_BYTES];
  char cite[MS_NAME_BYTES], where[MS_LINE_BYTES], url[MS_LINE_BYTES];
  char tags[MS_MAX_TAGS][MS_NAME_BYTES];
  int n_tags;
  ms_factor factors[MS_MAX_FACTORS];
  int n_factors;
  ms_level *levels;
  int n_level_defs;
  ms_scale *scales;
  int n_scales;
  ms_metric_use *metrics;
  int n_metrics;
  ms_sanity *sanity;
  int n_sanity;
  ms_contrast *contrasts;
  int n_contrasts;
  ms_claim *claims;
  int n_claims;
  char published_file[MS_PATH_BYTES]; /* resolved; empty: none */
  double published_tolerance;
  bool baseline_require;
  int64_t baseline_max_age_days;
  double budget_gpu_minutes;
} ms_study;

/* Parses and checks `path`. All faults are added to `diag` (owned by the caller, ms_diagnostics_fini); with any fault
 * the result is MK_ERR_CONFIG and *out stays untouched. */
mk_status ms_study_read(mk_context *ctx, const char *path, ms_diagnostics *diag, ms_study **out);
void ms_study_destroy(mk_context *ctx, ms_study *study);

/* By name; NULL or -1 when there is none. A level is looked for in the define: of `scale` first, then in the study's.
 */
const ms_scale *ms_study_scale_find(const ms_study *study, const char *name);
int ms_study_factor_find(const ms_study *study, const char *name);
const ms_level *ms_study_level_find(const ms_study *study, const char *scale, const char *factor, const char *name);
const ms_claim *ms_study_claim_find(const ms_study *study, const char *id);
const ms_metric_use *ms_study_metric_find(const ms_study *study, const char *name);

#endif
