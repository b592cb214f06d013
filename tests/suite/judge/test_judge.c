/* Verdicts from runs whose values are set by hand. */
#include <cjson/cJSON.h>
#include <math.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "suite/judge/baseline.h"
#include "suite/judge/gate.h"
#include "suite/judge/judge.h"
#include "tests/suite/run/run_fixture.h"

static run_fixture f;

static void setup(void) { fixture_init(&f, STUDY, "smoke"); }
static void teardown(void) { fixture_fini(&f); }

enum { N = 6, CASES = 4 };

/* Launch-to-launch spread of 1 %. */
static const double SPREAD[N] = {1.0, 1.01, 0.99, 1.005, 0.995, 1.002};

static void launch_fill(const ms_run *run, ms_launch *l, double tok_s) {
  const ms_case *c = &run->plan->cases[l->case_index];
  ck_assert_int_eq(ms_records_create(&f.ctx, &l->records), MK_OK);
  ck_assert_int_eq(mk_heap_array(&f.ctx, 1, sizeof(ms_step), &l->records->steps), MK_OK);
  l->records->n_steps = 1;
  l->records->steps[0] = (ms_step){.step = 2, .loss = 5.5, .time_s = 1};
  strcpy(l->status, "ok");
  memset(l->comparability, '7', 64);
  for (int m = 0; m < MS_METRICS_MAX; m++)
    l->value[m] = NAN;
  l->value[ms_metric_index("tok_s")] = tok_s;
  l->value[ms_metric_index("step_ms_p50")] = 1e6 / tok_s;
  l->value[ms_metric_index("loss_last")] = 5.5;
  l->value[ms_metric_index("drop_rate")] = 0.01;
  l->value[ms_metric_index("params_total")] = (double)c->params_total;
  l->value[ms_metric_index("flop_token")] = c->flop_token;
  l->steps = 3;
  l->time_s = 0.3;
  l->peak_flops = NAN;
}

/* n launches of each case with these rates times the spread; a rate of 0 is a case that ends out of memory. */
static ms_run *run_make(int n, const double rate[CASES]) {
  ms_run *run = NULL;
  ck_assert_int_eq(mk_heap_alloc(&f.ctx, sizeof *run, &run), MK_OK);
  ck_assert_int_eq(mk_heap_array(&f.ctx, (size_t)(n * CASES), sizeof *run->launches, &run->launches), MK_OK);
  run->plan = f.plan;
  strcpy(run->system, "local");
  strcpy(run->id, "20260131T120000Z-abcdef");
  snprintf(run->folder, sizeof run->folder, "%s", f.folder);
  for (int c = 0; c < CASES; c++) {
    for (int i = 0; i < (rate[c] > 0 ? n : 1); i++) {
      ms_launch *l = &run->launches[run->n_launches++];
      l->case_index = c;
      l->number = i + 1;
      launch_fill(run, l, rate[c] * SPREAD[i]);
      if (rate[c] > 0) continue;
      strcpy(l->status, "oom");
      strcpy(l->message, "budget exceeded");
    }
  }
  return run;
}

static ms_judgement *judge(const ms_run *run, bool strict) {
  ms_judgement *j = NULL;
  ms_judge_options options = {.accepted_folder = f.folder, .strict = strict};
  mk_status st = ms_judge_create(&f.ctx, run, &options, &j);
  ck_assert_msg(st == MK_OK, "%s", f.ctx.error.message);
  return j;
}

static void done(ms_run *run, ms_judgement *j) {
  ms_judge_destroy(&f.ctx, j);
  ms_run_destroy(&f.ctx, run);
}

START_TEST(a_good_run_passes) {
  ms_run *run = run_make(N, (double[]){1000, 960, 900, 0});
  ms_judgement *j = judge(run, false);
  for (int c = 0; c < 3; c++)
    ck_assert_str_eq(j->cases[c].verdict, "PASS");
  ck_assert_str_eq(j->cases[3].verdict, "XFAIL");
  ck_assert_ptr_nonnull(strstr(j->cases[3].reason, "published as out of memory"));
  ck_assert_int_eq(j->exit_code, MS_EXIT_OK);
  const ms_metric_result *m = ms_judge_metric(j, 0, "tok_s");
  ck_assert_int_eq(m->n, 6);
  ck_assert_double_eq_tol(m->median, 1001, 1e-9);
  ck_assert(m->ci_lo == m->min && m->ci_hi == m->max && fabs(m->ci_pct - 96.875) < 1e-9);
  done(run, j);
}
END_TEST

