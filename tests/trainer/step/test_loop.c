/* A whole run and what it records: one line a step, in order, an end record in every case, exit codes. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "tests/support/check_main.h"
#include "tests/support/files.h"
#include "tests/trainer/support/tiny.h"
#include "trainer/step/loop.h"

static int count_text(const char *text, const char *part) {
  int n = 0;
  for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part))
    n++;
  return n;
}

static void limit_files(rlim_t bytes) {
  struct rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
  setrlimit(RLIMIT_FSIZE, &limit);
}

/* Runs c with records in a fresh folder, on a disk that takes files of `most` bytes; gives the records' text. */
static mk_status run_limited(mk_context *ctx, const mt_config *c, rlim_t most, char **text) {
  char folder[] = "/tmp/moemark-loop-XXXXXX", path[64];
  mt_comm *world = NULL;
  size_t bytes = 0;
  ck_assert_ptr_nonnull(mkdtemp(folder));
  tiny_ok(ctx, mt_comm_self_create(ctx, &world), "self");
  limit_files(most); /* Check's own messages go through a file, too */
  mk_status st = mt_loop_run(ctx, c, world, folder);
  limit_files(RLIM_INFINITY);
  mt_comm_destroy(world);
  mk_context read = {0};
  snprintf(path, sizeof path, "%s/records.jsonl", folder);
  tiny_ok(&read, mk_file_read(&read, path, text, &bytes), "records");
  unlink(path);
  rmdir(folder);
  return st;
}

static mk_status run(mk_context *ctx, const mt_config *c, char **text) {
  return run_limited(ctx, c, RLIM_INFINITY, text);
}

START_TEST(every_step_is_recorded_once_and_in_order) {
  for (int steps = 1; steps <= 9; steps++) {
    mk_context ctx = {0};
    char *text = NULL, needle[64];
    mt_config c = tiny_config();
    c.steps = steps, c.eval_tokens = c.seq_len, c.eval_every = 4;
    ck_assert_int_eq(run(&ctx, &c, &text), MK_OK);
    ck_assert_int_eq(count_text(text, "\"type\":\"start\""), 1);
    ck_assert_int_eq(count_text(text, "\"type\":\"step\""), steps);
    const char *at = text;
    for (int n = 1; n <= steps; n++) {
      snprintf(needle, sizeof needle, "\"type\":\"step\",\"step\":%d,", n);
      at = strstr(at, needle);
      ck_assert_msg(at != NULL, "%d steps: step %d is missing or out of order", steps, n);
    }
    int evals = steps / 4 + (steps % 4 != 0);
    ck_assert_int_eq(count_text(text, "\"type\":\"eval\""), evals);
    ck_assert_ptr_nonnull(strstr(at, "\"type\":\"end\",\"status\":\"ok\",\"code\":0"));
    free(text);
    ck_assert_int_eq(ctx.heap_live, 0);
  }
}
END_TEST

START_TEST(a_run_that_diverges_ends_with_its_reason) {
  mk_context ctx = {0};
  char *text = NULL;
  mt_config c = tiny_config();
  c.steps = 60, c.lr = 1e30, c.clip = 0;
  ck_assert_int_eq(run(&ctx, &c, &text), MK_ERR_NUMERIC);
  ck_assert_int_eq(mt_exit_code(MK_ERR_NUMERIC), 3);
  ck_assert_ptr_nonnull(strstr(text, "\"type\":\"end\",\"status\":\"nonfinite\",\"code\":3"));
  ck_assert_ptr_nonnull(strstr(text, "is not finite"));
  free(text);
}
END_TEST

START_TEST(a_refused_run_still_ends_its_records) {
  mk_context ctx = {0};
  char *text = NULL;
  mt_config c = tiny_config();
  c.memory_budget_mib = 0.1;
  ck_assert_int_eq(run(&ctx, &c, &text), MK_ERR_MEMORY);
  ck_assert_ptr_nonnull(strstr(text, "\"type\":\"end\",\"status\":\"oom\",\"code\":3"));
  free(text);
}
END_TEST

