/* Plans: product, exclusions, resolved configs, scaled budget, single-factor rule, prediction. Studies are written
 * here. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "suite/plan/plan.h"
#include "tests/suite/yaml_files.h"
#include "tests/support/check_main.h"
#include "trainer/step/plan.h"

static const char HEAD[] =
    "schema: moemark/study/1\nid: t\ntitle: t\nsource: {cite: t, where: t}\n"
    "factors:\n  experts: {type: int}\n  stack: {type: level}\n"
    "define:\n  stack:\n    plain: {shard: dist_opt}\n    spread: {shard: dist_opt, ep: world}\n";
static const char METRICS[] =
    "metrics:\n  tok_s: {unit: token/s, better: higher}\nsanity:\n  - {check: loss_finite}\n"
    "contrasts:\n  - {id: growth, factor: experts, base: 8, within: stack, metric: tok_s}\n";
#define SMOKE_OF(stacks) \
  "  smoke:\n    trainer: {model: tiny-moe, set: {ranks: 2, seq_len: 64, rank_tokens: 256, global_tokens: 1024, " \
  "precision: fp32, capacity_factor: 0}}\n" \
  "    factors: {experts: [8, 16, 32], stack: [" stacks \
  "]}\n" \
  "    measure: {warmup_steps: 3, steps: 5, launches: 1}\n"
#define SMOKE SMOKE_OF("plain, spread")

typedef struct fixture {
  mk_context ctx;
  ms_diagnostics diag;
  ms_study *study;
  ms_plan *plan;
} fixture;

/* Reads the study HEAD + scales + tail and plans `scale`; returns the status of the plan. */
static mk_status make(fixture *f, const char *scales, const char *scale, const ms_settings *overrides,
                      const ms_machine_rates *rates) {
  char path[128];
  *f = (fixture){0};
  snprintf(path, sizeof path, "/tmp/moemark-plan-%ld.yaml", (long)getpid());
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  fprintf(file, "%sscales:\n%s%s", HEAD, scales, METRICS);
  fclose(file);
  mk_status st = ms_study_read(&f->ctx, path, &f->diag, &f->study);
  print_faults(&f->diag);
  ck_assert_int_eq(st, MK_OK);
  unlink(path);
  return ms_plan_create(&f->ctx, f->study, scale, rates, overrides, &f->diag, &f->plan);
}

static void finish(fixture *f) {
  ms_plan_destroy(&f->ctx, f->plan);
  ms_study_destroy(&f->ctx, f->study);
  ms_diagnostics_fini(&f->ctx, &f->diag);
  ck_assert_int_eq(f->ctx.heap_live, 0);
}

START_TEST(test_product) {
  fixture f;
  ck_assert_int_eq(make(&f, SMOKE, "smoke", NULL, NULL), MK_OK);
  ck_assert_int_eq(f.plan->n_cases, 6);
  const ms_case *first = &f.plan->cases[0], *last = &f.plan->cases[5];
  ck_assert_str_eq(first->name, "%experts=8 %stack=plain");
  ck_assert_str_eq(last->name, "%experts=32 %stack=spread");
  ck_assert_int_eq(first->config.experts, 8);
  ck_assert_int_eq(first->config.ep, 1);
  ck_assert_int_eq(last->config.experts, 32);
  ck_assert_int_eq(last->config.ep, 2); /* world, resolved */
  ck_assert_int_eq(last->config.warmup_steps, 3);
  ck_assert_int_eq(last->config.steps, 5);
  ck_assert_int_eq(last->config.d_model, 64); /* of the model file */
  ck_assert_str_eq(last->config.model, "tiny-moe");
  ck_assert(isnan(first->predicted_tok_s));
  for (int i = 0; i < 6; i++) {
    for (int j = 0; j < i; j++)
      ck_assert_str_ne(f.plan->cases[i].hash, f.plan->cases[j].hash);
  }
  finish(&f);
}
END_TEST

/* The planned bytes are the trainer's own. */
START_TEST(test_planned_bytes) {
  fixture f;
  size_t bytes[MK_MEM_COUNT], total = 0;
  ck_assert_int_eq(make(&f, SMOKE, "smoke", NULL, NULL), MK_OK);
  const ms_case *c = &f.plan->cases[3];
  ck_assert_int_eq(mt_plan_memory(&f.ctx, &c->config, bytes), MK_OK);
  for (int i = 0; i < MK_MEM_COUNT; i++) {
    ck_assert_uint_eq(bytes[i], c->planned_bytes[i]);
    total += bytes[i];
  }
  ck_assert(total > 0 && total == c->planned_total_bytes);
  finish(&f);
}
END_TEST

