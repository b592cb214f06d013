/* Order of launches, peers' lines, command lines, log hints: the parts of the runner that start nothing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/heap.h"
#include "suite/run/command.h"
#include "suite/run/folder.h"
#include "suite/run/order.h"
#include "suite/run/peer.h"
#include "tests/support/check_main.h"

START_TEST(blocks_hold_one_launch_of_each_case) {
  static const int64_t LAUNCHES[] = {6, 6, 1, 6};
  ms_slot slots[19];
  ck_assert_int_eq(ms_order_slots(LAUNCHES, 4, true, 42, slots), 19);
  for (int block = 1, at = 0; block <= 6; block++) {
    int size = block == 1 ? 4 : 3;
    bool seen[4] = {false};
    for (int i = 0; i < size; i++, at++) {
      ck_assert_int_eq(slots[at].number, block);
      ck_assert(!seen[slots[at].case_index]);
      seen[slots[at].case_index] = true;
    }
  }
}
END_TEST

START_TEST(the_seed_decides_the_order) {
  static const int64_t LAUNCHES[] = {6, 6, 6, 6};
  ms_slot a[24], b[24], c[24];
  ms_order_slots(LAUNCHES, 4, true, 42, a);
  ms_order_slots(LAUNCHES, 4, true, 42, b);
  ms_order_slots(LAUNCHES, 4, true, 43, c);
  ck_assert_int_eq(memcmp(a, b, sizeof a), 0);
  ck_assert_int_ne(memcmp(a, c, sizeof a), 0);
  ms_order_slots(LAUNCHES, 4, false, 42, a);
  for (int i = 0; i < 24; i++)
    ck_assert(a[i].case_index == i / 6 && a[i].number == i % 6 + 1);
}
END_TEST

/* Every case comes first about as often as any other. */
START_TEST(the_shuffle_is_fair) {
  static const int64_t LAUNCHES[] = {1, 1, 1, 1};
  int first[4] = {0};
  for (uint64_t seed = 1; seed <= 4000; seed++) {
    ms_slot slots[4];
    ms_order_slots(LAUNCHES, 4, true, seed, slots);
    first[slots[0].case_index] += 1;
  }
  for (int i = 0; i < 4; i++)
    ck_assert_msg(first[i] > 850 && first[i] < 1150, "case %d first %d times", i, first[i]);
}
END_TEST

static mk_context peer_ctx;

static mk_status peer(const char *text, ms_records **r, ms_peer_facts *facts) {
  peer_ctx = (mk_context){0};
  ck_assert_int_eq(ms_records_create(&peer_ctx, r), MK_OK);
  return ms_peer_read(&peer_ctx, text, *r, facts);
}

static void peer_end(ms_records *r) {
  ms_records_destroy(&peer_ctx, r);
  ck_assert_int_eq(peer_ctx.heap_live, 0);
}

START_TEST(a_peer_line_becomes_records) {
  ms_records *r = NULL;
  ms_peer_facts facts;
  ck_assert_int_eq(
      peer("some warning\n{\"schema\":\"moemark/peer/1\",\"status\":\"ok\",\"impl\":\"plain-fn\",\"shape\":\"S\","
           "\"dtype\":\"bf16\",\"threads\":2,\"torch\":\"2.15.0\",\"isa\":[\"avx2\",\"avx512f\"],"
           "\"warmup_steps\":2,\"tokens_step\":2048,\"step_ms\":[400,500,300],\"flops_per_token\":31561728,"
           "\"peak_rss_mib\":512,\"loss_first\":8.5,\"loss_last\":7.25,\"params\":1000}\n\n",
           &r, &facts),
      MK_OK);
  ck_assert_int_eq(r->n_steps, 3);
  ck_assert_int_eq(r->steps[0].step, 3); /* after two warm-up steps */
  ck_assert_double_eq_tol(r->steps[1].time_s, 0.5, 1e-12);
  ck_assert_double_eq(r->steps[2].loss, 7.25);
  ck_assert_double_eq(r->peak_total_bytes, 512 * 1048576.0);
  ck_assert_double_eq(r->flop_token, 31561728);
  ck_assert_str_eq(r->isa, "avx2 avx512f");
  ck_assert_str_eq(r->end_status, "ok");
  ck_assert(facts.warmup_steps == 2 && facts.precision == MT_BF16 && !facts.not_installed);
  peer_end(r);
}
END_TEST

START_TEST(a_peer_that_is_not_installed_is_unsupported) {
  ms_records *r = NULL;
  ms_peer_facts facts;
  ck_assert_int_eq(
      peer("{\"status\":\"failed\",\"impl\":\"x\",\"dtype\":\"fp32\",\"reason\":\"no Python environment: run "
           "baselines/peers/torch/setup.sh\"}\n",
           &r, &facts),
      MK_OK);
  ck_assert(facts.not_installed);
  ck_assert_str_eq(r->end_status, "unsupported");
  ck_assert_ptr_nonnull(strstr(r->end_message, "setup.sh"));
  peer_end(r);
  ck_assert_int_eq(peer("{\"status\":\"failed\",\"dtype\":\"fp32\",\"reason\":\"ImportError\"}", &r, &facts), MK_OK);
  ck_assert_str_eq(r->end_status, "crash");
  peer_end(r);
}
END_TEST