START_TEST(a_time_limit_ends_the_run) {
  mk_context ctx = {0};
  char *text = NULL;
  mt_config c = tiny_config();
  c.steps = 1000000000, c.time_limit_s = 0.05, c.eval_tokens = c.seq_len;
  ck_assert_int_eq(run(&ctx, &c, &text), MK_OK);
  ck_assert_int_eq(count_text(text, "\"type\":\"eval\""), 1); /* after the last step */
  ck_assert_ptr_nonnull(strstr(text, "\"type\":\"end\",\"status\":\"ok\",\"code\":0"));
  free(text);
}
END_TEST

/* Sizes of the disk over two records: the file holds whole lines, and the status is the disk's.
 */
START_TEST(a_full_disk_leaves_whole_records) {
  signal(SIGXFSZ, SIG_IGN);
  for (rlim_t bytes = 400; bytes < 1400; bytes += 37) {
    mk_context ctx = {0};
    char *text = NULL;
    mt_config c = tiny_config();
    c.steps = 8;
    mk_status st = run_limited(&ctx, &c, bytes, &text);
    size_t length = strlen(text);
    ck_assert_msg(st == MK_ERR_OUTPUT, "%lld bytes: status %d", (long long)bytes, st);
    ck_assert_msg(length == 0 || text[length - 1] == '\n', "%lld bytes: ends in '%.40s'", (long long)bytes,
                  text + (length > 40 ? length - 40 : 0));
    ck_assert_msg(strstr(text, "\"status\":\"ok\"") == NULL, "%lld bytes: looks whole", (long long)bytes);
    free(text);
  }
  ck_assert_int_eq(mt_exit_code(MK_ERR_OUTPUT), 5);
}
END_TEST

/* Pairs of steps and losses of all evaluations in the records, in order. */
static int read_evals(const char *text, int64_t step[], char loss[][32]) {
  int n = 0;
  for (const char *at = strstr(text, "\"type\":\"eval\""); at != NULL; at = strstr(at + 1, "\"type\":\"eval\"")) {
    step[n] = strtoll(strstr(at, "\"step\":") + strlen("\"step\":"), NULL, 10);
    ck_assert_int_eq(sscanf(strstr(at, "\"loss\":"), "\"loss\":%31[^,}]", loss[n]), 1);
    n += 1;
  }
  return n;
}

/* A run whose request to stop waits for it: taken where the run first asks. */
static mk_status run_stopped(mk_context *ctx, const mt_config *c, char **text) {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, NULL);
  raise(SIGTERM);
  return run(ctx, c, text);
}

static bool has_step(const test_folder *folder, const char *dir, int step) {
  char path[TEST_PATH_BYTES], name[64];
  snprintf(name, sizeof name, "%s/step-%09d/checkpoint.json", dir, step);
  return access(test_path(folder, name, path), F_OK) == 0;
}

/* Stopped within the evaluation after step 1, which the resumed run does first. */
START_TEST(a_stop_loses_no_evaluation) {
  mk_context ctx = {0};
  test_folder folder = test_folder_make();
  char *straight = NULL, *first = NULL, *second = NULL, want[8][32], got[8][32];
  int64_t want_step[8], got_step[8];
  mt_config c = tiny_config();
  c.steps = 2, c.eval_tokens = 6 * c.seq_len, c.eval_every = 1;
  ck_assert_int_eq(run(&ctx, &c, &straight), MK_OK);
  ck_assert_int_eq(read_evals(straight, want_step, want), 2);
  test_path(&folder, "c", c.checkpoint_dir);
  ck_assert_int_eq(run_stopped(&ctx, &c, &first), MK_ERR_INTERRUPTED);
  ck_assert_msg(strstr(ctx.error.message, "after step 1; resume=auto") != NULL, "said: %s", ctx.error.message);
  ck_assert_int_eq(count_text(first, "\"type\":\"eval\""), 0);
  mk_error_clear(&ctx);
  strcpy(c.resume, "auto");
  ck_assert_int_eq(run(&ctx, &c, &second), MK_OK);
  ck_assert_int_eq(read_evals(second, got_step, got), 2);
  for (int i = 0; i < 2; i++) {
    ck_assert_int_eq(got_step[i], want_step[i]);
    ck_assert_str_eq(got[i], want[i]);
  }
  free(second);
  ck_assert_int_eq(run(&ctx, &c, &second), MK_OK); /* nothing is left to do */
  ck_assert_int_eq(count_text(second, "\"type\":\"eval\""), 0);
  ck_assert_int_eq(count_text(second, "\"type\":\"step\""), 0);
  free(second), free(first), free(straight);
  test_folder_remove(&folder);
}
END_TEST