START_TEST(published_values_of_another_system_are_shown_only) {
  ms_run *run = run_make(N, (double[]){1000, 960, 900, 0});
  ms_judgement *j = judge(run, false);
  const ms_metric_result *m = ms_judge_metric(j, 1, "tok_s");
  ck_assert_str_eq(m->ref_kind, "published");
  ck_assert_double_eq(m->ref, 950); /* not the row with another setting */
  ck_assert_str_eq(m->verdict, "no reference");
  ck_assert_ptr_nonnull(strstr(m->reason, "b300x8"));
  ck_assert(isnan(ms_judge_metric(j, 2, "tok_s")->ref)); /* another model's row is not ours */
  ck_assert_double_eq_tol(j->contrasts[0].published_ratio, 0.95, 1e-12);
  ck_assert_int_eq(j->exit_code, MS_EXIT_OK);
  done(run, j);
  run = run_make(N, (double[]){1000, 960, 900, 0});
  j = judge(run, true);
  ck_assert_int_eq(j->exit_code, MS_EXIT_UNDECIDED); /* no reference is never a pass when strict */
  done(run, j);
}
END_TEST

START_TEST(claims_by_their_whole_interval) {
  static const struct {
    double rate16;
    const char *verdict;
    ms_exit code;
  } WANT[] = {{960, "met", MS_EXIT_OK}, {700, "not met", MS_EXIT_JUDGED}, {901, "INCONCLUSIVE", MS_EXIT_OK}};
  for (int i = 0; i < 3; i++) {
    ms_run *run = run_make(N, (double[]){1000, WANT[i].rate16, 900, 0});
    ms_judgement *j = judge(run, false);
    ck_assert_msg(strcmp(j->claims[0].verdict, WANT[i].verdict) == 0, "%g: got %s", WANT[i].rate16,
                  j->claims[0].verdict);
    ck_assert_double_eq_tol(j->claims[0].value, WANT[i].rate16 / 1000, 1e-3);
    ck_assert(j->claims[0].lo < j->claims[0].value && j->claims[0].hi > j->claims[0].value);
    ck_assert_double_eq(j->claims[0].predicted, 0.93);
    ck_assert_int_eq(j->exit_code, WANT[i].code);
    done(run, j);
  }
}
END_TEST

START_TEST(claims_that_cannot_be_judged_say_why) {
  ms_run *run = run_make(N, (double[]){1000, 960, 900, 0});
  ms_judgement *j = judge(run, false);
  ck_assert_str_eq(j->claims[1].verdict, "not testable");
  ck_assert_str_eq(j->claims[1].reason, "one rank has no network");
  ck_assert_str_eq(j->claims[2].verdict, "met"); /* best of two: against 8 experts */
  ck_assert_double_eq_tol(j->claims[2].value, 0.9, 1e-3);
  ck_assert(!isnan(j->claims[2].lo));
  ck_assert_str_eq(j->claims[3].verdict, "not judged");
  done(run, j);
  run = run_make(N, (double[]){1000, 0, 900, 0}); /* a failed case has no ratio */
  j = judge(run, false);
  ck_assert_str_eq(j->cases[1].verdict, "FAIL");
  ck_assert_str_eq(j->claims[0].verdict, "INCONCLUSIVE");
  ck_assert_ptr_nonnull(strstr(j->claims[0].reason, "%experts=16: FAIL"));
  ck_assert(isnan(j->contrasts[0].ratio.value));
  ck_assert_int_eq(j->exit_code, MS_EXIT_RUN);
  done(run, j);
}
END_TEST

START_TEST(few_launches_are_labelled) {
  ms_run *run = run_make(3, (double[]){1000, 960, 900, 0});
  ms_judgement *j = judge(run, false);
  ck_assert_str_eq(j->claims[0].verdict, "met (low_n)");
  ck_assert(isnan(j->claims[0].lo));
  ck_assert_ptr_nonnull(strstr(j->contrasts[0].label, "low_n"));
  ck_assert(isnan(ms_judge_metric(j, 0, "tok_s")->ci_lo));
  ck_assert_int_eq(j->exit_code, MS_EXIT_OK);
  done(run, j);
}
END_TEST

