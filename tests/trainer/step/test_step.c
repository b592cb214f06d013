/* One rank's step: evaluation leaves no trace, non-finite values stop or skip, memory is planned, nothing is allocated,
 * counters are what the formulas say. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"
#include "tests/trainer/support/tiny.h"
#include "trainer/step/evaluate.h"

static void evaluate_once(tiny_rank *f) {
  mt_data *data = NULL;
  double loss = NAN;
  size_t bytes = (size_t)f->t->cfg.rank_tokens * sizeof(int32_t);
  int32_t *tokens = malloc(bytes), *labels = malloc(bytes);
  tiny_ok(&f->ctx, mt_data_create(&f->ctx, &f->t->cfg, 0, &data), "data");
  tiny_ok(&f->ctx, mt_evaluate(f->t, data, &(mt_stop){0}, tokens, labels, &loss), "evaluate");
  ck_assert_msg(loss > 0.5 * log((double)f->t->cfg.vocab) && loss < 3 * log((double)f->t->cfg.vocab),
                "held-out loss %g of random tokens is not near ln %lld", loss, (long long)f->t->cfg.vocab);
  mt_data_destroy(data);
  free(labels);
  free(tokens);
}

/* huggingface/transformers and torchtitan 4148: validation changed training. */
START_TEST(evaluation_leaves_no_trace) {
  int64_t count = 0;
  mt_config c = tiny_config();
  c.eval_tokens = 7 * c.seq_len;
  tiny_rank plain, with;
  tiny_open(&plain, &c);
  tiny_train(&plain.ctx, plain.t, 4, false);
  tiny_open(&with, &c);
  tiny_train(&with.ctx, with.t, 2, false);
  evaluate_once(&with);
  tiny_train(&with.ctx, with.t, 2, false);
  double *expected = tiny_values(&plain.ctx, plain.t, MT_VALUE_WEIGHT, &count),
         *got = tiny_values(&with.ctx, with.t, MT_VALUE_WEIGHT, &count);
  ck_assert(memcmp(expected, got, (size_t)count * sizeof *got) == 0);
  mk_step_log a, b;
  tiny_ok(&plain.ctx, mt_trainer_log_read(plain.t, &a), "log");
  tiny_ok(&with.ctx, mt_trainer_log_read(with.t, &b), "log");
  ck_assert(memcmp(a.sum, b.sum, sizeof a.sum) == 0);
  ck_assert_double_eq(a.imbalance, b.imbalance);
  free(got);
  free(expected);
  tiny_close(&with);
  tiny_close(&plain);
}
END_TEST

static void poison(tiny_rank *f, const char *name) {
  mt_param *p = mt_params_by_name(&f->t->model->params, name);
  double *values = malloc((size_t)p->count * sizeof *values);
  tiny_ok(&f->ctx, mt_trainer_read(f->t, name, MT_VALUE_WEIGHT, values), "read");
  for (int64_t i = 0; i < p->count; i += 7)
    values[i] = NAN; /* some row of a table that few tokens use */
  tiny_ok(&f->ctx, mt_trainer_write(f->t, name, values), "write");
  tiny_ok(&f->ctx, mt_trainer_weights_changed(f->t), "pack");
  free(values);
}

/* A NaN anywhere makes the step non-finite; parameters and moments stay as they were. */
START_TEST(non_finite_step_changes_nothing) {
  static const char *const names[] = {"embed.table", "layers.1.expert_down", "layers.2.router", "head.out"};
  mt_config c = tiny_config();
  tiny_rank f;
  int64_t count = 0;
  tiny_open(&f, &c);
  poison(&f, names[_i]);
  double *before = tiny_values(&f.ctx, f.t, MT_VALUE_WEIGHT, &count);
  tiny_train(&f.ctx, f.t, 1, false);
  mk_step_log log;
  tiny_ok(&f.ctx, mt_trainer_log_read(f.t, &log), "log");
  ck_assert_msg(log.nonfinite == 1 && log.skipped == 1, "%s: nonfinite %d skipped %d", names[_i], log.nonfinite,
                log.skipped);
  double *after = tiny_values(&f.ctx, f.t, MT_VALUE_WEIGHT, &count);
  ck_assert(memcmp(before, after, (size_t)count * sizeof *after) == 0);
  free(after);
  free(before);
  tiny_close(&f);
}
END_TEST

static const mt_shard SHARDS[] = {MT_SHARD_NONE, MT_SHARD_FSDP};
enum { N_SHARDS = sizeof SHARDS / sizeof SHARDS[0] };