/* Resumed from another folder: what is said and left of checkpoint_dir is true. Two microbatches, so that the request
 * is taken within the first step. */
START_TEST(a_run_from_another_folder_saves_into_its_own) {
  mk_context ctx = {0};
  test_folder folder = test_folder_make();
  char *text = NULL;
  mt_config c = tiny_config();
  c.steps = 1, c.global_tokens = 2 * c.rank_tokens;
  test_path(&folder, "none", c.checkpoint_dir);
  ck_assert_int_eq(run_stopped(&ctx, &c, &text), MK_ERR_INTERRUPTED);
  ck_assert_msg(strstr(ctx.error.message, "resume=auto") == NULL, "nothing to resume, said: %s", ctx.error.message);
  mk_error_clear(&ctx);
  free(text);
  test_path(&folder, "other", c.checkpoint_dir);
  ck_assert_int_eq(run(&ctx, &c, &text), MK_OK);
  free(text);
  test_path(&folder, "other/step-000000001", c.resume);
  test_path(&folder, "ended", c.checkpoint_dir);
  ck_assert_int_eq(run(&ctx, &c, &text), MK_OK);
  ck_assert_int_eq(count_text(text, "\"type\":\"step\""), 0);
  ck_assert(has_step(&folder, "ended", 1));
  free(text);
  c.steps = 3;
  test_path(&folder, "stopped", c.checkpoint_dir);
  ck_assert_int_eq(run_stopped(&ctx, &c, &text), MK_ERR_INTERRUPTED);
  ck_assert_msg(strstr(ctx.error.message, "after step 1; resume=auto") != NULL, "said: %s", ctx.error.message);
  ck_assert(has_step(&folder, "stopped", 1));
  free(text);
  test_folder_remove(&folder);
}
END_TEST

/* C-14: started again, a run that its time limit has ended trains no step. */
START_TEST(a_run_that_its_time_has_ended_does_nothing) {
  mk_context ctx = {0};
  test_folder folder = test_folder_make();
  char *text = NULL;
  mt_config c = tiny_config();
  c.steps = 1000000000, c.time_limit_s = 0.05;
  test_path(&folder, "c", c.checkpoint_dir);
  for (int start = 0; start < 3; start++) {
    ck_assert_int_eq(run(&ctx, &c, &text), MK_OK);
    int steps = count_text(text, "\"type\":\"step\"");
    ck_assert_msg((steps > 0) == (start == 0), "start %d: %d steps", start, steps);
    strcpy(c.resume, "auto");
    free(text);
  }
  test_folder_remove(&folder);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("loop");
  TCase *tc = test_case(s, "whole runs", 120);
  tcase_add_test(tc, every_step_is_recorded_once_and_in_order);
  tcase_add_test(tc, a_run_that_diverges_ends_with_its_reason);
  tcase_add_test(tc, a_refused_run_still_ends_its_records);
  tcase_add_test(tc, a_time_limit_ends_the_run);
  tcase_add_test(tc, a_full_disk_leaves_whole_records);
  tcase_add_test(tc, a_stop_loses_no_evaluation);
  tcase_add_test(tc, a_run_from_another_folder_saves_into_its_own);
  tcase_add_test(tc, a_run_that_its_time_has_ended_does_nothing);
  return s;
}

int main(void) { return test_main(suite()); }