START_TEST(a_peer_without_a_line_is_refused) {
  static const char *const BAD[][2] = {
      {"", "stdout.log: empty"},
      {"a\nTraceback (most recent call last)\n", "stdout.log:2:1: this is not JSON"},
      {"{\"status\":\"ok\",\"step_ms\":[]}", "stdout.log: the last line has no step_ms"},
      {"a\n\n{\"status\":\"ok\"", "stdout.log:3:15: this is not JSON"},
      {"{\"status\":\"ok\",\"status\":\"failed\"}", "stdout.log:1: key 'status' stands twice"},
      {"{\"status\":\"ok\\u0000\"}", "stdout.log:1:14: \\u0000 cannot stand"},
  };
  for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
    ms_records *r = NULL;
    ms_peer_facts facts;
    ck_assert_msg(peer(BAD[i][0], &r, &facts) == MK_ERR_FORMAT, "accepted: %s", BAD[i][0]);
    ck_assert_msg(strstr(peer_ctx.error.message, BAD[i][1]) != NULL, "%s: %s", BAD[i][0], peer_ctx.error.message);
    peer_end(r);
  }
}
END_TEST

START_TEST(commands_can_be_pasted) {
  mk_context ctx = {0};
  char a[] = "/bin/echo", b[] = "it's here", c[] = "", d[] = "--plain=1,2";
  ms_command command = {.argv = {a, b, c, d}, .argc = 4, .env_list = {"OMP_NUM_THREADS=2"}};
  char *text = NULL;
  ck_assert_int_eq(ms_command_print(&ctx, &command, &text), MK_OK);
  ck_assert_str_eq(text, "OMP_NUM_THREADS=2 /bin/echo 'it'\\''s here' '' --plain=1,2\n");
  mk_heap_free(&ctx, text);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

/* What mpirun adds does not hide what the trainer said. */
START_TEST(the_hint_is_our_own_error) {
  static const char *const LOGS[][2] = {
      {"[vm:1] ORTE_ERROR_LOG: x\nmoemark: step 1\nmoemark[rank 1]: error: data is gone\nmpirun: error 3\n",
       "moemark[rank 1]: error: data is gone"},
      {"moemark: error: first\nmoemark: error: second\n", "moemark: error: first"},
      {"moemark: error: no line end", "moemark: error: no line end"},
      {"------\nan Error was met\n", "an Error was met"},
      {"one\n  two\n-----\n", "two"},
      {"", ""}};
  char folder[] = "/tmp/moemark-parts-XXXXXX", path[64], hint[128];
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/log", folder);
  for (size_t i = 0; i < sizeof LOGS / sizeof LOGS[0]; i++) {
    mk_context ctx = {0};
    ck_assert_int_eq(ms_text_write(&ctx, folder, "log", LOGS[i][0]), MK_OK);
    ms_log_hint(&ctx, folder, "log", hint, sizeof hint);
    ck_assert_str_eq(hint, LOGS[i][1]);
    ck_assert_int_eq(ctx.heap_live, 0);
  }
  unlink(path);
  rmdir(folder);
}
END_TEST

/* -S is merged into run.json, so the trainer must not read the variable again. */
START_TEST(launches_do_not_inherit_settings) {
  mk_context ctx = {0};
  ms_tools tools = {.trainer = "/x/moemark-trainer"};
  ms_case c = {.config = mt_config_default()};
  ms_command command;
  ck_assert_int_eq(ms_command_init(&ctx, &tools, NULL, &c, "folder", &command), MK_OK);
  ck_assert_str_eq(command.env_list[0], "MOEMARK_SET=");
  ck_assert_str_eq(command.env_list[1], "MOEMARK_RESUME=");
  ck_assert_ptr_null(command.env_list[2]);
  ck_assert_str_eq(command.argv[0], "/x/moemark-trainer");
  ms_command_fini(&ctx, &command);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

START_TEST(case_names_become_folders) {
  char out[256], is_long[300];
  ms_case_folder("%experts=8 %stack=dist_opt", 3, out, sizeof out);
  ck_assert_str_eq(out, "experts=8,stack=dist_opt");
  ms_case_folder("%a=../../etc/passwd", 3, out, sizeof out);
  ck_assert_str_eq(out, "a=.._.._etc_passwd-3");
  ms_case_folder("", 3, out, sizeof out);
  ck_assert_str_eq(out, "case");
  memset(is_long, 'x', sizeof is_long - 1);
  is_long[sizeof is_long - 1] = '\0';
  ms_case_folder(is_long, 12, out, sizeof out);
  ck_assert_int_eq((int)strlen(out), 203);
  ck_assert_str_eq(out + 200, "-12");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("run parts");
  TCase *tc = tcase_create("pure");
  tcase_add_test(tc, blocks_hold_one_launch_of_each_case);
  tcase_add_test(tc, the_seed_decides_the_order);
  tcase_add_test(tc, the_shuffle_is_fair);
  tcase_add_test(tc, a_peer_line_becomes_records);
  tcase_add_test(tc, a_peer_that_is_not_installed_is_unsupported);
  tcase_add_test(tc, a_peer_without_a_line_is_refused);
  tcase_add_test(tc, commands_can_be_pasted);
  tcase_add_test(tc, the_hint_is_our_own_error);
  tcase_add_test(tc, launches_do_not_inherit_settings);
  tcase_add_test(tc, case_names_become_folders);
  suite_add_tcase(suite, tc);
  return test_main(suite);
}
