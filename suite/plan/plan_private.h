/* Private to suite/plan. */
#ifndef SUITE_PLAN_PLAN_PRIVATE_H
#define SUITE_PLAN_PLAN_PRIVATE_H

#include "suite/plan/plan.h"
#include "suite/study/schema.h"

/* What the parts of one planning share. */
typedef struct ms_planner {
  mk_context *ctx;
  ms_diagnostics *diag;
  const ms_study *study;
  const ms_scale *scale;
  const ms_settings *overrides; /* may be NULL */
} ms_planner;

/* Adds a fault at a place of the study file. */
mk_status ms_plan_fault(ms_planner *p, ms_place place, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The last error of ctx becomes a fault at a place; memory errors stay errors. */
mk_status ms_plan_absorb(ms_planner *p, mk_status st, ms_place place, const char *what);

/* Config of the case with these levels: model, set, levels in factor order, measure, overrides; ranks of ep resolved.
 */
mk_status ms_case_resolve(ms_planner *p, const char (*level)[MS_NAME_BYTES], mt_config *out);

/* Finds and identifies the case's input files; one that cannot be read makes the case one that cannot run. */
mk_status ms_case_inputs(ms_planner *p, ms_case *c);

/* Budget of a rank in MiB where the scale says memory_budget: scaled, else 0. */
mk_status ms_plan_scaled_budget(ms_planner *p, double *out_mib);

/* Single-factor rule over all pairs of cases of each contrast. */
mk_status ms_plan_check_contrasts(ms_planner *p, const ms_plan *plan);

/* -S must not set a key that a factor sets, nor let a launch go on from an earlier run. */
mk_status ms_plan_check_overrides(ms_planner *p);

#endif
