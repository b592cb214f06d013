/* Activation recompute: bit-identical to none for every rule, norm placement and kind of layer, metrics counted once,
 * and the planned activation memory that the rules promise. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"
#include "tests/trainer/support/tiny.h"

enum { STEPS = 3 };

typedef struct choice {
  mt_recompute recompute;
  mt_recompute_rule rule;
} choice;

/* From the least memory to the most. */
static const choice KINDS[] = {{MT_RECOMPUTE_FULL, MT_RULE_TORCHTITAN},
                               {MT_RECOMPUTE_SELECTIVE, MT_RULE_TORCHTITAN},
                               {MT_RECOMPUTE_SELECTIVE, MT_RULE_OLMO},
                               {MT_RECOMPUTE_NONE, MT_RULE_TORCHTITAN}};
enum { N_KINDS = sizeof KINDS / sizeof KINDS[0], NONE = N_KINDS - 1 };

static mt_config with(const mt_config *c, int kind) {
  mt_config out = *c;
  out.recompute = KINDS[kind].recompute, out.recompute_rule = KINDS[kind].rule;
  return out;
}

typedef struct variant {
  const char *settings; /* key=value, separated by spaces */
} variant;

static const variant VARIANTS[] = {
    {"norm=peri precision=bf16"},
    {"norm=reordered precision=bf16"},
    {"norm=pre precision=bf16"},
    {"norm=hybrid precision=bf16"},
    {"norm=peri precision=fp32 routing=random"},
    {"norm=pre precision=fp32 routing=uniform shared_hidden=0 qk_norm=full"},
    {"norm=reordered precision=fp32 gating=sigmoid lb_granularity=instance dense_layers=0"},
    {"norm=peri precision=bf16 dense_layers=3"},
    {"norm=peri precision=bf16 ep_transport=deepep_v2"},
    {"norm=pre precision=bf16 ep_transport=deepep_v2 device=cpu_async"},
    {"norm=peri precision=bf16 device=cpu_async"},
    {"norm=reordered precision=bf16 guard=true"},
    {"norm=peri precision=mxfp8 seq_len=16 rank_tokens=64 global_tokens=128 d_model=32 head_dim=8 expert_hidden=32 "
     "shared_hidden=32 dense_hidden=64"},
    {"norm=peri precision=mxfp8 seq_len=16 rank_tokens=64 global_tokens=128 d_model=32 head_dim=8 expert_hidden=32 "
     "shared_hidden=32 dense_hidden=64 ep_transport=deepep_v2"},
};
enum { N_VARIANTS = sizeof VARIANTS / sizeof VARIANTS[0] };

static mt_config config_of(mk_context *ctx, const variant *v) {
  mt_config c = tiny_config();
  c.global_tokens = 2 * c.rank_tokens, c.lr = 1e-3; /* two microbatches: counts and sums accumulate */
  tiny_set(ctx, &c, v->settings, " ");
  return c;
}

/* All parameters after STEPS steps, one after the other, and the log of the last. */
static double *train(mt_comm *world, const mt_config *c, int64_t *count, mk_step_log *log) {
  mk_context *ctx = world->ctx;
  mt_trainer *t = NULL;
  tiny_ok(ctx, mt_trainer_create(ctx, c, world, &t), "create");
  tiny_train(ctx, t, STEPS, false);
  tiny_ok(ctx, mt_trainer_log_read(t, log), "log");
  const mt_params *params = &t->model->params;
  *count = 0;
  for (int i = 0; i < params->count; i++)
    *count += params->item[i].count;
  double *values = malloc((size_t)*count * sizeof *values), *at = values;
  for (int i = 0; i < params->count; i++) {
    tiny_ok(ctx, mt_trainer_read(t, params->item[i].name, MT_VALUE_WEIGHT, at), "read");
    at += params->item[i].count;
  }
  mt_trainer_destroy(t);
  return values;
}

