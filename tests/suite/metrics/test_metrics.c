/* Every metric on one canned launch whose values are worked out by hand. */
#include <math.h>
#include <string.h>

#include "suite/metrics/metric.h"
#include "suite/plan/plan.h"
#include "suite/provenance/peaks.h"
#include "tests/support/check_main.h"

/* Two warm-up steps (slow) and six measured ones of 100, 110, 120, 130, 140 and 150 ms. */
static ms_step steps[8];
static ms_records records;

static void setup(void) {
  records = (ms_records){.has_start = true,
                         .ranks = 2,
                         .params_total = 1000,
                         .params_active = 500,
                         .flop_token = 2e6,
                         .peak_total_bytes = 3 * 1073741824.0,
                         .reserved_bytes = 4 * 1073741824.0,
                         .host_waits_step = 2,
                         .wire_bytes_step = 4096,
                         .bound_s = 0.0625,
                         .steps = steps,
                         .n_steps = 8};
  for (int i = 0; i < 8; i++) {
    double time_s = i < 2 ? 9.0 : 0.100 + 0.010 * (i - 2);
    steps[i] = (ms_step){.step = i + 1,
                         .time_s = time_s,
                         .tokens = 1000,
                         .loss = 6 - 0.1 * i,
                         .compute_max_s = 0.06,
                         .compute_median_s = 0.05,
                         .drop_rate = i < 2 ? 0.5 : 0.01,
                         .imbalance = i < 2 ? 8 : 1.5,
                         .device_allocs = i < 2 ? 100 : 0,
                         .skipped = i == 5};
  }
}

static double value(const char *name, bool median_step, double peak) {
  mk_context ctx = {0};
  ms_view view;
  ck_assert_int_eq(ms_view_init(&ctx, &records, 2, &view), MK_OK);
  view.median_step = median_step;
  view.peak_flops = peak;
  const ms_metric *metric = ms_metric_find(name);
  ck_assert_msg(metric != NULL, "no metric %s", name);
  double result = metric->value(&view);
  ms_view_fini(&ctx, &view);
  ck_assert_int_eq(ctx.heap_live, 0);
  return result;
}

START_TEST(values_by_hand) {
  static const struct {
    const char *name;
    double expected;
  } CASES[] = {{"tok_s", 6000 / 0.75},
               {"tok_s_gpu", 4000},
               {"step_ms_p50", 120},
               {"step_ms_p95", 150},
               {"step_ms_p99", 150},
               {"mfu_pct", 100 * 8000 * 2e6 / 64e9},
               {"tflop_s_gpu", 4000 * 2e6 * 1e-12},
               {"bound_pct", 50},
               {"peak_mem", 3},
               {"mem_reserved", 4},
               {"flop_token", 2e6},
               {"params_total", 1000},
               {"params_active", 500},
               {"loss_first", 6},
               {"loss_last", 5.3},
               {"drop_rate", 0.01},
               {"imbalance", 1.5},
               {"straggler", 1.2},
               {"wire_bytes_step", 4096},
               {"host_waits_step", 2},
               {"device_allocs_step", 0},
               {"skipped_steps", 1},
               {"not_steady", 1}};
  for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
    double got = value(CASES[i].name, false, 64e9);
    ck_assert_msg(fabs(got - CASES[i].expected) <= 1e-12 * fabs(CASES[i].expected), "%s: got %.15g want %.15g",
                  CASES[i].name, got, CASES[i].expected);
  }
  ck_assert(isnan(value("eval_loss", false, 64e9)));
}
END_TEST

START_TEST(statistic_of_the_study) { ck_assert_double_eq_tol(value("tok_s", true, 1), 1000 / 0.125, 1e-9); }
END_TEST

START_TEST(unknown_peak_has_no_mfu) { /* allenai/OLMo-core#810: 563 % was reported with another device's peak */
  ck_assert(isnan(value("mfu_pct", false, NAN)));
  ck_assert(isnan(value("mfu_pct", false, 0)));
  ck_assert_double_gt(value("tflop_s_gpu", false, NAN), 0);
}
END_TEST

/* huggingface/blog#1649: both devices and tokens double at equal step time, MFU stays. */
START_TEST(mfu_does_not_change_with_the_number_of_devices) {
  double before = value("mfu_pct", false, 64e9);
  for (int i = 0; i < 8; i++)
    steps[i].tokens *= 2;
  ck_assert_double_eq_tol(value("mfu_pct", false, 2 * 64e9), before, 1e-9);
}
END_TEST

