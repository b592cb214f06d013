/* A plan of study.yaml and a folder for runs, shared by the tests of run, judge and report. */
#ifndef TESTS_SUITE_RUN_RUN_FIXTURE_H
#define TESTS_SUITE_RUN_RUN_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite/run/run.h"
#include "tests/support/check_main.h"

typedef struct run_fixture {
  mk_context ctx;
  char folder[64];
  ms_study *study;
  ms_plan *plan;
} run_fixture;

static inline void fixture_init(run_fixture *f, const char *study, const char *scale) {
  *f = (run_fixture){.folder = "/tmp/moemark-run-XXXXXX"};
  ms_diagnostics diag = {0};
  ms_machine_rates rates = {0};
  ck_assert_ptr_nonnull(mkdtemp(f->folder));
  setenv("MOEMARK_TRAINER", FAKE_TRAINER, 1);
  mk_status st = ms_study_read(&f->ctx, study, &diag, &f->study);
  ck_assert_msg(st == MK_OK, "%s: %s", study, diag.count > 0 ? diag.line[0] : f->ctx.error.message);
  st = ms_plan_create(&f->ctx, f->study, scale, &rates, NULL, &diag, &f->plan);
  ck_assert_msg(st == MK_OK, "%s: %s", study, diag.count > 0 ? diag.line[0] : f->ctx.error.message);
  ms_diagnostics_fini(&f->ctx, &diag);
}

static inline void fixture_fini(run_fixture *f) {
  char command[128];
  ms_plan_destroy(&f->ctx, f->plan);
  ms_study_destroy(&f->ctx, f->study);
  snprintf(command, sizeof command, "rm -rf %s", f->folder);
  ck_assert_int_eq(system(command), 0);
  ck_assert_int_eq(f->ctx.heap_live, 0);
}

/* The fake counts what the plan counts. */
static inline void fixture_counts(const run_fixture *f) {
  char name[64], value[64];
  for (int i = 0; i < f->plan->n_cases; i++) {
    const ms_case *c = &f->plan->cases[i];
    snprintf(name, sizeof name, "FAKE_PARAMS_%lld", (long long)c->config.experts);
    snprintf(value, sizeof value, "%lld", (long long)c->params_total);
    setenv(name, value, 1);
    snprintf(name, sizeof name, "FAKE_FLOPS_%lld", (long long)c->config.experts);
    snprintf(value, sizeof value, "%.17g", c->flop_token);
    setenv(name, value, 1);
  }
}

static inline ms_run *fixture_run(run_fixture *f, const ms_run_options *options) {
  ms_run *run = NULL;
  mk_status st = ms_run_create(&f->ctx, f->plan, options, &run);
  ck_assert_msg(st == MK_OK, "the runner itself failed: %s", f->ctx.error.message);
  return run;
}

/* First launch of a case. */
static inline const ms_launch *launch_of(const ms_run *run, int case_index) {
  for (int i = 0; i < run->n_launches; i++) {
    if (run->launches[i].case_index == case_index && run->launches[i].number == 1) return &run->launches[i];
  }
  return NULL;
}

#endif