START_TEST(steps_allocate_nothing_and_wait_for_nothing) {
  mt_config c = tiny_config();
  c.shard = SHARDS[_i];
  tiny_rank f;
  tiny_open(&f, &c);
  tiny_train(&f.ctx, f.t, 2, false);
  int64_t device = f.t->dev->alloc_calls, waits = f.t->dev->host_waits;
  mt_data *data = NULL;
  int32_t tokens[64], labels[64];
  tiny_ok(&f.ctx, mt_data_create(&f.ctx, &c, 0, &data), "data");
  long long heap = f.ctx.heap_calls;
  for (int n = 0; n < 3; n++) {
    tiny_ok(&f.ctx, mt_trainer_begin(f.t), "begin");
    tiny_ok(&f.ctx, mt_data_batch(data, f.t->step - 1, 0, tokens, labels), "batch");
    tiny_ok(&f.ctx, mt_trainer_microbatch(f.t, tokens, labels), "microbatch");
    tiny_ok(&f.ctx, mt_trainer_finish(f.t), "finish");
  }
  ck_assert_int_eq(f.ctx.heap_calls, heap);
  ck_assert_int_eq(f.t->dev->alloc_calls, device);
  ck_assert_int_eq(f.t->dev->host_waits, waits);
  mt_data_destroy(data);
  tiny_close(&f);
}
END_TEST

/* Planned bytes are allocated bytes, by category, and the pure plan says the same. */
START_TEST(memory_is_what_was_planned) {
  mt_config c = tiny_config();
  c.shard = SHARDS[_i];
  size_t planned[MK_MEM_COUNT];
  tiny_rank f;
  tiny_open(&f, &c);
  tiny_ok(&f.ctx, mt_plan_memory(&f.ctx, &c, planned), "plan");
  tiny_train(&f.ctx, f.t, 2, false);
  for (int i = 0; i < MK_MEM_COUNT; i++)
    ck_assert_uint_eq(planned[i], f.t->dev->peak_bytes[i]);
  tiny_close(&f);
}
END_TEST

START_TEST(a_budget_that_is_too_small_is_one_clear_error) {
  mk_context ctx = {0};
  mt_comm *world = NULL;
  mt_trainer *t = NULL;
  mt_config c = tiny_config();
  c.memory_budget_mib = 0.2;
  tiny_ok(&ctx, mt_comm_self_create(&ctx, &world), "self");
  ck_assert_int_eq(mt_trainer_create(&ctx, &c, world, &t), MK_ERR_MEMORY);
  ck_assert_ptr_null(t);
  ck_assert_ptr_nonnull(strstr(ctx.error.message, "memory_budget_mib is 0.2 MiB"));
  mt_comm_destroy(world);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

/* The n-th host allocation fails, for every n: a status, no leak, no crash. */
START_TEST(every_allocation_may_fail) {
  mt_config c = tiny_config();
  c.shard = SHARDS[_i];
  for (long long n = 1;; n++) {
    mk_context ctx = {.heap_fail_at = n};
    mt_comm *world = NULL;
    mt_trainer *t = NULL;
    mk_status st = mt_comm_self_create(&ctx, &world);
    if (st == MK_OK) st = mt_trainer_create(&ctx, &c, world, &t);
    bool reached = ctx.heap_calls >= n;
    mt_trainer_destroy(t);
    mt_comm_destroy(world);
    ck_assert_msg(ctx.heap_live == 0, "allocation %lld: %lld blocks leaked", n, ctx.heap_live);
    if (!reached) break;
    ck_assert_msg(st == MK_ERR_MEMORY, "allocation %lld: status %s (%s)", n, mk_status_name(st), ctx.error.message);
    ck_assert_msg(n < 5000, "creation never succeeds");
  }
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("step");
  TCase *tc = test_case(s, "one rank", 120);
  tcase_add_test(tc, evaluation_leaves_no_trace);
  tcase_add_loop_test(tc, non_finite_step_changes_nothing, 0, 4);
  tcase_add_loop_test(tc, steps_allocate_nothing_and_wait_for_nothing, 0, N_SHARDS);
  tcase_add_loop_test(tc, memory_is_what_was_planned, 0, N_SHARDS);
  tcase_add_test(tc, a_budget_that_is_too_small_is_one_clear_error);
  tcase_add_loop_test(tc, every_allocation_may_fail, 0, N_SHARDS);
  return s;
}

int main(void) { return test_main(suite()); }