/* Keys that decide what is computed, and another value of each. */
static const char *const OTHER[][2] = {
    {"capacity_factor", "1.5"},
    {"capacity_scope", "expert"},
    {"lb_weight", "0.5"},
    {"rope_theta", "10000"},
    {"pp_schedule", "gpipe"},
    {"pp_chunks", "1"},
    {"grad_reduce", "reduce_scatter"},
    {"bucket_mib", "1"},
    {"fsdp_reshard", "keep_to_backward"},
    {"fsdp_prefetch", "2"},
    {"fsdp_prefetch_backward", "2"},
    {"fsdp_reduce", "last"},
    {"ep_transport", "deepep_v2"},
    {"host_counts", "true"},
    {"rank_tokens", "512"},
    {"global_tokens", "2048"},
    {"precision", "bf16"},
    {"mxfp8_attention", "false"},
    {"mxfp8_ep", "false"},
    {"mxfp8_scale", "floor"},
    {"kernel", "widened"},
    {"routing", "uniform"},
    {"recompute", "full"},
    {"recompute_rule", "olmo"},
    {"seed", "7"},
    {"head_chunk", "64"},
    {"lr", "0.5"},
    {"clip", "0"},
    {"holdout", "0.25"},
    {"device", "ref"},
    {"threads", "1"},
};

/* The hash is part of the comparability hash: launches that differ in any of these keys are not compared. */
START_TEST(test_hash_covers_every_key) {
  fixture f, other;
  ck_assert_int_eq(make(&f, SMOKE, "smoke", NULL, NULL), MK_OK);
  for (size_t i = 0; i < sizeof OTHER / sizeof OTHER[0]; i++) {
    ms_setting set;
    snprintf(set.key, sizeof set.key, "%s", OTHER[i][0]);
    snprintf(set.value, sizeof set.value, "%s", OTHER[i][1]);
    bool plain = strcmp(OTHER[i][0], "host_counts") == 0; /* refused where rows travel */
    mk_status st = make(&other, plain ? SMOKE_OF("plain") : SMOKE, "smoke", &(ms_settings){&set, 1}, NULL);
    ck_assert_msg(st == MK_OK, "%s: %s", OTHER[i][0],
                  other.diag.count > 0 ? other.diag.line[0] : other.ctx.error.message);
    ck_assert_msg(strcmp(f.plan->cases[0].hash, other.plan->cases[0].hash) != 0, "%s=%s keeps hash %s", OTHER[i][0],
                  OTHER[i][1], f.plan->cases[0].hash);
    finish(&other);
  }
  finish(&f);
}
END_TEST

START_TEST(test_exclude_and_expect) {
  fixture f;
  const char *scales = SMOKE
      "    exclude: [{when: \"experts > 8 and experts <= 16 and stack != spread\", reason: r}]\n"
      "    expect_fail: [{when: \"experts >= 32 and not stack == spread\", status: oom, reason: r}]\n";
  ck_assert_int_eq(make(&f, scales, "smoke", NULL, NULL), MK_OK);
  ck_assert_int_eq(f.plan->n_cases, 5);
  int expected = 0;
  for (int i = 0; i < 5; i++) {
    ck_assert_str_ne(f.plan->cases[i].name, "%experts=16 %stack=plain");
    bool is_expected = strcmp(f.plan->cases[i].name, "%experts=32 %stack=plain") == 0;
    ck_assert_msg((f.plan->cases[i].expect != NULL) == is_expected, "%s", f.plan->cases[i].name);
    expected += is_expected;
  }
  ck_assert_int_eq(expected, 1);
  finish(&f);
}
END_TEST

static void check_refused(const char *scales, const char *text) {
  fixture f;
  ck_assert_int_eq(make(&f, scales, "smoke", NULL, NULL), MK_ERR_CONFIG);
  ck_assert_ptr_null(f.plan);
  ck_assert_msg(f.diag.count >= 1 && strstr(f.diag.line[0], text) != NULL, "got %s",
                f.diag.count > 0 ? f.diag.line[0] : f.ctx.error.message);
  finish(&f);
}