START_TEST(an_unexpected_pass_is_a_failure) {
  ms_run *run = run_make(N, (double[]){1000, 960, 900, 800});
  ms_judgement *j = judge(run, false);
  ck_assert_str_eq(j->cases[3].verdict, "XPASS");
  ck_assert_int_eq(j->exit_code, MS_EXIT_JUDGED);
  done(run, j);
}
END_TEST

static ms_launch *first_of(ms_run *run, int case_index) {
  for (int i = 0; i < run->n_launches; i++) {
    if (run->launches[i].case_index == case_index) return &run->launches[i];
  }
  return NULL;
}

/* What breaks a launch's sanity makes the case fail, however fast it was. */
START_TEST(wrong_is_never_fast) {
  for (int fault = 0; fault < 7; fault++) {
    ms_run *run = run_make(N, (double[]){1000, 960, 900, 0});
    ms_launch *l = first_of(run, 1);
    const char *reason = "";
    if (fault == 0) l->records->steps[0].loss = NAN, reason = "loss of step 2 is not finite";
    if (fault == 1) l->value[ms_metric_index("drop_rate")] = 0.3, reason = "drop_rate is 0.3";
    if (fault == 2) l->value[ms_metric_index("drop_rate")] = NAN, reason = "drop_rate is nan";
    if (fault == 3) l->value[ms_metric_index("tok_s")] = NAN, reason = "no rate";
    if (fault == 4) l->value[ms_metric_index("mfu_pct")] = 1563, reason = "1563 % of the measured peak";
    if (fault == 5) l->value[ms_metric_index("params_total")] *= 1.01, reason = "params_total: the trainer reports";
    if (fault == 6) l->value[ms_metric_index("loss_last")] = nextafter(5.5, 6), reason = "loss_last is deterministic";
    ms_judgement *j = judge(run, false);
    ck_assert_msg(strcmp(j->cases[1].verdict, "FAIL") == 0, "fault %d passed", fault);
    ck_assert_msg(strstr(j->cases[1].reason, reason) != NULL, "fault %d: '%s' lacks '%s'", fault, j->cases[1].reason,
                  reason);
    ck_assert_int_eq(j->exit_code, MS_EXIT_RUN);
    ck_assert_str_eq(j->cases[0].verdict, "PASS");
    done(run, j);
  }
}
END_TEST

/* NaN, infinity, missing: a gated metric never passes (ralna/RALFit#138). */
START_TEST(a_gated_value_that_is_not_finite_fails) {
  static const double BAD[] = {NAN, INFINITY, -INFINITY};
  for (int i = 0; i < 3; i++) {
    ms_run *run = run_make(N, (double[]){1000, 960, 900, 0});
    first_of(run, 0)->value[ms_metric_index("step_ms_p50")] = BAD[i];
    ms_judgement *j = judge(run, false);
    ck_assert_str_eq(ms_judge_metric(j, 0, "step_ms_p50")->verdict, "FAIL");
    ck_assert_int_eq(j->exit_code, MS_EXIT_RUN);
    done(run, j);
  }
}
END_TEST

START_TEST(kinds_never_meet_in_a_ratio) {
  f.plan->cases[1].config.precision = MT_MXFP8; /* emulated on a CPU */
  ms_run *run = run_make(N, (double[]){1000, 960, 900, 0});
  ms_judgement *j = judge(run, false);
  ck_assert_str_eq(ms_case_kind(&f.plan->cases[1]), "emulated");
  ck_assert(isnan(j->contrasts[0].ratio.value));
  ck_assert_str_eq(j->claims[0].verdict, "INCONCLUSIVE");
  ck_assert_ptr_nonnull(strstr(j->claims[0].reason, "refused"));
  done(run, j);
}
END_TEST

