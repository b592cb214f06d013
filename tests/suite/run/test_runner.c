/* The runner with a fake trainer: every way in which a launch can end, and what stays behind. */
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/heap.h"
#include "suite/run/capture.h"
#include "suite/run/process_tree.h"
#include "suite/run/supervisor.h"
#include "tests/suite/run/run_fixture.h"

static run_fixture f;

static void setup(void) {
  fixture_init(&f, STUDY, "smoke");
  fixture_counts(&f);
}

static void teardown(void) { fixture_fini(&f); }

static void nothing_is_left(void) {
  int left = -1;
  ck_assert_int_eq(ms_tree_signal(&f.ctx, 0, &left), MK_OK);
  ck_assert_msg(left == 0, "%d processes are still there", left);
}

static const struct {
  const char *mode, *status, *message; /* a part of it */
  double timeout_s, longest_s;
} ENDS[] = {
    {"ok", "ok", "", 60, 5},
    {"oom", "oom", "budget of 1 MiB", 60, 5},
    {"nonfinite", "nonfinite", "not finite", 60, 5},
    {"config", "config", "top_k", 60, 5},
    {"crash", "crash", "exit code 7 without an end record: error: the fake fell over", 60, 5},
    {"segv", "crash", "signal 11", 60, 5},
    {"selfkill", "killed", "signal 9", 60, 5},
    {"noend", "crash", "exit code 0, but no end record", 60, 5},
    {"lie", "crash", "exit code 9 after a complete record", 60, 5},
    {"garbage", "format", "records.jsonl:2:1: this is not JSON", 60, 5},
    {"resumed", "config", "went on from step 3 of an earlier run", 60, 5},
    {"lost", "format", "records.jsonl holds 4 steps, its last line says 9", 60, 5},
    {"unheard-of", "crash", "exit code 2", 60, 5},
    {"silent", "timeout", "no new record for 0.5 s", 0.5, 10},
    {"stopped", "timeout", "no new record for 0.5 s", 0.5, 10},
    {"deaf", "timeout", "no new record for 0.5 s", 0.5, 12},
    {"orphans", "ok", "left 3 processes behind", 60, 12},
    {"slow", "ok", "", 1, 8},
    {"late", "ok", "", 1, 8},
};

START_TEST(every_end_has_its_word) {
  ms_run_options options = {.out = f.folder, .launches = 1, .quiet = true, .timeout_s = ENDS[_i].timeout_s};
  setenv("FAKE_8", ENDS[_i].mode, 1);
  setenv("FAKE_16", "ok", 1);
  ms_run *run = fixture_run(&f, &options);
  const ms_launch *l = launch_of(run, 0), *other = launch_of(run, 1);
  const char *mode = ENDS[_i].mode;
  ck_assert_msg(strcmp(l->status, ENDS[_i].status) == 0, "%s: got '%s' (%s), want '%s'", mode, l->status, l->message,
                ENDS[_i].status);
  ck_assert_msg(strstr(l->message, ENDS[_i].message) != NULL, "%s: '%s' lacks '%s'", mode, l->message,
                ENDS[_i].message);
  ck_assert_msg(l->wall_s < ENDS[_i].longest_s, "%s took %.1f s", mode, l->wall_s);
  ck_assert_msg(strcmp(other->status, "ok") == 0, "%s: the other case ended with '%s'", mode, other->status);
  ck_assert_double_eq_tol(other->value[ms_metric_index("tok_s")], 10000, 1e-6);
  nothing_is_left();
  ms_run_destroy(&f.ctx, run);
}
END_TEST

static const char *const NAMES[] = {"MOEMARK_SET", "MOEMARK_CONFIG", "MOEMARK_OUT", "MOEMARK_RESUME"};

