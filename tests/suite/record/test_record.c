/* Tables and records: golden headers, quoting round trips, damaged files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "suite/record/records.h"
#include "suite/record/schema.h"
#include "tests/support/check_main.h"

static char folder[64];

static void setup(void) {
  strcpy(folder, "/tmp/moemark-record-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", folder);
  ck_assert_int_eq(system(command), 0);
}

static const char *path_of(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void file_put(const char *name, const char *text) {
  mk_context ctx = {0};
  ck_assert_int_eq(mk_file_write(&ctx, path_of(name), text, strlen(text)), MK_OK);
}

static const char *const KIND_NAMES[MS_CSV_KINDS] = {"launches",  "runs",   "steps", "evals",   "summary",
                                                     "contrasts", "claims", "flops", "accepted"};

/* Columns are an interface: this file changes only by appending. */
START_TEST(headers_are_golden) {
  mk_context ctx = {0};
  static const char *const FACTORS[] = {"experts", "stack"};
  char line[4096];
  FILE *golden = fopen(GOLDEN, "r");
  ck_assert_ptr_nonnull(golden);
  for (int kind = 0; kind < MS_CSV_KINDS; kind++) {
    ms_csv *t = NULL;
    char *text = NULL;
    size_t bytes = 0;
    ck_assert_ptr_nonnull(fgets(line, sizeof line, golden));
    char *header = strchr(line, ' ');
    ck_assert_ptr_nonnull(header);
    *header++ = '\0';
    ck_assert_str_eq(line, KIND_NAMES[kind]);
    ck_assert_int_eq(ms_schema_table(&ctx, (ms_csv_kind)kind, FACTORS, 2, &t), MK_OK);
    ck_assert_int_eq(ms_csv_print(&ctx, t, &text, &bytes), MK_OK);
    ck_assert_str_eq(text, header);
    mk_heap_free(&ctx, text);
    ms_csv_destroy(&ctx, t);
  }
  fclose(golden);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

START_TEST(factor_named_like_a_column_shares_it) {
  mk_context ctx = {0};
  static const char *const FACTORS[] = {"precision", "ep", "impl"};
  ms_csv *t = NULL;
  int precision = 0, impl = 0;
  ck_assert_int_eq(ms_schema_table(&ctx, MS_CSV_RUNS, FACTORS, 3, &t), MK_OK);
  for (int i = 0; i < t->n_columns; i++) {
    precision += strcmp(t->column[i], "precision") == 0;
    impl += strcmp(t->column[i], "impl") == 0;
  }
  ck_assert_int_eq(precision, 1);
  ck_assert_int_eq(impl, 1);
  ms_csv_destroy(&ctx, t);
}
END_TEST

/* Delimiters, quotes, line breaks and blanks inside fields survive (reframe-hpc/reframe#2633). */
START_TEST(fields_survive_a_round_trip) {
  static const char *const HARD[] = {
      "a,b", "say \"yes\"", "two\nlines",  "\r\n", " blanks ",    "\"",
      "",    ",",           "caf\xc3\xa9", "'",    "#no comment", "\"quoted\",\n\"both\""};
  static const char *const COLUMNS[] = {"plain", "hard, column"};
  mk_context ctx = {0};
  ms_csv *t = NULL, *back = NULL;
  size_t n = sizeof HARD / sizeof HARD[0];
  ck_assert_int_eq(ms_csv_create(&ctx, COLUMNS, 2, &t), MK_OK);
  for (size_t i = 0; i < n; i++) {
    ck_assert_int_eq(ms_csv_row_add(&ctx, t), MK_OK);
    ck_assert_int_eq(ms_csv_set_integer(&ctx, t, "plain", (int64_t)i), MK_OK);
    ck_assert_int_eq(ms_csv_set(&ctx, t, "hard, column", HARD[i]), MK_OK);
  }
  ck_assert_int_eq(ms_csv_write(&ctx, path_of("t.csv"), t), MK_OK);
  ck_assert_int_eq(ms_csv_read(&ctx, path_of("t.csv"), &back), MK_OK);
  ck_assert_int_eq(back->n_rows, (int64_t)n);
  for (size_t i = 0; i < n; i++)
    ck_assert_str_eq(ms_csv_get(back, (int64_t)i, "hard, column"), HARD[i]);
  ms_csv_destroy(&ctx, t);
  ms_csv_destroy(&ctx, back);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

START_TEST(lines_end_with_lf_and_plain_fields_have_no_quotes) {
  static const char *const COLUMNS[] = {"a", "b"};
  mk_context ctx = {0};
  ms_csv *t = NULL;
  char *text = NULL;
  size_t bytes = 0;
  ck_assert_int_eq(ms_csv_create(&ctx, COLUMNS, 2, &t), MK_OK);
  ck_assert_int_eq(ms_csv_row_add(&ctx, t), MK_OK);
  ck_assert_int_eq(ms_csv_set(&ctx, t, "a", "x y"), MK_OK);
  ck_assert_int_eq(ms_csv_set(&ctx, t, "b", "1,2"), MK_OK);
  ck_assert_int_eq(ms_csv_print(&ctx, t, &text, &bytes), MK_OK);
  ck_assert_str_eq(text, "a,b\nx y,\"1,2\"\n");
  ck_assert_int_eq(ms_csv_set(&ctx, t, "c", "lost"), MK_ERR_ARG);
  mk_heap_free(&ctx, text);
  ms_csv_destroy(&ctx, t);
}
END_TEST

START_TEST(numbers_read_back_to_the_bit) {
  static const double VALUES[] = {
      0.1, 1.0 / 3, 52000, 1e-300, 6.02214076e23, -0.0, 123456789012345678.0, 5.683712768616182};
  char text[64];
  for (size_t i = 0; i < sizeof VALUES / sizeof VALUES[0]; i++) {
    ms_number_print(VALUES[i], text, sizeof text);
    ck_assert_msg(strtod(text, NULL) == VALUES[i], "%.17g became %s", VALUES[i], text);
  }
  ms_number_print(52000, text, sizeof text);
  ck_assert_str_eq(text, "52000");
  ms_number_print(0.1, text, sizeof text);
  ck_assert_str_eq(text, "0.1");
  ms_number_print(NAN, text, sizeof text);
  ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(damaged_tables_are_refused_with_their_line) {
  static const struct {
    const char *text, *where;
  } BAD[] = {{"a,b\n1\n", ":2: 1 fields"},
             {"a,b\n1,2,3\n", ":2: more fields"},
             {"a,a\n1,2\n", "twice"},
             {"a,\n1,2\n", "no name"},
             {"a,b\n1,\"2\n", ":2:"},
             {"a,b\n1,2\"x\"\n", ":2:"},
             {"", "no header"}};
  for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
    mk_context ctx = {0};
    ms_csv *t = NULL;
    file_put("bad.csv", BAD[i].text);
    ck_assert_msg(ms_csv_read(&ctx, path_of("bad.csv"), &t) == MK_ERR_FORMAT, "accepted: %s", BAD[i].text);
    ck_assert_msg(strstr(ctx.error.message, BAD[i].where) != NULL, "'%s' lacks '%s'", ctx.error.message, BAD[i].where);
    ck_assert_ptr_null(t);
    ck_assert_int_eq(ctx.heap_live, 0);
  }
}
END_TEST

/* Readers ask by name: an added column, in any place, changes nothing. */
START_TEST(unknown_columns_are_ignored) {
  mk_context ctx = {0};
  ms_csv *t = NULL;
  file_put("new.csv", "new,a,b\r\nx,1.5,\r\n");
  ck_assert_int_eq(ms_csv_read(&ctx, path_of("new.csv"), &t), MK_OK);
  ck_assert_double_eq(ms_csv_number(t, 0, "a"), 1.5);
  ck_assert(isnan(ms_csv_number(t, 0, "b")) && isnan(ms_csv_number(t, 0, "missing")));
  ck_assert(isnan(ms_csv_number(t, 0, "new")));
  ms_csv_destroy(&ctx, t);
}
END_TEST

static const char RECORDS[] =
    "{\"schema\":\"moemark/record/1\",\"type\":\"start\",\"ranks\":2,\"device\":\"cpu\",\"kernel\":\"widened\","
    "\"threads\":1,\"params_total\":5000000000,\"flop_token\":1.5e6,\"planned_bytes\":{\"params\":8,\"optim\":16},"
    "\"from_the_future\":[1,2]}\n"
    "{\"type\":\"step\",\"step\":1,\"time_s\":0.5,\"tokens\":512,\"loss\":5.25,\"skipped\":0}\n"
    "{\"type\":\"weather\",\"rain\":true}\n"
    "{\"type\":\"step\",\"step\":2,\"time_s\":0.25,\"tokens\":512,\"loss\":null}\n"
    "{\"type\":\"eval\",\"step\":2,\"time_s\":0.75,\"tokens\":64,\"loss\":5.0}\n"
    "{\"type\":\"end\",\"status\":\"ok\",\"code\":0,\"message\":\"\",\"peak_total_bytes\":1073741824,"
    "\"peak_bytes\":{\"activations\":4}}\n";

START_TEST(records_are_read_by_name) {
  mk_context ctx = {0};
  ms_records *r = NULL;
  file_put("records.jsonl", RECORDS);
  ck_assert_int_eq(ms_records_read(&ctx, path_of("records.jsonl"), &r), MK_OK);
  ck_assert(r->has_start && r->has_end);
  ck_assert_int_eq(r->ranks, 2);
  ck_assert_str_eq(r->kernel, "widened");
  ck_assert_double_eq(r->params_total, 5e9); /* beyond 32 bits */
  ck_assert_double_eq(r->planned_bytes[0], 8);
  ck_assert(isnan(r->planned_bytes[1]) && r->planned_bytes[2] == 16 && r->peak_bytes[3] == 4);
  ck_assert_int_eq(r->n_steps, 2);
  ck_assert_double_eq(r->steps[0].loss, 5.25);
  ck_assert(isnan(r->steps[1].loss) && isnan(r->steps[0].grad_norm));
  ck_assert_int_eq(r->n_evals, 1);
  ck_assert_str_eq(r->end_status, "ok");
  ck_assert_double_eq(r->peak_total_bytes, 1073741824);
  ck_assert(isnan(r->wire_bytes_step));
  ms_records_destroy(&ctx, r);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

/* Cut at every byte: never an error, never more than what whole lines say. */
START_TEST(a_cut_off_file_keeps_its_whole_lines) {
  char text[sizeof RECORDS];
  for (size_t cut = 0; cut < sizeof RECORDS - 1; cut += 7) {
    mk_context ctx = {0};
    ms_records *r = NULL;
    memcpy(text, RECORDS, cut);
    text[cut] = '\0';
    file_put("cut.jsonl", text);
    ck_assert_msg(ms_records_read(&ctx, path_of("cut.jsonl"), &r) == MK_OK, "cut at %zu: %s", cut, ctx.error.message);
    ck_assert(!r->has_end && r->n_steps <= 2);
    ms_records_destroy(&ctx, r);
    ck_assert_int_eq(ctx.heap_live, 0);
  }
}
END_TEST

START_TEST(a_broken_line_is_refused_by_number) {
  static const char *const BAD[][2] = {
      {"{\"type\":\"step\",\"step\":1,\"loss\":nan}", "broken.jsonl:2:32: this is not JSON"},
      {"{\"type\":\"step\",\"step\":1", "broken.jsonl:2:24: this is not JSON"},
      {"[1]", "broken.jsonl:2:1: a JSON object is expected"},
      {"{\"type\":\"step\\u0000\"}", "broken.jsonl:2:14: \\u0000 cannot stand"},
      {"{\"type\":\"step\",\"step\":1,\"step\":2}", "broken.jsonl:2: key 'step' stands twice"},
      {"{\"type\":\"end\",\"peak_bytes\":{\"comm\":1,\"comm\":2}}", "broken.jsonl:2: key 'comm' stands twice"},
  };
  for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
    mk_context ctx = {0};
    ms_records *r = NULL;
    char text[256];
    snprintf(text, sizeof text, "{\"type\":\"start\"}\n%s\n", BAD[i][0]);
    file_put("broken.jsonl", text);
    ck_assert_msg(ms_records_read(&ctx, path_of("broken.jsonl"), &r) == MK_ERR_FORMAT, "accepted: %s", BAD[i][0]);
    ck_assert_msg(strstr(ctx.error.message, BAD[i][1]) != NULL, "%s: %s", BAD[i][0], ctx.error.message);
    ck_assert_int_eq(ctx.heap_live, 0);
  }
}
END_TEST

#define STEP_LINE(step, loss) "{\"type\":\"step\",\"step\":" #step ",\"loss\":" #loss "}\n"
#define EVAL_LINE(step, loss) "{\"type\":\"eval\",\"step\":" #step ",\"loss\":" #loss "}\n"
#define END_LINE "{\"type\":\"end\",\"status\":\"ok\",\"code\":0,\"steps\":3,\"peak_total_bytes\":8}\n"

/* A run that goes on appends to its file: steps after the one it resumes from are done again. */
START_TEST(a_step_done_again_counts_once) {
  mk_context ctx = {0};
  ms_records *r = NULL;
  file_put("again.jsonl", "{\"type\":\"start\",\"resumed_step\":0}\n" STEP_LINE(1, 9) STEP_LINE(2, 8) EVAL_LINE(2, 8.5)
                              STEP_LINE(3, 7) EVAL_LINE(3, 7.5) END_LINE
           "{\"type\":\"start\",\"resumed_step\":2}\n" STEP_LINE(3, 6) EVAL_LINE(3, 6.5) STEP_LINE(4, 5));
  ck_assert_int_eq(ms_records_read(&ctx, path_of("again.jsonl"), &r), MK_OK);
  ck_assert(!r->has_end && isnan(r->steps_done) && isnan(r->peak_total_bytes)); /* the end of the first part is none */
  ck_assert_int_eq(r->resumed_step, 2);
  ck_assert_int_eq(r->n_steps, 4);
  for (int i = 0; i < 4; i++)
    ck_assert_int_eq(r->steps[i].step, i + 1);
  ck_assert_double_eq(r->steps[1].loss, 8);
  ck_assert_double_eq(r->steps[2].loss, 6);
  ck_assert_int_eq(r->n_evals, 2);
  ck_assert_double_eq(r->evals[1].loss, 6.5);
  ms_records_destroy(&ctx, r);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

START_TEST(a_later_line_of_a_step_replaces_what_followed) {
  mk_context ctx = {0};
  ms_records *r = NULL;
  file_put("back.jsonl", "{\"type\":\"start\"}\n" STEP_LINE(1, 9) STEP_LINE(2, 8) STEP_LINE(3, 7) EVAL_LINE(2, 8.5)
                             EVAL_LINE(2, 6.5) STEP_LINE(2, 6) END_LINE);
  ck_assert_int_eq(ms_records_read(&ctx, path_of("back.jsonl"), &r), MK_OK);
  ck_assert_int_eq(r->n_steps, 2);
  ck_assert_double_eq(r->steps[1].loss, 6);
  ck_assert_int_eq(r->n_evals, 1);
  ck_assert_double_eq(r->evals[0].loss, 6.5);
  ck_assert(r->has_end && r->steps_done == 3);
  ms_records_destroy(&ctx, r);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

/* The n-th allocation fails, for every n: the status says so, nothing leaks. */
START_TEST(running_out_of_heap_leaks_nothing) {
  file_put("records.jsonl", RECORDS);
  file_put("t.csv", "a,b\n1,\"2,3\"\n4,5\n");
  for (long long fail_at = 1;; fail_at++) {
    mk_context ctx = {.heap_fail_at = fail_at};
    ms_records *r = NULL;
    ms_csv *t = NULL;
    mk_status st = ms_records_read(&ctx, path_of("records.jsonl"), &r);
    if (st == MK_OK) st = ms_csv_read(&ctx, path_of("t.csv"), &t);
    if (st == MK_OK) st = ms_csv_write(&ctx, path_of("out.csv"), t);
    bool done = st == MK_OK;
    ck_assert(done || st == MK_ERR_MEMORY);
    ms_records_destroy(&ctx, r);
    ms_csv_destroy(&ctx, t);
    ck_assert_msg(ctx.heap_live == 0, "allocation %lld: %lld blocks leak", fail_at, ctx.heap_live);
    if (done) break;
    ck_assert_int_lt(fail_at, 500);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("record");
  TCase *tc = tcase_create("files");
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_test(tc, headers_are_golden);
  tcase_add_test(tc, factor_named_like_a_column_shares_it);
  tcase_add_test(tc, fields_survive_a_round_trip);
  tcase_add_test(tc, lines_end_with_lf_and_plain_fields_have_no_quotes);
  tcase_add_test(tc, numbers_read_back_to_the_bit);
  tcase_add_test(tc, damaged_tables_are_refused_with_their_line);
  tcase_add_test(tc, unknown_columns_are_ignored);
  tcase_add_test(tc, records_are_read_by_name);
  tcase_add_test(tc, a_cut_off_file_keeps_its_whole_lines);
  tcase_add_test(tc, a_broken_line_is_refused_by_number);
  tcase_add_test(tc, a_step_done_again_counts_once);
  tcase_add_test(tc, a_later_line_of_a_step_replaces_what_followed);
  tcase_add_test(tc, running_out_of_heap_leaks_nothing);
  suite_add_tcase(suite, tc);
  return test_main(suite);
}