START_TEST(test_refusals) {
  check_refused(SMOKE "    exclude: [{when: \"experts == 64\", reason: r}]\n",
                "no case of scale 'smoke' is excluded by this");
  check_refused(SMOKE "    expect_fail: [{when: \"experts > 32\", status: oom, reason: r}]\n", "meets this condition");
  check_refused(
      "  smoke:\n    trainer: {model: tiny-moe, set: {ranks: 2, seq_len: 64, rank_tokens: 256, global_tokens: 700}}\n"
      "    factors: {experts: [8], stack: [plain]}\n    measure: {warmup_steps: 0, steps: 1, launches: 1}\n",
      "global_tokens: 700 is not a multiple of rank_tokens");
  check_refused(
      "  smoke:\n    trainer: {model: tiny-moe, set: {ranks: 2, seq_len: 64, rank_tokens: 256, global_tokens: 512}}\n"
      "    factors: {experts: [8, 9], stack: [spread]}\n    measure: {warmup_steps: 0, steps: 1, launches: 1}\n",
      "ep: 2 does not divide experts 9");
}
END_TEST

START_TEST(test_overrides) {
  fixture f;
  ms_setting lr = {.key = "lr", .value = "0.5"}, experts = {.key = "experts", .value = "4"},
             ep = {.key = "ep", .value = "1"};
  ck_assert_int_eq(make(&f, SMOKE, "smoke", &(ms_settings){&lr, 1}, NULL), MK_OK);
  ck_assert(f.plan->cases[4].config.lr == 0.5);
  finish(&f);
  ck_assert_int_eq(make(&f, SMOKE, "smoke", &(ms_settings){&experts, 1}, NULL), MK_ERR_CONFIG);
  ck_assert_ptr_nonnull(strstr(f.ctx.error.message, "factor 'experts' of study 't' sets this key"));
  finish(&f);
  ck_assert_int_eq(make(&f, SMOKE, "smoke", &(ms_settings){&ep, 1}, NULL), MK_ERR_CONFIG);
  finish(&f);
}
END_TEST

/* What this build cannot run is a property of the case. */
START_TEST(test_unsupported) {
  fixture f;
  ms_setting replay = {.key = "routing", .value = "replay"};
  ck_assert_int_eq(make(&f, SMOKE, "smoke", &(ms_settings){&replay, 1}, NULL), MK_OK);
  ck_assert_ptr_nonnull(strstr(f.plan->cases[0].unsupported, "replay"));
  ck_assert_int_eq(f.ctx.error.status, MK_OK);
  finish(&f);
}
END_TEST

/* Study and text in a folder of their own; the hash of the only case. */
static void hash_in_folder(const char *name, const char *data, const char *text, char out[13]) {
  char folder[64], path[128];
  fixture f = {0};
  snprintf(folder, sizeof folder, "/tmp/moemark-plan-%.16s-XXXXXX", name);
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/%s", folder, data);
  ck_assert_int_eq(mk_file_write(&f.ctx, path, text, strlen(text)), MK_OK);
  snprintf(path, sizeof path, "%s/t.yaml", folder);
  FILE *file = fopen(path, "w");
  fprintf(file,
          "%sscales:\n  smoke:\n    trainer: {model: tiny-moe, set: {ranks: 2, seq_len: 64, rank_tokens: 256, "
          "global_tokens: 1024, data: bytes, data_path: %s, weights_in: %s}}\n"
          "    factors: {experts: [8], stack: [plain]}\n    measure: {warmup_steps: 3, steps: 5, launches: 1}\n%s",
          HEAD, data, data, METRICS);
  fclose(file);
  ck_assert_int_eq(ms_study_read(&f.ctx, path, &f.diag, &f.study), MK_OK);
  unlink(path);
  ck_assert_int_eq(ms_plan_create(&f.ctx, f.study, "smoke", NULL, NULL, &f.diag, &f.plan), MK_OK);
  const ms_case *c = &f.plan->cases[0];
  ck_assert_str_eq(c->unsupported, "");
  ck_assert_msg(strncmp(c->config.data_path, folder, strlen(folder)) == 0, "%s", c->config.data_path);
  strcpy(out, c->hash);
  snprintf(path, sizeof path, "%s/%s", folder, data);
  unlink(path);
  rmdir(folder);
  finish(&f);
}

/* Input files enter the hash by content, not by where they lie. */
START_TEST(test_hash_of_input_files) {
  char here[13], there[13], renamed[13], other[13];
  hash_in_folder("here", "text.txt", "abcd", here);
  hash_in_folder("elsewhere", "text.txt", "abcd", there);
  hash_in_folder("here", "copy.txt", "abcd", renamed);
  hash_in_folder("here", "text.txt", "abce", other);
  ck_assert_str_eq(here, there);
  ck_assert_str_eq(here, renamed);
  ck_assert_str_ne(here, other);
}
END_TEST