START_TEST(bits_are_those_without_recompute) {
  const variant *v = &VARIANTS[_i];
  mk_context ctx = {0};
  mt_comm *world = NULL;
  mk_step_log expected_log = {0}, log = {0};
  int64_t count = 0;
  mt_config c = config_of(&ctx, v), none = with(&c, NONE);
  tiny_ok(&ctx, mt_comm_self_create(&ctx, &world), "self");
  double *expected = train(world, &none, &count, &expected_log);
  for (int k = 0; k < NONE; k++) {
    mt_config again = with(&c, k);
    double *got = train(world, &again, &count, &log);
    for (int64_t i = 0; i < count; i++) {
      ck_assert_msg(memcmp(&got[i], &expected[i], sizeof *got) == 0,
                    "%s kind %d seed %lld: parameter value %lld: expected %.17g got %.17g", v->settings, k,
                    (long long)c.seed, (long long)i, expected[i], got[i]);
    }
    for (int i = 0; i < MK_SUM_COUNT; i++) {
      ck_assert_msg(log.sum[i] == expected_log.sum[i], "%s kind %d: sum %d: expected %.17g got %.17g", v->settings, k,
                    i, expected_log.sum[i], log.sum[i]);
    }
    ck_assert_msg(log.imbalance == expected_log.imbalance && log.grad_norm == expected_log.grad_norm,
                  "%s kind %d: imbalance %g, norm %g, expected %g, %g", v->settings, k, log.imbalance, log.grad_norm,
                  expected_log.imbalance, expected_log.grad_norm);
    free(got);
  }
  free(expected);
  mt_comm_destroy(world);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

/* Activations and comm buffers together: windowed transports keep rows in the latter. */
static size_t planned(mk_context *ctx, const mt_config *c) {
  size_t bytes[MK_MEM_COUNT];
  tiny_ok(ctx, mt_plan_memory(ctx, c, bytes), "plan");
  return bytes[MK_MEM_ACTIVATIONS] + bytes[MK_MEM_COMM];
}

static const char *const LAYOUTS[] = {"ep=1", "ep=2 ep_transport=block", "ep=2 ep_transport=rowwise",
                                      "ep=2 ep_transport=deepep_v2"};
enum { N_LAYOUTS = sizeof LAYOUTS / sizeof LAYOUTS[0] };

START_TEST(memory_falls_from_rule_to_rule) {
  mk_context ctx = {0};
  for (int layout = 0; layout < N_LAYOUTS; layout++) {
    mt_config c = config_of(&ctx, &(variant){LAYOUTS[layout]});
    c.norm = (mt_norm_placement)_i, c.ranks = c.ep, c.shard = MT_SHARD_DIST_OPT, c.global_tokens *= c.ranks;
    c.layers = 6; /* enough that what layers share is less than what each would keep */
    for (int k = 0; k < NONE; k++) {
      mt_config less = with(&c, k), more = with(&c, k + 1);
      size_t bytes = planned(&ctx, &less), above = planned(&ctx, &more);
      ck_assert_msg(bytes < above, "norm %d %s: kind %d plans %zu bytes, kind %d %zu", _i, LAYOUTS[layout], k, bytes,
                    k + 1, above);
    }
  }
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

/* By hand, for MoE layers alone on one rank, BF16, reordered norms. T = 64 tokens and widths that fill 64-byte lines,
 * so that no start is moved. */
START_TEST(memory_of_a_layer_is_what_the_rule_keeps) {
  mk_context ctx = {0};
  mt_config c = config_of(&ctx, &(variant){"norm=reordered precision=bf16 dense_layers=0 seq_len=16 rank_tokens=64 "
                                           "global_tokens=64 d_model=32 heads=4 kv_heads=2 head_dim=8 expert_hidden=32 "
                                           "shared_hidden=32 experts=16 top_k=2"});
  int64_t t = 64, d = 32, q = (4 + 2 * 2) * 8, heads = 4 + 2, e = 16, routes = 2 * t, f = 32;
  int64_t olmo = 2 * t * q + 4 * t * heads; /* qkr, its norms */
  /* attn.out and norms of it, x_mid, act, shared act, logits, scores and lse, permuted rows, mlp.out */
  int64_t titan = olmo + 2 * t * d + 4 * t + 2 * t * d + 2 * routes * f + 2 * t * f + 2 * 4 * t * e + 4 * t +
                  2 * routes * d + 2 * t * d;
  size_t bytes[2][N_KINDS];
  for (int more = 0; more < 2; more++) {
    c.layers = 2 + more;
    for (int k = 0; k < N_KINDS; k++) {
      mt_config kind = with(&c, k);
      bytes[more][k] = planned(&ctx, &kind);
    }
  }
  int64_t layer[N_KINDS];
  for (int k = 0; k < N_KINDS; k++)
    layer[k] = (int64_t)(bytes[1][k] - bytes[0][k]);
  ck_assert_int_eq(layer[0], 2 * t * d); /* full: the stream alone */
  ck_assert_int_eq(layer[NONE] - layer[1], titan);
  ck_assert_int_eq(layer[NONE] - layer[2], olmo);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("recompute");
  TCase *tcase = test_case(suite, "recompute", 200);
  tcase_add_loop_test(tcase, bits_are_those_without_recompute, 0, N_VARIANTS);
  tcase_add_loop_test(tcase, memory_falls_from_rule_to_rule, MT_NORM_REORDERED, MT_NORM_PRE + 1);
  tcase_add_test(tcase, memory_of_a_layer_is_what_the_rule_keeps);
  return test_main(suite);
}
