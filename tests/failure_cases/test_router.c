/* Router statistics and auxiliary losses (R) as a run of one rank reports them; their formulas are in tests/kernels. */
#include <math.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "tests/support/check_main.h"
#include "tests/support/files.h"
#include "tests/trainer/support/tiny.h"
#include "trainer/step/evaluate.h"
#include "trainer/step/loop.h"

enum { MOST_TOKENS = 256 };

/* One step of `times` microbatches, all of them the first of the data; gives its log. */
static mk_step_log repeated_step(const mt_config *base, int64_t times) {
  mt_config c = *base;
  tiny_rank r;
  mt_data *data = NULL;
  mk_step_log log;
  int32_t tokens[MOST_TOKENS], labels[MOST_TOKENS];
  c.global_tokens = times * c.rank_tokens;
  tiny_open(&r, &c);
  tiny_ok(&r.ctx, mt_data_create(&r.ctx, &c, 0, &data), "data");
  tiny_ok(&r.ctx, mt_data_batch(data, 0, 0, tokens, labels), "batch");
  tiny_ok(&r.ctx, mt_trainer_begin(r.t), "begin");
  for (int64_t m = 0; m < times; m++)
    tiny_ok(&r.ctx, mt_trainer_microbatch(r.t, tokens, labels), "microbatch");
  tiny_ok(&r.ctx, mt_trainer_finish(r.t), "finish");
  tiny_ok(&r.ctx, mt_trainer_log_read(r.t, &log), "log");
  mt_data_destroy(data);
  tiny_close(&r);
  return log;
}

/* Gradients of one step, and the sums of its losses. */
static double *gradients(const mt_config *c, double sums[MK_SUM_COUNT], int64_t *count) {
  tiny_rank r;
  tiny_open(&r, c);
  tiny_train(&r.ctx, r.t, 1, true);
  double *values = tiny_values(&r.ctx, r.t, MT_VALUE_GRADIENT, count);
  tiny_ok(&r.ctx, mt_trainer_tensor_read(r.t, &r.t->model->sums, sums), "sums");
  tiny_close(&r);
  return values;
}

/* What is written down about a step (time of every op) changes neither losses nor gradients; and the balance loss is
 * there: without it the gradients are others. */
START_TEST(r02_logging_changes_no_loss) {
  double quiet_sums[MK_SUM_COUNT], logged_sums[MK_SUM_COUNT], other_sums[MK_SUM_COUNT];
  int64_t count = 0;
  mt_config c = tiny_config();
  c.lb_weight = 0.01;
  double *quiet = gradients(&c, quiet_sums, &count);
  c.profile = true;
  double *logged = gradients(&c, logged_sums, &count);
  c.lb_weight = 0;
  double *without = gradients(&c, other_sums, &count);
  ck_assert(memcmp(quiet, logged, (size_t)count * sizeof *quiet) == 0);
  ck_assert(memcmp(quiet_sums, logged_sums, sizeof quiet_sums) == 0);
  ck_assert(memcmp(quiet, without, (size_t)count * sizeof *quiet) != 0);
  free(without);
  free(logged);
  free(quiet);
}
END_TEST

/* Held-out loss of one window after a step, in blocks of `windows`: all but the first are pads. */
static double padded_evaluation(int64_t windows, double counts[MOST_TOKENS]) {
  enum { STEP_WINDOWS = 3 };
  mt_config c = tiny_config();
  tiny_rank r;
  mt_data *data = NULL;
  double loss = NAN;
  int32_t tokens[MOST_TOKENS], labels[MOST_TOKENS];
  c.rank_tokens = windows * c.seq_len, c.global_tokens = STEP_WINDOWS * c.seq_len, c.eval_tokens = c.seq_len;
  tiny_open(&r, &c);
  tiny_train(&r.ctx, r.t, 1, false);
  tiny_ok(&r.ctx, mt_data_create(&r.ctx, &c, 0, &data), "data");
  tiny_ok(&r.ctx, mt_evaluate(r.t, data, &(mt_stop){0}, tokens, labels, &loss), "evaluate");
  tiny_ok(&r.ctx, mt_trainer_tensor_read(r.t, &r.t->model->step_counts, counts), "counts");
  mt_data_destroy(data);
  tiny_close(&r);
  return loss;
}