/* accept: "+- eps": two one-sided tests. The spread of the second case decides between met and undecided. */
START_TEST(equality_by_two_one_sided_tests) {
  static const struct {
    double shift, spread;
    bool emulated;
    int n;
    const char *verdict;
  } rows[] = {{0.001, 0.002, false, 5, "met"},         {0.001, 0.002, true, 5, "met"},
              {0.030, 0.002, true, 5, "not met"},      {-0.030, 0.002, true, 5, "not met"},
              {0.001, 0.040, true, 5, "INCONCLUSIVE"}, {0.019, 0.004, true, 5, "INCONCLUSIVE"},
              {0.001, 0.002, true, 1, "INCONCLUSIVE"}};
  ms_claim *claim = &f.study->claims[0];
  ms_bound *bound = &((ms_scale *)(uintptr_t)f.plan->scale)->accept[0];
  strcpy(claim->expr, "drop_rate[experts=16] - drop_rate[experts=8]");
  strcpy(bound->op, "+-");
  bound->value = 0.02;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    f.plan->cases[1].config.precision = rows[i].emulated ? MT_MXFP8 : MT_FP32;
    ms_run *run = run_make(rows[i].n, (double[]){1000, 960, 900, 0});
    for (int l = 0; l < run->n_launches; l++) {
      ms_launch *at = &run->launches[l];
      double draw = (at->number % 2 == 0 ? 1 : -1) * rows[i].spread * at->number / 5;
      at->value[ms_metric_index("drop_rate")] = 0.1 + draw + (at->case_index == 1 ? rows[i].shift : 0);
    }
    ms_judgement *j = judge(run, false);
    ck_assert_msg(strcmp(j->claims[0].verdict, rows[i].verdict) == 0, "row %zu: got %s (%s)", i, j->claims[0].verdict,
                  j->claims[0].reason);
    if (rows[i].n > 1) ck_assert_double_eq_tol(j->claims[0].value, rows[i].shift, 1e-12);
    done(run, j);
  }
  strcpy(claim->expr, "tok_s[experts=16] - tok_s[experts=8]"); /* time is no value of the arithmetic */
  ms_run *run = run_make(N, (double[]){1000, 960, 900, 0});
  ms_judgement *j = judge(run, false);
  ck_assert_ptr_nonnull(strstr(j->claims[0].reason, "refused"));
  done(run, j);
}
END_TEST

/* "by seed": what launches of one seed have in common cancels, whatever the order they ran in; a lost launch takes its
 * partner with it. */
START_TEST(equality_between_launches_of_one_seed) {
  ms_claim *claim = &f.study->claims[0];
  ms_bound *bound = &((ms_scale *)(uintptr_t)f.plan->scale)->accept[0];
  strcpy(claim->expr, "drop_rate[experts=16] - drop_rate[experts=8]");
  strcpy(bound->op, "+-");
  bound->value = 0.02;
  for (int by_seed = 0; by_seed < 2; by_seed++) {
    bound->by_seed = by_seed;
    ms_run *run = run_make(5, (double[]){1000, 960, 900, 0});
    for (int l = 0; l < run->n_launches; l++) {
      ms_launch *at = &run->launches[l];
      double own = (at->number % 2 == 0 ? 1 : -1) * 0.001;
      at->value[ms_metric_index("drop_rate")] = 0.02 * at->number + (at->case_index == 1 ? 0.004 + own : 0);
    }
    ms_judgement *j = judge(run, false);
    ck_assert_str_eq(j->claims[0].verdict, by_seed ? "met" : "INCONCLUSIVE");
    ck_assert_int_eq(j->claims[0].n, 5);
    ck_assert_double_eq_tol(j->claims[0].value, 0.0038, 1e-12);
    /* differences 3 5 3 5 3 in thousandths: 3.8 +- 2.131847 x 1.095445 / sqrt(5) */
    if (by_seed) ck_assert_double_eq_tol(j->claims[0].hi, 0.0038 + 0.0010443869, 1e-9);
    done(run, j);
  }
}
END_TEST

