/* A whole run with the fake trainer, judged and reported; the report must say what a reader needs to know. */
#include <math.h>
#include <unistd.h>

#include "kernels/base/heap.h"
#include "suite/judge/judge.h"
#include "suite/report/caption.h"
#include "suite/report/report.h"
#include "suite/report/text.h"
#include "tests/suite/run/run_fixture.h"

static run_fixture f;
static ms_report *report;

static void setup(void) {
  fixture_init(&f, STUDY, "smoke");
  fixture_counts(&f);
  setenv("FAKE_64", "oom", 1);
  setenv("FAKE_TIME_16", "0.104", 1);
  setenv("FAKE_32", "crash", 1);
  ms_run_options options = {.out = f.folder, .quiet = true};
  ms_judge_options judge = {.accepted_folder = f.folder};
  ms_judgement *j = NULL;
  ms_supervisor *supervisor = NULL;
  ms_run *run = fixture_run(&f, &options);
  ck_assert_msg(ms_judge_create(&f.ctx, run, &judge, &j) == MK_OK, "%s", f.ctx.error.message);
  ck_assert_int_eq(ms_judge_write(&f.ctx, j), MK_OK);
  ck_assert_int_eq(ms_supervisor_create(&f.ctx, &supervisor), MK_OK);
  ck_assert_msg(ms_report_write(&f.ctx, supervisor, run->folder) == MK_OK, "%s", f.ctx.error.message);
  ms_supervisor_destroy(&f.ctx, supervisor);
  ck_assert_msg(ms_report_read(&f.ctx, run->folder, &report) == MK_OK, "%s", f.ctx.error.message);
  ms_judge_destroy(&f.ctx, j);
  ms_run_destroy(&f.ctx, run);
}

static void teardown(void) {
  ms_report_destroy(&f.ctx, report);
  fixture_fini(&f);
}

static int64_t row_of(const ms_csv *t, const char *name) {
  for (int64_t row = 0; row < t->n_rows; row++) {
    if (strcmp(ms_csv_get(t, row, "case"), name) == 0) return row;
  }
  return -1;
}

START_TEST(every_case_is_shown) {
  ms_csv *t = NULL;
  ck_assert_int_eq(ms_report_cases(&f.ctx, report, &t), MK_OK);
  ck_assert_int_eq(t->n_rows, 4);
  int64_t slow = row_of(t, "%experts=16"), crashed = row_of(t, "%experts=32"), oom = row_of(t, "%experts=64");
  ck_assert_str_eq(ms_csv_get(t, slow, "n"), "6");
  ck_assert_int_eq(strncmp(ms_csv_get(t, slow, "ratio to base"), "0.962 [", 7), 0); /* with its interval */
  ck_assert_str_eq(ms_csv_get(t, slow, "published ratio"), "0.95");
  ck_assert_str_eq(ms_csv_get(t, crashed, "verdict"), "FAIL");
  ck_assert_str_eq(ms_csv_get(t, crashed, "n"), "0+1 failed");
  ck_assert_ptr_nonnull(strstr(ms_csv_get(t, crashed, "note"), "the fake fell over"));
  ck_assert_str_eq(ms_csv_get(t, crashed, "median"), "");
  ck_assert_str_eq(ms_csv_get(t, oom, "verdict"), "XFAIL");
  ck_assert_ptr_nonnull(strstr(ms_csv_get(t, oom, "note"), "published as out of memory"));
  ms_csv_destroy(&f.ctx, t);
}
END_TEST

START_TEST(claims_carry_their_numbers) {
  ms_csv *t = NULL;
  ck_assert_int_eq(ms_report_claims(&f.ctx, report, &t), MK_OK);
  ck_assert_int_eq(t->n_rows, 4);
  ck_assert_str_eq(ms_csv_get(t, 0, "verdict"), "met");
  ck_assert_str_eq(ms_csv_get(t, 0, "published"), "0.95");
  ck_assert_str_eq(ms_csv_get(t, 0, "predicted"), "0.93");
  ck_assert_str_eq(ms_csv_get(t, 0, "accept"), ">= 0.9");
  ck_assert_str_eq(ms_csv_get(t, 1, "verdict"), "not testable");
  ck_assert_str_eq(ms_csv_get(t, 2, "verdict"), "INCONCLUSIVE"); /* its case crashed */
  ck_assert_ptr_nonnull(strstr(ms_csv_get(t, 2, "note"), "FAIL"));
  ms_csv_destroy(&f.ctx, t);
}
END_TEST