/* Pads are made where a block of an evaluation is longer than what is left of it: tokens 0 without labels. Neither the
 * held-out loss nor the load knows of them. */
START_TEST(r01_pads_of_an_evaluation_change_nothing) {
  double counts[2][MOST_TOKENS] = {{0}};
  double plain = padded_evaluation(1, counts[0]), padded = padded_evaluation(3, counts[1]);
  ck_assert_msg(fabs(padded - plain) < 1e-6 * plain, "held-out loss with pads %.9g, without %.9g", padded, plain);
  ck_assert(memcmp(counts[0], counts[1], sizeof counts[0]) == 0);
}
END_TEST

/* Equal microbatches: the logged losses are those of one, whatever their number. */
START_TEST(r04_logged_balance_loss_is_a_mean_over_microbatches) {
  static const int sums[] = {MK_SUM_LB, MK_SUM_RZ, MK_SUM_CE, MK_SUM_Z};
  mt_config c = tiny_config();
  c.lb_def = _i == 0 ? MK_LB_OLMO : MK_LB_HF;
  mk_step_log one = repeated_step(&c, 1), four = repeated_step(&c, 4);
  for (int i = 0; i < 4; i++) {
    double expected = one.sum[sums[i]], got = four.sum[sums[i]];
    ck_assert_msg(expected > 0 && fabs(got - expected) < 1e-6 * expected, "sum %d: expected %.9g got %.9g", sums[i],
                  expected, got);
  }
  ck_assert_double_eq_tol(four.grad_norm, one.grad_norm, 1e-4 * one.grad_norm);
}
END_TEST

/* The reported cross-entropy is that of a run without any other loss, bit for bit; the others are reported apart. */
START_TEST(r05_reported_cross_entropy_holds_no_other_loss) {
  mt_config with = tiny_config(), without = with;
  without.lb_weight = without.router_z_weight = without.z_weight = 0;
  mk_step_log a = repeated_step(&with, 2), b = repeated_step(&without, 2);
  ck_assert_double_eq(a.sum[MK_SUM_CE], b.sum[MK_SUM_CE]);
  ck_assert_double_gt(a.sum[MK_SUM_Z], 0);
  ck_assert_double_eq(b.sum[MK_SUM_Z], 0);
}
END_TEST

/* Assignments per expert of the last step, [moe layers, E]; the sum of each layer is tokens * K. */
static double *expert_counts(const mt_config *c, int64_t *count) {
  tiny_rank r;
  tiny_open(&r, c);
  tiny_train(&r.ctx, r.t, 2, false);
  const mk_tensor *counts = &r.t->model->step_counts;
  *count = mk_tensor_count(counts);
  double *values = calloc((size_t)*count, sizeof *values);
  tiny_ok(&r.ctx, mt_trainer_tensor_read(r.t, counts, values), "counts");
  for (int64_t l = 0; l < r.t->model->moe_layers; l++) {
    double sum = 0;
    for (int64_t e = 0; e < c->experts; e++)
      sum += values[l * c->experts + e];
    ck_assert_msg(sum == (double)(c->global_tokens * c->top_k), "recompute %d layer %lld: %g assignments of %lld",
                  (int)c->recompute, (long long)l, sum, (long long)(c->global_tokens * c->top_k));
  }
  tiny_close(&r);
  return values;
}

START_TEST(r07_recompute_counts_no_token_twice) {
  int64_t count = 0;
  mt_config c = tiny_config();
  c.global_tokens = 2 * c.rank_tokens;
  double *plain = expert_counts(&c, &count);
  c.recompute = MT_RECOMPUTE_FULL;
  double *again = expert_counts(&c, &count);
  ck_assert(memcmp(plain, again, (size_t)count * sizeof *plain) == 0);
  free(again);
  free(plain);
}
END_TEST