/* A case of emulated arithmetic passes without a rate, and the row says why there is none. */
START_TEST(emulated_speed_is_no_result) {
  f.plan->cases[1].config.precision = MT_MXFP8;
  ms_run *run = run_make(N, (double[]){1000, 960, 900, 0});
  for (int l = 0; l < run->n_launches; l++) {
    if (run->launches[l].case_index != 1) continue;
    run->launches[l].value[ms_metric_index("tok_s")] = NAN;
    run->launches[l].value[ms_metric_index("step_ms_p50")] = NAN;
  }
  ms_judgement *j = judge(run, false);
  ck_assert_str_eq(j->cases[1].verdict, "PASS");
  ck_assert_str_eq(ms_judge_metric(j, 1, "tok_s")->verdict, "emulated");
  ck_assert_ptr_nonnull(strstr(ms_judge_metric(j, 1, "tok_s")->reason, "no result"));
  ck_assert_int_eq(j->exit_code, MS_EXIT_OK);
  done(run, j);
}
END_TEST

START_TEST(simulated_values_are_never_reproduced) {
  strcpy(f.plan->cases[0].config.device, "sim");
  snprintf(((ms_scale *)(uintptr_t)f.plan->scale)->system, MS_NAME_BYTES, "b300x8");
  ms_run *run = run_make(1, (double[]){1000, 960, 900, 0});
  strcpy(run->system, "b300x8");
  ms_judgement *j = judge(run, false);
  ck_assert_str_eq(ms_judge_metric(j, 0, "tok_s")->verdict, "SIM_WITHIN");
  ck_assert_str_eq(ms_judge_metric(j, 1, "tok_s")->verdict, "REPRODUCED"); /* measured on the published system */
  done(run, j);
  run = run_make(1, (double[]){500, 960, 900, 0});
  strcpy(run->system, "b300x8");
  j = judge(run, false);
  ck_assert_str_eq(ms_judge_metric(j, 0, "tok_s")->verdict, "SIM_OFF");
  ck_assert_int_eq(j->exit_code, MS_EXIT_OK); /* the simulator's error is reported, it fails no run */
  done(run, j);
}
END_TEST

/* ---- baselines ---- */

static void text_replace(const char *name, const char *old, const char *new_text) {
  char command[512];
  snprintf(command, sizeof command, "sed -i 's/%s/%s/' %s/%s", old, new_text, f.folder, name);
  ck_assert_int_eq(system(command), 0);
}

/* Writes what a finished run leaves, from a clean tree. */
static void run_write(const ms_run *run, const ms_judgement *j) {
  char path[MS_PATH_BYTES];
  ms_csv *runs = NULL;
  char manifest[512];
  ck_assert_int_eq(ms_run_runs_table(&f.ctx, run, &runs), MK_OK);
  snprintf(path, sizeof path, "%s/runs.csv", f.folder);
  ck_assert_int_eq(ms_csv_write(&f.ctx, path, runs), MK_OK);
  ms_csv_destroy(&f.ctx, runs);
  ck_assert_int_eq(ms_judge_write(&f.ctx, j), MK_OK);
  snprintf(
      manifest, sizeof manifest,
      "{\"run\":{\"id\":\"%s\",\"state\":\"complete\",\"study\":\"judged\",\"scale\":\"smoke\",\"system\":\"local\"},"
      "\"code\":{\"commit\":\"abc\",\"dirty\":\"no\"}}",
      run->id);
  snprintf(path, sizeof path, "%s/manifest.json", f.folder);
  ck_assert_int_eq(mk_file_write(&f.ctx, path, manifest, strlen(manifest)), MK_OK);
}

static void run_and_write(int n, const double rate[CASES], const char *id) {
  ms_run *run = run_make(n, rate);
  strcpy(run->id, id);
  ms_judgement *j = judge(run, false);
  run_write(run, j);
  done(run, j);
}

static mk_status accept(const char *reason, ms_baseline_change *change) {
  ms_baseline_options options = {.run_folder = f.folder, .accepted_folder = f.folder, .reason = reason};
  mk_error_clear(&f.ctx);
  return ms_baseline_update(&f.ctx, &options, change);
}