/* Launches, peers and programs that are asked something start through one supervisor. */
START_TEST(children_do_not_get_the_callers_variables) {
  ms_supervisor *supervisor = NULL;
  char program[] = "/usr/bin/env", *const argv[] = {program, NULL}, *text = NULL;
  int code = -1;
  for (int i = 0; i < 4; i++)
    setenv(NAMES[i], "x", 1);
  ck_assert_int_eq(ms_supervisor_create(&f.ctx, &supervisor), MK_OK);
  ck_assert_int_eq(ms_capture(&f.ctx, supervisor, argv, 10, &text, &code), MK_OK);
  ck_assert_int_eq(code, 0);
  ck_assert_ptr_nonnull(strstr(text, "MOEMARK_TRAINER="));
  for (int i = 0; i < 4; i++) {
    ck_assert_msg(strstr(text, NAMES[i]) == NULL, "%s came through", NAMES[i]);
    unsetenv(NAMES[i]);
  }
  mk_heap_free(&f.ctx, text);
  ms_supervisor_destroy(&f.ctx, supervisor);
}
END_TEST

/* MOEMARK_RESUME would let a launch go on from another run. */
START_TEST(launches_do_not_hear_the_callers_variables) {
  ms_run_options options = {.out = f.folder, .launches = 1, .quiet = true};
  setenv("FAKE_8", "ok", 1);
  setenv("FAKE_16", "ok", 1);
  for (int i = 0; i < 4; i++) {
    setenv(NAMES[i], "old/step-000000003", 1);
    ms_run *run = fixture_run(&f, &options);
    ck_assert_msg(strcmp(launch_of(run, 0)->status, "ok") == 0, "%s: %s", NAMES[i], launch_of(run, 0)->message);
    ms_run_destroy(&f.ctx, run);
    unsetenv(NAMES[i]);
  }
}
END_TEST

static bool exists(const ms_run *run, const char *name) {
  char path[2 * MS_PATH_BYTES + 64];
  snprintf(path, sizeof path, "%s/%s", run->folder, name);
  return access(path, F_OK) == 0;
}

START_TEST(folder_holds_everything) {
  static const char *const FILES[] = {"study.yaml",
                                      "manifest.json",
                                      "launches.csv",
                                      "runs.csv",
                                      "steps.csv",
                                      "evals.csv",
                                      "experts=8/launch-1/run.json",
                                      "experts=8/launch-1/command",
                                      "experts=8/launch-1/stdout.log",
                                      "experts=8/launch-1/stderr.log",
                                      "experts=8/launch-1/records.jsonl",
                                      "experts=8/launch-1/rc",
                                      "experts=8/launch-1/status",
                                      "experts=16/launch-2/rc",
                                      "../latest/runs.csv"};
  ms_run_options options = {.out = f.folder, .quiet = true};
  unsetenv("FAKE_8");
  unsetenv("FAKE_16");
  ms_run *run = fixture_run(&f, &options);
  char path[MS_PATH_BYTES + 16];
  ms_csv *runs = NULL;
  ck_assert_int_eq(run->n_launches, 4);
  for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++)
    ck_assert_msg(exists(run, FILES[i]), "no %s", FILES[i]);
  snprintf(path, sizeof path, "%s/runs.csv", run->folder);
  ck_assert_int_eq(ms_csv_read(&f.ctx, path, &runs), MK_OK);
  ck_assert_int_eq(runs->n_rows, 4);
  ck_assert_str_eq(ms_csv_get(runs, 0, "schema"), "moemark/runs/1");
  ck_assert_double_eq(ms_csv_number(runs, 0, "steps"), 3); /* the warm-up step does not count */
  ck_assert_double_eq_tol(ms_csv_number(runs, 0, "tok_s"), 10000, 1e-6);
  ck_assert_int_eq((int)strlen(ms_csv_get(runs, 0, "comparability")), 64);
  ms_csv_destroy(&f.ctx, runs);
  ms_run *again = fixture_run(&f, &options); /* never overwritten: another folder */
  ck_assert_str_ne(run->folder, again->folder);
  ms_run_destroy(&f.ctx, run);
  ms_run_destroy(&f.ctx, again);
}
END_TEST