START_TEST(captions_name_the_base) {
  char text[MS_CAPTION_BYTES];
  ms_caption_cases(report, text, sizeof text);
  ck_assert_ptr_nonnull(strstr(text, "base experts=8"));
  ck_assert_ptr_nonnull(strstr(text, "token/s"));
  ms_caption_reference(report, text, sizeof text);
  ck_assert_ptr_nonnull(strstr(text, "no reference"));
}
END_TEST

START_TEST(markdown_holds_all_parts) {
  static const char *const PARTS[] = {"# judged",
                                      "## Cases",
                                      "## Claims",
                                      "## Contrasts",
                                      "## Failures",
                                      "## All metrics",
                                      "## Where and with what",
                                      "| %experts=64 |",
                                      "XFAIL",
                                      "again with `moemark run"};
  char *text = NULL;
  ck_assert_int_eq(ms_report_markdown(&f.ctx, report, &text), MK_OK);
  for (size_t i = 0; i < sizeof PARTS / sizeof PARTS[0]; i++) {
    ck_assert_msg(strstr(text, PARTS[i]) != NULL, "report.md lacks '%s'", PARTS[i]);
  }
  mk_heap_free(&f.ctx, text);
}
END_TEST

START_TEST(curves_are_medians_over_launches) {
  char path[2 * MS_PATH_BYTES];
  ms_csv *t = NULL;
  snprintf(path, sizeof path, "%s/curves.csv", report->folder);
  ck_assert_int_eq(ms_csv_read(&f.ctx, path, &t), MK_OK);
  int64_t row = row_of(t, "%experts=16");
  ck_assert_int_eq(t->n_rows, 2 * 4 + 1); /* two whole cases of four steps, one step before the crash */
  ck_assert_double_eq(ms_csv_number(t, row, "n"), 6);
  ck_assert_double_eq_tol(ms_csv_number(t, row, "step_ms_median"), 104, 1e-9);
  ck_assert_double_eq(ms_csv_number(t, row + 3, "step"), 4);
  ms_csv_destroy(&f.ctx, t);
  snprintf(path, sizeof path, "%s/loss.svg", report->folder);
  if (access("/usr/bin/gnuplot", X_OK) == 0) ck_assert_msg(access(path, R_OK) == 0, "gnuplot drew no %s", path);
}
END_TEST

START_TEST(numbers_for_people) {
  char text[64];
  ms_pretty(52000, text, sizeof text);
  ck_assert_str_eq(text, "52000");
  ms_pretty(9999.999, text, sizeof text);
  ck_assert_str_eq(text, "10000");
  ms_pretty(0.012345, text, sizeof text);
  ck_assert_str_eq(text, "0.01235");
  ms_pretty(NAN, text, sizeof text);
  ck_assert_str_eq(text, "");
  ms_pretty_interval(0.95, NAN, NAN, text, sizeof text);
  ck_assert_str_eq(text, "0.950");
  ms_pretty_interval(0.95, 0.9, 1, text, sizeof text);
  ck_assert_str_eq(text, "0.950 [0.900, 1.000]");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("report");
  TCase *tc = test_case(suite, "fake run", 60);
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_test(tc, every_case_is_shown);
  tcase_add_test(tc, claims_carry_their_numbers);
  tcase_add_test(tc, captions_name_the_base);
  tcase_add_test(tc, markdown_holds_all_parts);
  tcase_add_test(tc, curves_are_medians_over_launches);
  tcase_add_test(tc, numbers_for_people);
  return test_main(suite);
}
