/* A plan: the cases of one study at one scale, each with its resolved trainer config, what is expected of it and what
 * is predicted. Pure: starts nothing, writes nothing. */
#ifndef SUITE_PLAN_PLAN_H
#define SUITE_PLAN_PLAN_H

#include "suite/study/expr.h"
#include "suite/study/study.h"

/* Rates of this machine, measured by `moemark sysinfo --peaks`; 0 = not measured (no absolute prediction then). */
typedef struct ms_machine_rates {
  double gemm_fp32_flops, gemm_bf16_flops; /* FLOP/s, all cores */
  double bandwidth_bytes_per_s;
  char kernel[MS_NAME_BYTES]; /* GEMM kernel chosen for bf16 */
} ms_machine_rates;

typedef struct ms_case {
  char name[MS_LINE_BYTES];                  /* "%experts=8 %stack=dist_opt" */
  char hash[13];                             /* first 12 hex digits of the resolved config's SHA-256: see plan.c */
  char level[MS_MAX_FACTORS][MS_NAME_BYTES]; /* in factor order */
  mt_config config;                          /* resolved; what run.json will say */
  char data_id[MK_HASH_BYTES];               /* of the files that data_path names, by content; empty: none */
  char weights_id[MK_HASH_BYTES];            /* the same for weights_in */
  char peer[MS_NAME_BYTES], peer_args[MS_LINE_BYTES];
  const ms_expect_fail *expect;       /* NULL: must run */
  size_t planned_bytes[MK_MEM_COUNT]; /* per rank, from the trainer's memory plan; 0 for a peer */
  size_t planned_total_bytes;
  double predicted_tok_s;              /* bound-based; NaN when rates are not measured, and for a peer */
  double flop_token;                   /* Olmo-core 3 convention */
  int64_t params_total, params_active; /* norms counted */
  char unsupported[MS_LINE_BYTES];     /* why this build or machine cannot run the case; empty: it can */
} ms_case;

typedef struct ms_plan {
  const ms_study *study;
  const ms_scale *scale;
  ms_case *cases;
  int n_cases;
  ms_machine_rates rates;
} ms_plan;

/* Product of the factor levels minus exclusions; a factor sets only what `define` names (an int factor sets the key
 * of its own name). Resolves ranks, ep, `memory_budget: scaled`; checks every config. Errors go to diag. */
mk_status ms_plan_create(mk_context *ctx, const ms_study *study, const char *scale, const ms_machine_rates *rates,
                         const ms_settings *overrides, ms_diagnostics *diag, ms_plan **out);
void ms_plan_destroy(mk_context *ctx, ms_plan *plan);

/* The scale's system; "local" when it names none. */
const char *ms_plan_system(const ms_plan *plan);

/* The case that a metric of a claim means, or that has these levels (in factor order); NULL when there is none. */
const ms_case *ms_plan_case_find(const ms_plan *plan, const ms_metric_ref *ref);
const ms_case *ms_plan_case_at(const ms_plan *plan, const char (*level)[MS_NAME_BYTES]);

/* Predicted tokens per second over all ranks of one machine: a bound, see predict.c. NaN when a rate is missing. */
double ms_predict_tok_s(const mt_config *cfg, const ms_machine_rates *rates);

/* Share of the optimizer (norm and AdamW) in that step time, by the same bounds; NaN likewise. */
double ms_predict_optimizer_share(const mt_config *cfg, const ms_machine_rates *rates);

/* Keys in which the resolved configs of two cases differ, comma-separated in `keys`; returns their number. More than
 * one on the two sides of a contrast makes it "stack vs stack". */
int ms_case_difference(const ms_case *a, const ms_case *b, char *keys, size_t bytes);

/* A condition from a command line; its syntax is checked when it is evaluated. */
mk_status ms_condition_make(mk_context *ctx, const char *text, ms_condition *out);

/* Evaluates a condition on a case's levels; int factors compare as numbers. Used by exclude, expect_fail and -E. */
mk_status ms_condition_eval(mk_context *ctx, const ms_study *study, const ms_condition *condition, const ms_case *c,
                            bool *out);

/* How the numbers of a case come about: mt_config_kind, and "measured" for a peer. */
const char *ms_case_kind(const ms_case *c);

/* Emulated arithmetic: what it computes counts, its speed is no result. */
bool ms_case_is_emulated(const ms_case *c);

#endif