/* A setting, and the column that then says more; without the setting its cell is empty. */
static const char *const COLUMN[][4] = {
    {"pp", "2", "pp_schedule", "1f1b"},
    {"pp", "2", "pp_chunks", "0"},
    {"shard", "dist_opt", "grad_reduce", "all_reduce"},
    {"shard", "fsdp", "fsdp_shard_ranks", "0"},
    {"shard", "fsdp", "fsdp_reshard", "after_forward"},
    {"shard", "fsdp", "fsdp_reduce", "each"},
    {"recompute", "selective", "recompute_rule", "torchtitan"},
    {"precision", "mxfp8", "mxfp8_ep", "true"},
    {"precision", "mxfp8", "mxfp8_scale", "rceil"},
    {"capacity_factor", "1.25", "capacity_scope", "rank"},
};

START_TEST(columns_say_what_was_asked_for) {
  ms_run_options options = {.out = f.folder, .launches = 1, .quiet = true};
  unsetenv("FAKE_8");
  unsetenv("FAKE_16");
  ms_run *run = fixture_run(&f, &options);
  mt_config *c = &run->plan->cases[0].config, plain = *c;
  for (size_t i = 0; i < sizeof COLUMN / sizeof COLUMN[0]; i++) {
    ms_csv *set = NULL, *unset = NULL;
    *c = plain;
    c->shard = MT_SHARD_NONE;
    ck_assert_int_eq(ms_run_runs_table(&f.ctx, run, &unset), MK_OK);
    ck_assert_int_eq(mt_config_set(&f.ctx, c, COLUMN[i][0], COLUMN[i][1]), MK_OK);
    ck_assert_int_eq(ms_run_runs_table(&f.ctx, run, &set), MK_OK);
    int row = run->launches[0].case_index == 0 ? 0 : 1;
    ck_assert_str_eq(ms_csv_get(unset, row, COLUMN[i][2]), "");
    ck_assert_str_eq(ms_csv_get(set, row, COLUMN[i][2]), COLUMN[i][3]);
    ms_csv_destroy(&f.ctx, unset);
    ms_csv_destroy(&f.ctx, set);
  }
  *c = plain;
  ms_run_destroy(&f.ctx, run);
}
END_TEST

START_TEST(a_failed_case_is_not_launched_again) {
  ms_run_options options = {.out = f.folder, .launches = 3, .quiet = true};
  setenv("FAKE_8", "crash", 1);
  setenv("FAKE_16", "ok", 1);
  ms_run *run = fixture_run(&f, &options);
  const ms_launch *first = NULL;
  ck_assert_int_eq(ms_run_ended(run, 0), 1);
  ck_assert_int_eq(ms_run_failed(run, 0, &first), 1);
  ck_assert_int_eq(ms_run_ended(run, 1), 3);
  int skipped = 0;
  for (int i = 0; i < run->n_launches; i++)
    skipped += strcmp(run->launches[i].status, "skipped") == 0;
  ck_assert_int_eq(skipped, 2);
  ms_run_destroy(&f.ctx, run);
}
END_TEST

START_TEST(maxfail_stops_the_run) {
  ms_run_options options = {.out = f.folder, .launches = 2, .quiet = true, .max_fail = 1, .order_seed = 1};
  setenv("FAKE_8", "crash", 1);
  setenv("FAKE_16", "crash", 1);
  ms_run *run = fixture_run(&f, &options);
  ck_assert_int_eq(ms_run_ended(run, 0) + ms_run_ended(run, 1), 1);
  ms_run_destroy(&f.ctx, run);
}
END_TEST

/* Sends us SIGTERM once a launch writes records. Two forks: a helper must not count as something the launch left. */
static void stop_later(void) {
  pid_t self = getpid(), middle = fork();
  ck_assert_int_ge(middle, 0);
  if (middle > 0) {
    waitpid(middle, NULL, 0);
    return;
  }
  if (fork() > 0) _exit(0);
  char command[256];
  snprintf(command, sizeof command,
           "until ls %s/fake/latest/*/launch-1/records.jsonl >/dev/null 2>&1; do sleep 0.1; done", f.folder);
  int found = system(command);
  if (found == 0) kill(self, SIGTERM);
  _exit(0);
}