/* A study that names `data`, in a folder with a.txt and b.txt; what planning says. */
static mk_status plan_with_data(const char *data, const char *b, fixture *f, char hash[13], char unsupported[512]) {
  char folder[] = "/tmp/moemark-plan-list-XXXXXX", path[128];
  *f = (fixture){0};
  ck_assert_ptr_nonnull(mkdtemp(folder));
  const char *const FILES[][2] = {{"a.txt", "abcd"}, {"b.txt", b}};
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, FILES[i][0]);
    ck_assert_int_eq(mk_file_write(&f->ctx, path, FILES[i][1], strlen(FILES[i][1])), MK_OK);
  }
  snprintf(path, sizeof path, "%s/t.yaml", folder);
  FILE *file = fopen(path, "w");
  fprintf(file,
          "%sscales:\n  smoke:\n    trainer: {model: tiny-moe, set: {ranks: 2, seq_len: 64, rank_tokens: 256, "
          "global_tokens: 1024, data: bytes, data_path: \"%s\"}}\n"
          "    factors: {experts: [8], stack: [plain]}\n    measure: {warmup_steps: 3, steps: 5, launches: 1}\n%s",
          HEAD, data, METRICS);
  fclose(file);
  ck_assert_int_eq(ms_study_read(&f->ctx, path, &f->diag, &f->study), MK_OK);
  mk_status st = ms_plan_create(&f->ctx, f->study, "smoke", NULL, NULL, &f->diag, &f->plan);
  unlink(path);
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, FILES[i][0]);
    unlink(path);
  }
  rmdir(folder);
  if (st == MK_OK) {
    strcpy(hash, f->plan->cases[0].hash);
    strcpy(unsupported, f->plan->cases[0].unsupported);
  }
  return st;
}

/* Lists and patterns are the trainer's: each member is looked for, and every file counts in the hash. */
START_TEST(test_lists_of_files) {
  fixture f;
  char list[13], pattern[13], one[13], other[13], why[512];
  ck_assert_int_eq(plan_with_data("a.txt,b.txt", "efgh", &f, list, why), MK_OK);
  ck_assert_str_eq(why, "");
  const char *path = f.plan->cases[0].config.data_path;
  ck_assert_msg(path[0] == '/' && strstr(path, "/a.txt,/") != NULL && strstr(path, "/b.txt") != NULL, "%s", path);
  finish(&f);
  ck_assert_int_eq(plan_with_data("?.txt", "efgh", &f, pattern, why), MK_OK);
  ck_assert_str_eq(why, "");
  ck_assert_ptr_nonnull(strstr(f.plan->cases[0].config.data_path, "/?.txt"));
  finish(&f);
  ck_assert_int_eq(plan_with_data("a.txt", "efgh", &f, one, why), MK_OK);
  finish(&f);
  ck_assert_int_eq(plan_with_data("a.txt,b.txt", "efgi", &f, other, why), MK_OK);
  finish(&f);
  ck_assert_str_eq(list, pattern);
  ck_assert_str_ne(list, one);
  ck_assert_str_ne(list, other);
}
END_TEST

START_TEST(test_lists_name_the_member_that_is_missing) {
  fixture f;
  char hash[13], why[512];
  ck_assert_int_eq(plan_with_data("a.txt,c.txt", "efgh", &f, hash, why), MK_OK);
  ck_assert_msg(strstr(why, "data_path: c.txt: no such file in /tmp/") == why, "%s", why);
  finish(&f);
  ck_assert_int_eq(plan_with_data("a.txt,*.bin", "efgh", &f, hash, why), MK_OK);
  ck_assert_msg(strstr(why, "data_path: *.bin: no such file in /tmp/") == why, "%s", why);
  finish(&f);
  ck_assert_int_eq(plan_with_data("a.txt,", "efgh", &f, hash, why), MK_ERR_CONFIG);
  ck_assert_int_eq(f.diag.count, 1);
  ck_assert_msg(strstr(f.diag.line[0], "a name in the list is empty") != NULL, "%s", f.diag.line[0]);
  finish(&f);
}
END_TEST

#define LOCAL(experts) \
  "  local:\n    trainer: {model: tiny-moe, set: {ranks: 4, seq_len: 64, rank_tokens: 64, global_tokens: 1024, " \
  "capacity_factor: 0, memory_budget: scaled}}\n" \
  "    memory_reference: {experts: 32, stack: spread}\n" \
  "    factors: {experts: " experts \
  ", stack: [plain, spread]}\n" \
  "    measure: {warmup_steps: 0, steps: 1, launches: 1}\n"