START_TEST(a_baseline_judges_the_next_run) {
  static const struct {
    double factor;
    const char *tok_s, *step_ms;
    ms_exit code;
  } WANT[] = {{1.0, "PASS", "PASS", MS_EXIT_OK},
              {0.8, "REGRESSED", "REGRESSED", MS_EXIT_JUDGED}, /* slower: less token/s, more ms */
              {1.3, "IMPROVED", "IMPROVED", MS_EXIT_OK},
              {0.975, "INCONCLUSIVE", "INCONCLUSIVE", MS_EXIT_OK}};
  ms_baseline_change change;
  run_and_write(N, (double[]){1000, 960, 900, 0}, "first");
  ck_assert_msg(accept(NULL, &change) == MK_OK, "%s", f.ctx.error.message);
  ck_assert_int_eq(change.added, 3 * 4); /* three cases, four metrics; the expected failure has none */
  for (int i = 0; i < 4; i++) {
    double k = WANT[i].factor;
    ms_run *run = run_make(N, (double[]){1000 * k, 960 * k, 900 * k, 0});
    ms_judgement *j = judge(run, false);
    const ms_metric_result *m = ms_judge_metric(j, 0, "tok_s");
    ck_assert_str_eq(m->ref_kind, "baseline");
    ck_assert_msg(strcmp(m->verdict, WANT[i].tok_s) == 0, "x%g: tok_s %s (%s)", k, m->verdict, m->reason);
    ck_assert_str_eq(ms_judge_metric(j, 0, "step_ms_p50")->verdict, WANT[i].step_ms);
    ck_assert_int_eq(j->exit_code, WANT[i].code);
    if (k > 1.2) ck_assert_ptr_nonnull(strstr(m->reason, "baseline outdated or run invalid"));
    done(run, j);
  }
}
END_TEST

/* Found before anything is started. */
START_TEST(a_baseline_that_lost_launches_is_refused) {
  static const struct {
    const char *edit, *message;
  } FAULTS[] = {{"sed -i 2d %s/judged/first.runs.csv", "first.runs.csv holds 5 launches of it: lines were lost"},
                {"rm %s/judged/first.runs.csv", "first.runs.csv: the launches behind"},
                {"sed -i 's/,first,/,..\\/first,/' %s/judged/local.csv", "run_id '../first' is no name of a run"}};
  ms_judge_options options = {.accepted_folder = f.folder};
  ms_baseline_change change;
  for (int i = 0; i < 3; i++) {
    char command[256];
    snprintf(command, sizeof command, "rm -rf %s/judged", f.folder);
    ck_assert_int_eq(system(command), 0);
    run_and_write(N, (double[]){1000, 960, 900, 0}, "first");
    ck_assert_int_eq(accept(NULL, &change), MK_OK);
    ck_assert_int_eq(ms_judge_references_check(&f.ctx, f.plan, &options), MK_OK);
    snprintf(command, sizeof command, FAULTS[i].edit, f.folder);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(ms_judge_references_check(&f.ctx, f.plan, &options), MK_ERR_FORMAT);
    ck_assert_msg(strstr(f.ctx.error.message, FAULTS[i].message) != NULL, "%s", f.ctx.error.message);
    mk_error_clear(&f.ctx);
  }
}
END_TEST

START_TEST(a_baseline_of_another_machine_is_not_used) {
  ms_baseline_change change;
  run_and_write(N, (double[]){1000, 960, 900, 0}, "first");
  ck_assert_int_eq(accept(NULL, &change), MK_OK);
  ms_run *run = run_make(N, (double[]){500, 500, 500, 0});
  for (int i = 0; i < run->n_launches; i++)
    memset(run->launches[i].comparability, '8', 64);
  ms_judgement *j = judge(run, false);
  ck_assert_str_eq(ms_judge_metric(j, 2, "tok_s")->verdict, "no reference");
  ck_assert_ptr_nonnull(strstr(ms_judge_metric(j, 2, "tok_s")->reason, "another machine"));
  done(run, j);
}
END_TEST