/* Field `key` of the only step record of a run, as text. */
static void recorded(const mt_config *c, const char *key, char value[32]) {
  test_folder folder = test_folder_make();
  char path[TEST_PATH_BYTES], needle[64];
  char *text = NULL;
  size_t bytes = 0;
  mk_context ctx = {0};
  mt_comm *world = NULL;
  tiny_ok(&ctx, mt_comm_self_create(&ctx, &world), "self");
  tiny_ok(&ctx, mt_loop_run(&ctx, c, world, folder.path), "run");
  tiny_ok(&ctx, mk_file_read(&ctx, test_path(&folder, "records.jsonl", path), &text, &bytes), "records");
  snprintf(needle, sizeof needle, "\"%s\":", key);
  const char *at = strstr(text, needle);
  ck_assert_msg(at != NULL, "no %s in %s", key, text);
  snprintf(value, 32, "%.*s", (int)strcspn(at + strlen(needle), ",}"), at + strlen(needle));
  mk_heap_free(&ctx, text);
  mt_comm_destroy(world);
  test_folder_remove(&folder);
}

/* Balanced routing gives 1 in each MoE layer (olmo) or K pooled (hf): so does the mean, whatever the dense layers. */
START_TEST(r14_mean_balance_loss_divides_by_the_moe_layers) {
  char value[32];
  mt_config c = tiny_config();
  c.steps = 1, c.routing = MK_ROUTING_UNIFORM, c.label_shift_inside = false;
  for (int dense = 0; dense < 3; dense++) {
    c.dense_layers = dense;
    for (int def = MK_LB_OLMO; def <= MK_LB_HF; def++) {
      c.lb_def = (mk_lb_def)def;
      double wanted = def == MK_LB_OLMO ? 1.0 : (double)c.top_k;
      recorded(&c, "lb_mean", value);
      ck_assert_msg(fabs(strtod(value, NULL) - wanted) < 1e-5, "%d dense layers, definition %d: lb_mean %s", dense, def,
                    value);
    }
  }
  c.lb_def = MK_LB_OLMO;
  c.dense_layers = c.layers;
  recorded(&c, "lb_mean", value);
  ck_assert_str_eq(value, "null"); /* no MoE layer, no metric */
}
END_TEST

/* L MoE layers and m microbatches: L*m statistics and m balance losses a step, with recompute too. */
START_TEST(r15_balance_loss_is_recorded_once_a_layer_and_microbatch) {
  enum { STEPS = 2, MICROBATCHES = 3 };
  mt_config c = tiny_config();
  tiny_rank r;
  c.global_tokens = MICROBATCHES * c.rank_tokens;
  c.recompute = _i == 0 ? MT_RECOMPUTE_NONE : MT_RECOMPUTE_FULL;
  tiny_open(&r, &c);
  tiny_train(&r.ctx, r.t, STEPS, false);
  const mk_op_stats *stats = r.t->dev->stats;
  ck_assert_int_eq(stats[MK_OP_load_balance_stats].calls, STEPS * MICROBATCHES * mt_config_moe_layers(&c));
  ck_assert_int_eq(stats[MK_OP_load_balance_loss].calls, STEPS * MICROBATCHES);
  tiny_close(&r);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("failure cases: router");
  TCase *tc = test_case(suite, "one rank", 120);
  tcase_add_test(tc, r01_pads_of_an_evaluation_change_nothing);
  tcase_add_test(tc, r02_logging_changes_no_loss);
  tcase_add_loop_test(tc, r04_logged_balance_loss_is_a_mean_over_microbatches, 0, 2);
  tcase_add_test(tc, r05_reported_cross_entropy_holds_no_other_loss);
  tcase_add_test(tc, r07_recompute_counts_no_token_twice);
  tcase_add_test(tc, r14_mean_balance_loss_divides_by_the_moe_layers);
  tcase_add_loop_test(tc, r15_balance_loss_is_recorded_once_a_layer_and_microbatch, 0, 2);
  return test_main(suite);
}
