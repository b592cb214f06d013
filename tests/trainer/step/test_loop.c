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

static Suite *suite(void) {
  Suite *s = suite_create("loop");
  TCase *tc = test_case(s, "whole runs", 120);
  tcase_add_test(tc, every_step_is_recorded_once_and_in_order);
  tcase_add_test(tc, a_run_that_diverges_ends_with_its_reason);
  tcase_add_test(tc, a_refused_run_still_ends_its_records);
  tcase_add_test(tc, a_time_limit_ends_the_run);
  tcase_add_test(tc, a_full_disk_leaves_whole_records);
  return s;
}

int main(void) { return test_main(suite()); }