START_TEST(baselines_refuse_what_proves_nothing) {
  static const struct {
    const char *file, *old, *new_text, *message;
  } FAULTS[] = {{"manifest.json", "\"dirty\":\"no\"", "\"dirty\":\"yes\"", "changes"},
                {"manifest.json", "\"dirty\":\"no\"", "\"dirty\":\"unknown\"", "changes"},
                {"manifest.json", "complete", "interrupted", "not complete"}};
  ms_baseline_change change = {.added = 77};
  for (int i = 0; i < 3; i++) {
    run_and_write(N, (double[]){1000, 960, 900, 0}, "first");
    text_replace(FAULTS[i].file, FAULTS[i].old, FAULTS[i].new_text);
    ck_assert_msg(accept(NULL, &change) == MK_ERR_MISMATCH, "fault %d accepted", i);
    ck_assert_msg(strstr(f.ctx.error.message, FAULTS[i].message) != NULL, "%s", f.ctx.error.message);
  }
  run_and_write(N - 1, (double[]){1000, 960, 900, 0}, "few");
  ck_assert_int_eq(accept(NULL, &change), MK_ERR_MISMATCH);
  ck_assert_ptr_nonnull(strstr(f.ctx.error.message, "5 launches"));
  run_and_write(N, (double[]){1000, 0, 900, 0}, "failed");
  ck_assert_int_eq(accept(NULL, &change), MK_ERR_MISMATCH);
  ck_assert_ptr_nonnull(strstr(f.ctx.error.message, "FAIL"));
  ck_assert_int_eq(change.added, 77);
  char path[128];
  snprintf(path, sizeof path, "%s/judged/local.csv", f.folder);
  ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

START_TEST(a_worse_value_needs_a_reason_and_is_logged) {
  ms_baseline_change change;
  run_and_write(N, (double[]){1000, 960, 900, 0}, "first");
  ck_assert_int_eq(accept(NULL, &change), MK_OK);
  run_and_write(N, (double[]){1000, 960, 899, 0}, "second");
  ck_assert_int_eq(accept(NULL, &change), MK_ERR_MISMATCH);
  ck_assert_ptr_nonnull(strstr(f.ctx.error.message, "--reason"));
  ck_assert_msg(accept("another compiler", &change) == MK_OK, "%s", f.ctx.error.message);
  ck_assert_int_eq(change.worse, 2); /* token/s and step time of one case */
  char path[128];
  char *log = NULL;
  size_t bytes = 0;
  snprintf(path, sizeof path, "%s/judged/local.log", f.folder);
  ck_assert_int_eq(mk_file_read(&f.ctx, path, &log, &bytes), MK_OK);
  ck_assert_ptr_nonnull(strstr(log, "reason: another compiler"));
  ck_assert_ptr_nonnull(strstr(log, "run first"));
  ck_assert_ptr_nonnull(strstr(log, "%experts=32 tok_s: 900.9 -> 899.899"));
  mk_heap_free(&f.ctx, log);
}
END_TEST

/* ---- files ---- */

START_TEST(verdict_file_carries_the_code_and_the_way_back) {
  ms_run *run = run_make(N, (double[]){1000, 700, 900, 800});
  ms_judgement *j = judge(run, false);
  char path[MS_PATH_BYTES];
  char *text = NULL;
  size_t bytes = 0;
  ck_assert_int_eq(ms_judge_write(&f.ctx, j), MK_OK);
  snprintf(path, sizeof path, "%s/verdict.json", f.folder);
  ck_assert_int_eq(mk_file_read(&f.ctx, path, &text, &bytes), MK_OK);
  cJSON *root = cJSON_Parse(text);
  ck_assert_int_eq(cJSON_GetObjectItem(root, "exit_code")->valueint, MS_EXIT_JUDGED);
  const cJSON *failures = cJSON_GetObjectItem(root, "failures");
  ck_assert_int_eq(cJSON_GetArraySize(failures), 2); /* XPASS of 64, C1 not met */
  const cJSON *first = cJSON_GetArrayItem(failures, 0);
  ck_assert_str_eq(cJSON_GetObjectItem(first, "what")->valuestring, "%experts=64");
  ck_assert_ptr_nonnull(strstr(cJSON_GetObjectItem(first, "rerun")->valuestring, "-E 'experts == 64'"));
  ck_assert_int_gt(cJSON_GetObjectItem(first, "line")->valueint, 1);
  ck_assert_str_eq(cJSON_GetObjectItem(cJSON_GetArrayItem(failures, 1), "what")->valuestring, "C1");
  cJSON_Delete(root);
  mk_heap_free(&f.ctx, text);
  done(run, j);
}
END_TEST

START_TEST(gate_words) {
  static const struct {
    double value, lo, hi;
    const char *word;
  } WANT[] = {{1.05, 1.02, 1.08, "REGRESSED"}, {1.02, 1.01, 1.025, "PASS"},    {1.02, 1.01, 1.04, "INCONCLUSIVE"},
              {0.95, 0.92, 0.98, "IMPROVED"},  {1.00, 0.98, 1.02, "PASS"},     {1.05, 0.99, 1.10, "INCONCLUSIVE"},
              {0.98, 0.97, 0.99, "PASS"},      {NAN, NAN, NAN, "INCONCLUSIVE"}};
  for (size_t i = 0; i < sizeof WANT / sizeof WANT[0]; i++) {
    ms_ratio r = {WANT[i].value, WANT[i].lo, WANT[i].hi, true};
    ck_assert_msg(strcmp(ms_gate_word(&r, 0.03), WANT[i].word) == 0, "row %zu: got %s", i, ms_gate_word(&r, 0.03));
  }
  ck_assert_str_eq(ms_gate_word(&(ms_ratio){1.5, NAN, NAN, false}, 0.03), "INCONCLUSIVE");
}
END_TEST

START_TEST(published_words_follow_the_direction) {
  ck_assert_str_eq(ms_published_word(96, 104, 100, 0.05, false), "REPRODUCED");
  ck_assert_str_eq(ms_published_word(80, 90, 100, 0.05, false), "BELOW");
  ck_assert_str_eq(ms_published_word(80, 90, 100, 0.05, true), "ABOVE");
  ck_assert_str_eq(ms_published_word(110, 120, 100, 0.05, false), "ABOVE");
  ck_assert_str_eq(ms_published_word(110, 120, 100, 0.05, true), "BELOW");
  ck_assert_str_eq(ms_published_word(90, 100, 100, 0.05, false), "INCONCLUSIVE");
  ck_assert_str_eq(ms_published_word(NAN, NAN, 100, 0.05, false), "INCONCLUSIVE");
  ck_assert_str_eq(ms_published_word(1, 1, 0, 0.05, false), "INCONCLUSIVE");
}
END_TEST

START_TEST(exit_codes_in_their_order) {
  static const ms_exit ORDER[] = {MS_EXIT_OK,      MS_EXIT_UNDECIDED, MS_EXIT_JUDGED,     MS_EXIT_RUN,
                                  MS_EXIT_REFUSED, MS_EXIT_USAGE,     MS_EXIT_INTERRUPTED};
  for (int a = 0; a < 7; a++) {
    for (int b = 0; b < 7; b++)
      ck_assert_int_eq(ms_exit_stronger(ORDER[a], ORDER[b]), ORDER[a > b ? a : b]);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("judge");
  TCase *tc = tcase_create("runs by hand");
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_test(tc, a_good_run_passes);
  tcase_add_test(tc, published_values_of_another_system_are_shown_only);
  tcase_add_test(tc, claims_by_their_whole_interval);
  tcase_add_test(tc, claims_that_cannot_be_judged_say_why);
  tcase_add_test(tc, few_launches_are_labelled);
  tcase_add_test(tc, an_unexpected_pass_is_a_failure);
  tcase_add_test(tc, wrong_is_never_fast);
  tcase_add_test(tc, a_gated_value_that_is_not_finite_fails);
  tcase_add_test(tc, kinds_never_meet_in_a_ratio);
  tcase_add_test(tc, equality_by_two_one_sided_tests);
  tcase_add_test(tc, equality_between_launches_of_one_seed);
  tcase_add_test(tc, emulated_speed_is_no_result);
  tcase_add_test(tc, simulated_values_are_never_reproduced);
  tcase_add_test(tc, a_baseline_judges_the_next_run);
  tcase_add_test(tc, a_baseline_that_lost_launches_is_refused);
  tcase_add_test(tc, a_baseline_of_another_machine_is_not_used);
  tcase_add_test(tc, baselines_refuse_what_proves_nothing);
  tcase_add_test(tc, a_worse_value_needs_a_reason_and_is_logged);
  tcase_add_test(tc, verdict_file_carries_the_code_and_the_way_back);
  tcase_add_test(tc, gate_words);
  tcase_add_test(tc, published_words_follow_the_direction);
  tcase_add_test(tc, exit_codes_in_their_order);
  suite_add_tcase(suite, tc);
  return test_main(suite);
}