static const char PUBLISHED[] =
    "  published:\n    trainer: {model: olmo3-8l, set: {ranks: 8, seq_len: 8192, rank_tokens: 16384, "
    "global_tokens: 4194304, ep_transport: rowwise, precision: bf16}}\n"
    "    system: b300x8\n    factors: {experts: [8, 32], stack: [plain, spread]}\n"
    "    measure: {warmup_steps: 0, steps: 1, launches: 1}\n";

static double total(const fixture *f, const char *name) {
  for (int i = 0; i < f->plan->n_cases; i++) {
    if (strcmp(f->plan->cases[i].name, name) == 0) return (double)f->plan->cases[i].planned_total_bytes;
  }
  ck_abort_msg("no case %s", name);
  return 0;
}

/* budget = 268.6 GiB x bytes here / bytes there, the same for every case. */
START_TEST(test_scaled_budget) {
  fixture f, g;
  char scales[4096];
  snprintf(scales, sizeof scales, "%s%s%s", SMOKE, LOCAL("[8, 32]"), PUBLISHED);
  ck_assert_int_eq(make(&g, scales, "published", NULL, NULL), MK_OK);
  ck_assert_int_eq(make(&f, scales, "local", NULL, NULL), MK_OK);
  double here = total(&f, "%experts=32 %stack=spread"), there = total(&g, "%experts=32 %stack=spread");
  double expected_mib = 268.6 * 1024 * here / there;
  for (int i = 0; i < f.plan->n_cases; i++) {
    double got = f.plan->cases[i].config.memory_budget_mib;
    ck_assert_msg(fabs(got / expected_mib - 1) < 1e-12, "%s: %.9g MiB, expected %.9g", f.plan->cases[i].name, got,
                  expected_mib);
  }
  ck_assert(g.plan->cases[0].config.memory_budget_mib == 0);
  finish(&f);
  finish(&g);
}
END_TEST

START_TEST(test_find) {
  fixture f;
  ms_expr *expr = NULL;
  ms_expr_fault fault;
  ck_assert_int_eq(make(&f, SMOKE, "smoke", NULL, NULL), MK_OK);
  ck_assert_int_eq(
      ms_expr_parse_claim(&f.ctx, "tok_s[stack=spread,experts=16] / tok_s[experts=64,stack=plain]", &fault, &expr),
      MK_OK);
  const ms_case *c = ms_plan_case_find(f.plan, &expr->metric[0]);
  ck_assert_ptr_nonnull(c);
  ck_assert_str_eq(c->name, "%experts=16 %stack=spread");
  ck_assert_ptr_null(ms_plan_case_find(f.plan, &expr->metric[1]));
  ms_expr_destroy(&f.ctx, expr);
  char keys[256];
  ck_assert_int_eq(ms_case_difference(c, &f.plan->cases[1], keys, sizeof keys), 1);
  ck_assert_str_eq(keys, "experts");
  ck_assert_int_eq(ms_case_difference(&f.plan->cases[2], c, keys, sizeof keys), 1);
  ck_assert_str_eq(keys, "ep");
  finish(&f);
}
END_TEST

START_TEST(test_conditions) {
  fixture f;
  bool holds = false;
  ms_condition condition;
  ck_assert_int_eq(make(&f, SMOKE, "smoke", NULL, NULL), MK_OK);
  ck_assert_int_eq(ms_condition_make(&f.ctx, "experts == 16 and (stack == spread or experts > 16)", &condition), MK_OK);
  for (int i = 0; i < 6; i++) {
    ck_assert_int_eq(ms_condition_eval(&f.ctx, f.study, &condition, &f.plan->cases[i], &holds), MK_OK);
    ck_assert_msg(holds == (i == 3), "%s", f.plan->cases[i].name);
  }
  ck_assert_int_eq(ms_condition_make(&f.ctx, "expert == 16", &condition), MK_OK);
  ck_assert_int_eq(ms_condition_eval(&f.ctx, f.study, &condition, &f.plan->cases[0], &holds), MK_ERR_CONFIG);
  finish(&f);
}
END_TEST

