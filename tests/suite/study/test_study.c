/* The study reader: a table of broken files with the places of their faults (bad/, first lines "# expect LINE:COL
 * text"), a good file read in full, files that are none, and every failing allocation. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "suite/study/study.h"
#include "tests/suite/yaml_files.h"
#include "tests/support/check_main.h"

enum { MAX_EXPECTED = 16 };

typedef struct expected {
  char place[32]; /* ":line:col: error: " */
  char text[256];
} expected;

static int read_expected(const char *path, expected *out) {
  char line[512];
  int count = 0;
  FILE *file = fopen(path, "r");
  ck_assert_msg(file != NULL, "%s: %s", path, strerror(errno));
  while (count < MAX_EXPECTED && fgets(line, sizeof line, file) != NULL && strncmp(line, "# expect ", 9) == 0) {
    int row = 0, col = 0, at = 0;
    ck_assert_msg(sscanf(line, "# expect %d:%d %n", &row, &col, &at) == 2, "%s: %s", path, line);
    line[strcspn(line, "\n")] = '\0';
    snprintf(out[count].place, sizeof out[count].place, ":%d:%d: error: ", row, col);
    snprintf(out[count].text, sizeof out[count].text, "%s", line + at);
    count++;
  }
  fclose(file);
  return count;
}

static bool reported(const ms_diagnostics *diag, const expected *e) {
  for (int i = 0; i < diag->count; i++) {
    const char *place = strstr(diag->line[i], e->place);
    if (place != NULL && strstr(place, e->text) != NULL) return true;
  }
  return false;
}

static void print_all(const char *path, const ms_diagnostics *diag) {
  fprintf(stderr, "%s: got\n", path);
  print_faults(diag);
}

static void check_bad(const char *path, const char *name) {
  (void)name;
  mk_context ctx = {0};
  ms_diagnostics diag = {0};
  ms_study *study = NULL;
  expected list[MAX_EXPECTED];
  int count = read_expected(path, list);
  mk_status st = ms_study_read(&ctx, path, &diag, &study);
  if (st != MK_ERR_CONFIG || (count > 0 && diag.count != count)) print_all(path, &diag);
  ck_assert_msg(st == MK_ERR_CONFIG && study == NULL, "%s: status %d", path, st);
  ck_assert_msg(count == 0 || diag.count == count, "%s: %d faults, expected %d", path, diag.count, count);
  for (int i = 0; i < count; i++) {
    if (!reported(&diag, &list[i])) print_all(path, &diag);
    ck_assert_msg(reported(&diag, &list[i]), "%s: expected '%s%s'", path, list[i].place, list[i].text);
  }
  ck_assert_msg(diag.count > 0, "%s: no fault", path);
  ms_diagnostics_fini(&ctx, &diag);
  ck_assert_msg(ctx.heap_live == 0, "%s: %lld blocks leaked", path, ctx.heap_live);
}

START_TEST(test_bad_files) {
  int files = each_yaml(TEST_DATA "/bad", check_bad);
  ck_assert_msg(files >= 60, "only %d files", files);
}
END_TEST

static ms_study *read_good(mk_context *ctx) {
  ms_diagnostics diag = {0};
  ms_study *study = NULL;
  mk_status st = ms_study_read(ctx, TEST_DATA "/good.yaml", &diag, &study);
  if (st != MK_OK) print_all("good.yaml", &diag);
  ck_assert_int_eq(st, MK_OK);
  ck_assert_int_eq(diag.count, 0);
  return study;
}