/* Someone else's SIGTERM: the launch at hand ends, what is finished stays, the rest is pending. */
START_TEST(an_interrupted_run_keeps_what_it_has) {
  ms_run_options options = {.out = f.folder, .launches = 1, .quiet = true, .order_seed = 3};
  setenv("FAKE_8", "silent", 1);
  setenv("FAKE_16", "silent", 1);
  stop_later();
  ms_run *run = fixture_run(&f, &options);
  int interrupted = 0, pending = 0;
  for (int i = 0; i < run->n_launches; i++) {
    interrupted += strcmp(run->launches[i].status, "interrupted") == 0;
    pending += strcmp(run->launches[i].status, "pending") == 0;
  }
  ck_assert(run->interrupted);
  ck_assert_int_eq(interrupted, 1);
  ck_assert_int_eq(pending, 1);
  ck_assert(exists(run, "runs.csv") && exists(run, "manifest.json"));
  nothing_is_left();
  ms_run_destroy(&f.ctx, run);
}
END_TEST

START_TEST(a_missing_trainer_is_named) {
  ms_run_options options = {.out = f.folder, .quiet = true};
  ms_run *run = NULL;
  setenv("MOEMARK_TRAINER", "/nowhere/moemark-trainer", 1);
  ck_assert_int_eq(ms_run_create(&f.ctx, f.plan, &options, &run), MK_ERR_UNSUPPORTED);
  ck_assert_ptr_nonnull(strstr(f.ctx.error.message, "/nowhere/moemark-trainer"));
  ck_assert_ptr_null(run);
}
END_TEST

START_TEST(a_missing_mpirun_names_its_package) {
  ms_run_options options = {.out = f.folder, .quiet = true};
  ms_run *run = NULL;
  f.plan->cases[0].config.ranks = 2;
  setenv("PATH", "/nowhere", 1);
  ck_assert_int_eq(ms_run_create(&f.ctx, f.plan, &options, &run), MK_ERR_UNSUPPORTED);
  ck_assert_ptr_nonnull(strstr(f.ctx.error.message, "openmpi-bin"));
  setenv("PATH", "/usr/bin:/bin", 1);
}
END_TEST

START_TEST(an_unwritable_folder_is_an_error) {
  char path[128];
  snprintf(path, sizeof path, "%s/file", f.folder);
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  fclose(file);
  ms_run_options options = {.out = path, .quiet = true}; /* a file where a folder must be: also root cannot write */
  ms_run *run = NULL;
  ck_assert_int_eq(ms_run_create(&f.ctx, f.plan, &options, &run), MK_ERR_OUTPUT);
  ck_assert_ptr_nonnull(strstr(f.ctx.error.message, path));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("runner");
  TCase *tc = test_case(suite, "fake trainer", 60);
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_loop_test(tc, every_end_has_its_word, 0, (int)(sizeof ENDS / sizeof ENDS[0]));
  tcase_add_test(tc, children_do_not_get_the_callers_variables);
  tcase_add_test(tc, launches_do_not_hear_the_callers_variables);
  tcase_add_test(tc, folder_holds_everything);
  tcase_add_test(tc, columns_say_what_was_asked_for);
  tcase_add_test(tc, a_failed_case_is_not_launched_again);
  tcase_add_test(tc, maxfail_stops_the_run);
  tcase_add_test(tc, an_interrupted_run_keeps_what_it_has);
  tcase_add_test(tc, a_missing_trainer_is_named);
  tcase_add_test(tc, a_missing_mpirun_names_its_package);
  tcase_add_test(tc, an_unwritable_folder_is_an_error);
  return test_main(suite);
}