/* A bound: halving a rate lowers it, at most to half; more tokens make the optimizer's share smaller. */
START_TEST(test_prediction) {
  fixture f;
  ms_machine_rates rates = {.gemm_fp32_flops = 300e9, .gemm_bf16_flops = 250e9, .bandwidth_bytes_per_s = 15e9};
  ck_assert_int_eq(make(&f, SMOKE, "smoke", NULL, &rates), MK_OK);
  mt_config cfg = f.plan->cases[5].config;
  double base = ms_predict_tok_s(&cfg, &rates);
  ck_assert(base == f.plan->cases[5].predicted_tok_s);
  ck_assert(base > 0 && base <= 300e9 / f.plan->cases[5].flop_token);
  ms_machine_rates slow = rates;
  slow.gemm_fp32_flops /= 2;
  double slower = ms_predict_tok_s(&cfg, &slow);
  ck_assert(slower < base && slower >= base / 2);
  slow = rates;
  slow.bandwidth_bytes_per_s /= 2;
  slower = ms_predict_tok_s(&cfg, &slow);
  ck_assert(slower < base && slower >= base / 2);
  double share = ms_predict_optimizer_share(&cfg, &rates);
  ck_assert(share > 0 && share < 1);
  cfg.global_tokens *= 8;
  ck_assert(ms_predict_optimizer_share(&cfg, &rates) < share);
  ck_assert(ms_predict_tok_s(&cfg, &rates) > base);
  cfg.precision = MT_MXFP8;
  ck_assert(isnan(ms_predict_tok_s(&cfg, &rates)));
  finish(&f);
}
END_TEST

/* What a step costs where only arithmetic counts (FLOP), and where only memory does (bytes). */
static double step_cost(const mt_config *c, bool flops) {
  ms_machine_rates rates = {.gemm_fp32_flops = flops ? 1e12 : 1e60, .bandwidth_bytes_per_s = flops ? 1e60 : 1e12};
  return 1e12 * (double)c->global_tokens / ms_predict_tok_s(c, &rates);
}

static mt_config recompute_case(mt_recompute recompute, mt_recompute_rule rule) {
  mt_config c = mt_config_default();
  c.layers = 3, c.dense_layers = 1, c.dense_hidden = 96, c.shared_hidden = 32, c.norm = MT_NORM_REORDERED;
  c.ranks = 2, c.global_tokens = 4 * c.rank_tokens, c.shard = MT_SHARD_DDP;
  c.recompute = recompute, c.recompute_rule = rule;
  return c;
}

/* Whether what recompute adds is `gemm` FLOP of a token in GEMMs and attention, and at most 5 % in cheap ops. */
static void check_extra(const char *what, const mt_config *c, const mt_config *none, double gemm) {
  double extra = (step_cost(c, true) - step_cost(none, true)) / (double)c->global_tokens;
  ck_assert_msg(extra >= gemm * (1 - 1e-9) && extra <= 1.05 * gemm + 32 * (double)c->d_model * (double)c->layers,
                "%s: %.1f FLOP more a token, GEMMs and attention %.1f", what, extra, gemm);
}

/* By hand: a product with a weight [n,k] is 2nk FLOP a token, attention 4 (S + 1) / 2 FLOP a value of its output. */
START_TEST(test_recompute_prediction) {
  mt_config none = recompute_case(MT_RECOMPUTE_NONE, 0), full = recompute_case(MT_RECOMPUTE_FULL, 0);
  mt_config olmo = recompute_case(MT_RECOMPUTE_SELECTIVE, MT_RULE_OLMO);
  mt_config tt = recompute_case(MT_RECOMPUTE_SELECTIVE, MT_RULE_TORCHTITAN);
  double d = 64, qkv = 64 + 2 * 32, o = 64, attention = 2 * (64 + 1) * o;
  double layer = 2 * d * qkv + 2 * o * d + attention;                       /* of each of three */
  double dense = 6 * 96 * d, moe = 2 * 8 * d + 6 * 32 * d + 2 * 6 * 64 * d; /* gate, shared, two of eight experts */
  check_extra("full", &full, &none, 3 * layer + dense + 2 * moe);
  /* every second linear: attention output and the way down; the gate */
  check_extra("torchtitan", &tt, &none, 3 * 2 * o * d + 2 * 96 * d + 2 * (2 * 32 * d + 2 * 8 * d));
  /* QK-norm and RoPE, 7 FLOP a value of q and k */
  double extra = step_cost(&olmo, true) - step_cost(&none, true), tokens = (double)none.global_tokens;
  ck_assert_double_eq_tol(extra / tokens, 3 * 7 * (64 + 32), 1e-3);
  double bytes[] = {step_cost(&none, false), step_cost(&olmo, false), step_cost(&tt, false), step_cost(&full, false)};
  for (int i = 1; i < 4; i++)
    ck_assert_msg(bytes[i] > bytes[i - 1], "%d: %g bytes, the one before %g", i, bytes[i], bytes[i - 1]);
  /* rows travel again under full recompute only: one more way to the experts and one back; each byte is read and
   * written, half of the rows stay */
  mt_config full_ep = full, none_ep = none;
  full_ep.ep = none_ep.ep = 2;
  full_ep.ep_transport = none_ep.ep_transport = MT_EP_BLOCK;
  double weights = 3 * 64 * d * 4 * 4 * 2 * 4; /* the local experts are half, read by both products, layers, calls */
  double ways = step_cost(&full_ep, false) - step_cost(&none_ep, false) - (bytes[3] - bytes[0]) + weights;
  ck_assert_double_eq_tol(ways, 2 * 2 * 2 * (tokens * 2 * d * 4) / 2, 1e-3 * ways);
}
END_TEST