START_TEST(time_that_is_not_positive_gives_no_rate) {
  static const double TIMES[] = {0, -1};
  for (int t = 0; t < 2; t++) {
    for (int i = 0; i < 8; i++)
      steps[i].time_s = TIMES[t];
    ck_assert(isnan(value("tok_s", false, 64e9)));
    ck_assert(isnan(value("mfu_pct", false, 64e9)));
    ck_assert(isnan(value("bound_pct", false, 64e9)));
  }
}
END_TEST

START_TEST(no_measured_steps_gives_nothing) {
  records.n_steps = 2;
  static const char *const NAMES[] = {"tok_s", "step_ms_p50", "mfu_pct", "loss_last", "drop_rate", "not_steady"};
  for (int i = 0; i < 6; i++)
    ck_assert_msg(isnan(value(NAMES[i], false, 64e9)), "%s has a value", NAMES[i]);
  ck_assert_double_eq(value("params_total", false, 64e9), 1000);
}
END_TEST

START_TEST(steady_within_two_percent) {
  for (int i = 0; i < 8; i++)
    steps[i].time_s = i < 5 ? 0.100 : 0.1019;
  ck_assert_double_eq(value("not_steady", false, 1), 0);
  for (int i = 5; i < 8; i++)
    steps[i].time_s = 0.1021;
  ck_assert_double_eq(value("not_steady", false, 1), 1);
}
END_TEST

START_TEST(every_metric_has_unit_and_direction) {
  int count = 0;
  const ms_metric *list = ms_metric_list(&count);
  ck_assert_int_gt(count, 20);
  for (int i = 0; i < count; i++) {
    ck_assert(list[i].unit[0] != '\0' && list[i].help[0] != '\0' && list[i].value != NULL);
    ck_assert_int_eq(ms_metric_index(list[i].name), i);
  }
  ck_assert_ptr_null(ms_metric_find("no_such_metric"));
  ck_assert(ms_metric_find("step_ms_p50")->lower_is_better && !ms_metric_find("tok_s")->lower_is_better);
}
END_TEST

/* The peak belongs to the arithmetic used (pytorch/torchtitan#668), never to another. */
START_TEST(peak_of_the_arithmetic_used) {
  ms_machine_rates rates = {.gemm_fp32_flops = 3e11, .gemm_bf16_flops = 7e11, .kernel = "native"};
  ms_records r = {.kernel = "fp32"};
  ck_assert_double_eq(ms_peaks_flops(&rates, &r, MT_FP32), 3e11);
  strcpy(r.kernel, "native");
  ck_assert_double_eq(ms_peaks_flops(&rates, &r, MT_BF16), 7e11);
  strcpy(r.kernel, "widened"); /* forced on a machine with BF16: multiplied in FP32 */
  ck_assert_double_eq(ms_peaks_flops(&rates, &r, MT_BF16), 3e11);
  ck_assert(isnan(ms_peaks_flops(&rates, &r, MT_MXFP8)) && isnan(ms_peaks_flops(&rates, &r, MT_FP64)));
  strcpy(rates.kernel, "widened");
  rates.gemm_bf16_flops = 2.9e11;
  ck_assert_double_eq(ms_peaks_flops(&rates, &r, MT_BF16), 2.9e11);
  strcpy(r.kernel, "native");
  ck_assert(isnan(ms_peaks_flops(&rates, &r, MT_BF16)));
  ck_assert(isnan(ms_peaks_flops(&(ms_machine_rates){0}, &r, MT_FP32)));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("metrics");
  TCase *tc = tcase_create("canned launch");
  tcase_add_checked_fixture(tc, setup, NULL);
  tcase_add_test(tc, values_by_hand);
  tcase_add_test(tc, statistic_of_the_study);
  tcase_add_test(tc, unknown_peak_has_no_mfu);
  tcase_add_test(tc, mfu_does_not_change_with_the_number_of_devices);
  tcase_add_test(tc, time_that_is_not_positive_gives_no_rate);
  tcase_add_test(tc, no_measured_steps_gives_nothing);
  tcase_add_test(tc, steady_within_two_percent);
  tcase_add_test(tc, every_metric_has_unit_and_direction);
  tcase_add_test(tc, peak_of_the_arithmetic_used);
  suite_add_tcase(suite, tc);
  return test_main(suite);
}