START_TEST(test_good_file) {
  mk_context ctx = {0};
  ms_study *study = read_good(&ctx);
  ck_assert_str_eq(study->id, "sample");
  ck_assert_str_eq(study->cite, "nobody-2026");
  ck_assert_int_eq(study->n_factors, 2);
  ck_assert_int_eq(study->factors[0].type, MS_FACTOR_INT);
  ck_assert_int_eq(study->n_level_defs, 3);
  const ms_level *level = ms_study_level_find(study, "smoke", "stack", "sharded");
  ck_assert_ptr_nonnull(level);
  ck_assert_int_eq(level->set.count, 2);
  ck_assert_str_eq(level->set.item[1].key, "ep");
  ck_assert_str_eq(level->set.item[1].value, "world");
  const ms_level *own = ms_study_level_find(study, "local", "stack", "sharded"); /* a scale's own define comes first */
  ck_assert_ptr_nonnull(own);
  ck_assert_str_eq(own->set.item[1].value, "2");
  ck_assert_ptr_nonnull(ms_study_level_find(study, "local", "stack", "none"));
  const ms_scale *local = ms_study_scale_find(study, "local");
  ck_assert_ptr_nonnull(local);
  ck_assert_str_eq(local->model, "tiny-moe");
  ck_assert_int_eq(local->measure.launches, 3);
  ck_assert_str_eq(local->measure.order, "shuffled_blocks");
  ck_assert(local->measure.timeout_s == 60);
  ck_assert_int_eq(local->n_accept, 1);
  ck_assert_str_eq(local->accept[0].op, ">=");
  ck_assert(local->accept[0].value == 0.8 && local->predict[0].value == 0.9);
  ck_assert(study->claims[0].published == 0.95);
  ck_assert(!study->metrics[0].lower_is_better && study->metrics[1].lower_is_better);
  ck_assert_int_eq((int)strlen(study->sha256), 64);
  ck_assert_ptr_null(ms_study_scale_find(study, "published"));
  ms_study_destroy(&ctx, study);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

/* Writes `bytes` of `data`, reads it as a study and expects exactly one fault that contains `text`. */
static void check_one_fault(const char *name, const void *data, size_t bytes, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "/tmp/moemark-test-%ld-%s", (long)getpid(), name);
  FILE *file = fopen(path, "wb");
  ck_assert_ptr_nonnull(file);
  ck_assert(fwrite(data, 1, bytes, file) == bytes && fclose(file) == 0);
  mk_context ctx = {0};
  ms_diagnostics diag = {0};
  ms_study *study = NULL;
  mk_status st = ms_study_read(&ctx, path, &diag, &study);
  if (diag.count != 1) print_all(path, &diag);
  ck_assert_int_eq(st, MK_ERR_CONFIG);
  ck_assert_int_eq(diag.count, 1);
  ck_assert_msg(strstr(diag.line[0], text) != NULL, "%s: got %s", name, diag.line[0]);
  ms_diagnostics_fini(&ctx, &diag);
  unlink(path);
  ck_assert_int_eq(ctx.heap_live, 0);
}

START_TEST(test_files_that_are_none) {
  static char huge[(1 << 20) + 10];
  memset(huge, 'a', sizeof huge);
  check_one_fault("binary",
                  "\x7f"
                  "ELF\0\0\0",
                  7, "not a text file: byte 4 is 0");
  check_one_fault("control", "a: \x01\n", 5, "not YAML");
  check_one_fault("latin1", "a: \xe4\n", 5, "not YAML");
  check_one_fault("huge", huge, sizeof huge, "more than the 1048576 of any such file");
  check_one_fault("empty", "", 0, "the file is empty");
  check_one_fault("scalar", "hello\n", 6, "a study: must be a map, not a text");
  char deep[400];
  memset(deep, '[', sizeof deep);
  check_one_fault("deep", deep, sizeof deep, "nested too deeply");
}
END_TEST

START_TEST(test_unreadable) {
  const char *paths[] = {"/nonexistent/study.yaml", "/tmp"};
  const char *texts[] = {"cannot open: No such file", "not a regular file"};
  for (int i = 0; i < 2; i++) {
    mk_context ctx = {0};
    ms_diagnostics diag = {0};
    ms_study *study = NULL;
    ck_assert_int_eq(ms_study_read(&ctx, paths[i], &diag, &study), MK_ERR_CONFIG);
    ck_assert_int_eq(diag.count, 1);
    ck_assert_msg(strstr(diag.line[0], texts[i]) != NULL, "got %s", diag.line[0]);
    ms_diagnostics_fini(&ctx, &diag);
  }
}
END_TEST

/* The n-th allocation fails, for every n: the status is memory, nothing leaks, nothing is returned. */
static void fail_each(const char *path) {
  for (long long n = 1;; n++) {
    mk_context ctx = {.heap_fail_at = n};
    ms_diagnostics diag = {0};
    ms_study *study = NULL;
    mk_status st = ms_study_read(&ctx, path, &diag, &study);
    bool reached = ctx.heap_calls >= n;
    ck_assert_msg(!reached || st == MK_ERR_MEMORY, "%s: allocation %lld failed, status %d", path, n, st);
    ms_study_destroy(&ctx, study);
    ms_diagnostics_fini(&ctx, &diag);
    ck_assert_msg(ctx.heap_live == 0, "%s: allocation %lld failed, %lld blocks leaked", path, n, ctx.heap_live);
    if (!reached) return;
  }
}

START_TEST(test_failing_allocations) {
  fail_each(TEST_DATA "/good.yaml");
  fail_each(TEST_DATA "/bad/several.yaml");
  fail_each(TEST_DATA "/bad/anchor.yaml");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("study");
  TCase *tcase = test_case(suite, "reader", 120);
  tcase_add_test(tcase, test_bad_files);
  tcase_add_test(tcase, test_good_file);
  tcase_add_test(tcase, test_files_that_are_none);
  tcase_add_test(tcase, test_unreadable);
  tcase_add_test(tcase, test_failing_allocations);
  return test_main(suite);
}