/* The ranks of a pipeline share the layers of a microbatch; streams and their gradients cross to the next rank. */
START_TEST(test_pipeline_prediction) {
  mt_config one = mt_config_default();
  one.layers = 8, one.global_tokens = 4 * one.rank_tokens;
  mt_config two = one, v = one;
  two.ranks = two.pp = 2;
  v.ranks = v.pp = 2, v.pp_schedule = MT_PP_V;
  double flops = step_cost(&one, true), stream = 4 * (double)(one.rank_tokens * one.d_model * 4);
  ck_assert_double_eq_tol(step_cost(&two, true), flops, 1e-6 * flops);
  double crossing = step_cost(&two, false) - step_cost(&one, false);
  ck_assert_double_eq_tol(crossing, 4 * stream, 1e-3 * stream);
  crossing = step_cost(&v, false) - step_cost(&one, false); /* stages 0,3 on rank 0, 1,2 on rank 1 */
  ck_assert_double_eq_tol(crossing, 2 * 4 * stream, 1e-3 * stream);
}
END_TEST

/* The studies of the repository plan at every scale; local optimizer share stays below 5 % at the rates of two cores.
 */
START_TEST(test_expert_scaling) {
  mk_context ctx = {0};
  ms_diagnostics diag = {0};
  ms_study *study = NULL;
  ms_plan *plan = NULL;
  char path[MS_PATH_BYTES];
  ms_machine_rates rates = {.gemm_fp32_flops = 300e9, .gemm_bf16_flops = 300e9, .bandwidth_bytes_per_s = 15e9};
  ck_assert_int_eq(ms_path_find(&ctx, NULL, "experiments/expert-scaling/study.yaml", path), MK_OK);
  ck_assert_int_eq(ms_study_read(&ctx, path, &diag, &study), MK_OK);
  ck_assert_int_eq(ms_plan_create(&ctx, study, "local", &rates, NULL, &diag, &plan), MK_OK);
  for (int i = 0; i < plan->n_cases; i++) {
    const ms_case *c = &plan->cases[i];
    bool over = (double)c->planned_total_bytes > c->config.memory_budget_mib * 0x1p20;
    int64_t rows = c->config.rank_tokens * c->config.top_k * mt_config_ep(&c->config) / c->config.experts;
    ck_assert_msg(over == (c->expect != NULL), "%s: %zu bytes, budget %.1f MiB", c->name, c->planned_total_bytes,
                  c->config.memory_budget_mib);
    if (over || c->config.shard == MT_SHARD_FSDP) continue; /* no claim compares fsdp, which has no EP to gather rows */
    ck_assert_msg(rows >= 64, "%s: %lld rows an expert", c->name, (long long)rows);
    ck_assert_msg(ms_predict_optimizer_share(&c->config, &rates) <= 0.05, "%s: optimizer %.1f %%", c->name,
                  100 * ms_predict_optimizer_share(&c->config, &rates));
  }
  ms_plan_destroy(&ctx, plan);
  ms_study_destroy(&ctx, study);
  ms_diagnostics_fini(&ctx, &diag);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

/* {factor} in the arguments of a peer. What is no peer is our own fp32 and bf16, at both shapes. */
START_TEST(test_peer_arguments) {
  mk_context ctx = {0};
  ms_diagnostics diag = {0};
  ms_study *study = NULL;
  ms_plan *plan = NULL;
  char path[MS_PATH_BYTES];
  ck_assert_int_eq(ms_path_find(&ctx, NULL, "experiments/peer-cpu/study.yaml", path), MK_OK);
  ck_assert_int_eq(ms_study_read(&ctx, path, &diag, &study), MK_OK);
  ck_assert_int_eq(ms_plan_create(&ctx, study, "local", NULL, NULL, &diag, &plan), MK_OK);
  int peers = 0;
  for (int i = 0; i < plan->n_cases; i++) {
    const ms_case *c = &plan->cases[i];
    ck_assert(c->config.d_model == (strcmp(c->level[0], "S") == 0 ? 256 : 512));
    if (c->peer[0] == '\0') continue;
    peers++;
    ck_assert_ptr_null(strchr(c->peer_args, '{'));
    ck_assert_ptr_nonnull(strstr(c->peer_args, strcmp(c->level[0], "S") == 0 ? " S " : " L "));
    ck_assert_uint_eq(c->planned_total_bytes, 0);
  }
  ck_assert_int_eq(plan->n_cases - peers, 4);
  ck_assert_int_gt(peers, 0);
  ms_plan_destroy(&ctx, plan);
  ms_study_destroy(&ctx, study);
}
END_TEST

START_TEST(test_failing_allocations) {
  for (long long n = 1;; n += n < 200 ? 1 : 37) {
    fixture f;
    make(&f, SMOKE, "smoke", NULL, NULL);
    ms_plan_destroy(&f.ctx, f.plan);
    f.plan = NULL;
    f.ctx.heap_fail_at = f.ctx.heap_calls + n;
    mk_status st = ms_plan_create(&f.ctx, f.study, "smoke", NULL, NULL, &f.diag, &f.plan);
    bool reached = f.ctx.heap_calls >= f.ctx.heap_fail_at;
    ck_assert_msg(!reached || st == MK_ERR_MEMORY, "allocation %lld failed, status %d: %s", n, st, f.ctx.error.message);
    finish(&f);
    if (!reached) return;
  }
}
END_TEST

/* What a step of FSDP moves by the work formulas: twice the weights and once the gradients a microbatch, so that more
 * microbatches or more experts cost it rate, and keeping weights to the backward pass gives some back. */
START_TEST(test_fsdp_prediction) {
  ms_machine_rates rates = {.gemm_fp32_flops = 300e9, .gemm_bf16_flops = 300e9, .bandwidth_bytes_per_s = 15e9};
  mt_config c = mt_config_default();
  c.ranks = 8, c.rank_tokens = 256, c.seq_len = 256, c.global_tokens = 8 * 256 * 4, c.shard = MT_SHARD_DIST_OPT;
  double dist_opt = ms_predict_tok_s(&c, &rates);
  c.shard = MT_SHARD_FSDP;
  double fsdp = ms_predict_tok_s(&c, &rates);
  c.fsdp_reshard = MT_KEEP_TO_BACKWARD;
  double kept = ms_predict_tok_s(&c, &rates);
  c.fsdp_reduce = MT_FSDP_REDUCE_LAST;
  double last = ms_predict_tok_s(&c, &rates);
  ck_assert_msg(fsdp < kept && kept < last && last < dist_opt, "fsdp %g, kept %g, last %g, dist_opt %g token/s", fsdp,
                kept, last, dist_opt);
  c.fsdp_shard_ranks = 4; /* half the ranks share a copy: shorter ways for weights, one more sum a step */
  ck_assert_msg(ms_predict_tok_s(&c, &rates) > last, "hybrid %g, full %g token/s", ms_predict_tok_s(&c, &rates), last);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("plan");
  TCase *tcase = test_case(suite, "plan", 120);
  tcase_add_test(tcase, test_product);
  tcase_add_test(tcase, test_planned_bytes);
  tcase_add_test(tcase, test_hash_covers_every_key);
  tcase_add_test(tcase, test_hash_of_input_files);
  tcase_add_test(tcase, test_lists_of_files);
  tcase_add_test(tcase, test_lists_name_the_member_that_is_missing);
  tcase_add_test(tcase, test_exclude_and_expect);
  tcase_add_test(tcase, test_refusals);
  tcase_add_test(tcase, test_overrides);
  tcase_add_test(tcase, test_unsupported);
  tcase_add_test(tcase, test_scaled_budget);
  tcase_add_test(tcase, test_find);
  tcase_add_test(tcase, test_conditions);
  tcase_add_test(tcase, test_prediction);
  tcase_add_test(tcase, test_fsdp_prediction);
  tcase_add_test(tcase, test_recompute_prediction);
  tcase_add_test(tcase, test_pipeline_prediction);
  tcase_add_test(tcase, test_expert_scaling);
  tcase_add_test(tcase, test_peer_arguments);
  tcase_add_test(tcase, test_failing_allocations);
  return test_main(suite);
}
