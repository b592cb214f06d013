/* Every system file loads, GPU data carry unit and source, wrong names are refused. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "suite/study/paths.h"
#include "suite/systems/system.h"
#include "tests/suite/yaml_files.h"
#include "tests/support/check_main.h"

static ms_system *load(mk_context *ctx, const char *name) {
  ms_diagnostics diag = {0};
  ms_system *system = NULL;
  mk_status st = ms_system_read(ctx, name, &diag, &system);
  print_faults(&diag);
  ck_assert_msg(st == MK_OK, "%s: %s", name, ctx->error.message);
  ms_diagnostics_fini(ctx, &diag);
  return system;
}

static void check_loads(const char *path, const char *name) {
  (void)path;
  mk_context ctx = {0};
  ms_system *system = load(&ctx, name);
  ck_assert_str_eq(system->name, name);
  ck_assert(system->source[0] != '\0');
  for (int i = 0; i < system->n_gpu; i++)
    ck_assert(system->gpu[i].unit[0] != '\0' && system->gpu[i].source[0] != '\0');
  ms_system_destroy(&ctx, system);
  ck_assert_int_eq(ctx.heap_live, 0);
}

START_TEST(test_all_files_load) { ck_assert_int_ge(each_shipped_yaml("suite/systems", check_loads), 5); }
END_TEST

/* The keys that every GPU file has, with the published value of B300. */
START_TEST(test_gpu_values) {
  static const char *const KEYS[] = {"peak_bf16_flops", "peak_fp8_flops", "hbm_bytes",   "hbm_bw",
                                     "link_bw",         "link_bw_bidir",  "link_domain", "nic_bw",
                                     "sm_count",        "l2_bytes",       "tdp"};
  mk_context ctx = {0};
  ms_system *system = load(&ctx, "b300x8");
  ck_assert_int_eq(system->match_gpus, 8);
  ck_assert(system->memory_budget_gib == 268.6);
  ck_assert(ms_system_gpu_value(system, "peak_bf16_flops") == 2.25e15);
  for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++) {
    ck_assert_msg(ms_system_gpu_value(system, KEYS[i]) > 0, "%s is missing", KEYS[i]);
  }
  ck_assert(isnan(ms_system_gpu_value(system, "host_link"))); /* a word */
  ck_assert(isnan(ms_system_gpu_value(system, "no_such_key")));
  ck_assert(ms_system_offers(system, "cuda") && ms_system_offers(system, "sim"));
  ck_assert(!ms_system_offers(system, "cpu") && !ms_system_offers(system, "cpu_async"));
  ms_system_destroy(&ctx, system);
  system = load(&ctx, "local");
  ck_assert_int_eq(system->match_gpus, 0);
  ck_assert_ptr_null(system->gpu);
  ck_assert(ms_system_offers(system, "cpu") && ms_system_offers(system, "ref"));
  ms_system_destroy(&ctx, system);
}
END_TEST

START_TEST(test_unknown_names) {
  static const char *const NAMES[] = {"nosuch", "../models/tiny-moe", ""};
  for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
    mk_context ctx = {0};
    ms_diagnostics diag = {0};
    ms_system *system = NULL;
    ck_assert_int_ne(ms_system_read(&ctx, NAMES[i], &diag, &system), MK_OK);
    ck_assert_ptr_null(system);
    ck_assert_int_eq(ctx.heap_live, 0);
  }
}
END_TEST

START_TEST(test_failing_allocations) {
  for (long long n = 1;; n++) {
    mk_context ctx = {.heap_fail_at = n};
    ms_diagnostics diag = {0};
    ms_system *system = NULL;
    mk_status st = ms_system_read(&ctx, "b200x16", &diag, &system);
    bool reached = ctx.heap_calls >= n;
    ck_assert_msg(!reached || st == MK_ERR_MEMORY, "allocation %lld failed, status %d", n, st);
    ms_system_destroy(&ctx, system);
    ms_diagnostics_fini(&ctx, &diag);
    ck_assert_msg(ctx.heap_live == 0, "allocation %lld failed, %lld blocks leaked", n, ctx.heap_live);
    if (!reached) return;
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("systems");
  TCase *tcase = tcase_create("files");
  tcase_add_test(tcase, test_all_files_load);
  tcase_add_test(tcase, test_gpu_values);
  tcase_add_test(tcase, test_unknown_names);
  tcase_add_test(tcase, test_failing_allocations);
  suite_add_tcase(suite, tcase);
  return test_main(suite);
}
