/* Parameter counts and FLOP per token of every model file, and of the published conventions, to the digit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "suite/models/counts.h"
#include "suite/models/model.h"
#include "suite/record/csv.h"
#include "tests/suite/yaml_files.h"
#include "tests/support/check_main.h"

static mt_config load(const char *name) {
  mk_context ctx = {0};
  ms_diagnostics diag = {0};
  char path[MS_PATH_BYTES];
  mt_config cfg = mt_config_default();
  ck_assert_int_eq(ms_model_find(&ctx, name, path), MK_OK);
  mk_status st = ms_model_load(&ctx, path, &diag, &cfg);
  print_faults(&diag);
  ck_assert_msg(st == MK_OK, "%s: %s", name, ctx.error.message);
  ms_diagnostics_fini(&ctx, &diag);
  ck_assert_int_eq(ctx.heap_live, 0);
  return cfg;
}

/* Loading compares every count of the file with the dimensions. */
static void check_loads(const char *path, const char *name) {
  (void)path;
  mt_config cfg = load(name);
  ck_assert_str_eq(cfg.model, name);
}

START_TEST(test_all_files_load) { ck_assert_int_ge(each_shipped_yaml("suite/models", check_loads), 16); }
END_TEST

typedef struct exact {
  const char *model;
  int64_t experts, seq_len, total, active, olmo3, full, megatron;
} exact;

/* Olmo-core 3 report (8-layer benchmark, production points) and Qwen3-30B-A3B: parameters without norms. */
static const exact PUBLISHED[] = {
    {"olmo3-8l", 8, 8192, 4580409344, 3171123200, 18171297792, 19781713920, 18169724928},
    {"olmo3-8l", 32, 8192, 13036814336, 3171811328, 18175426560, 19785842688, 18169724928},
    {"olmo3-8l", 48, 8192, 18674417664, 3172270080, 18178179072, 19788595200, 18169724928},
    {"olmo3-8l", 64, 8192, 24312020992, 3172728832, 18180931584, 19791347712, 18169724928},
    {"olmo3-8l", 128, 8192, 46862434304, 3174563840, 18191941632, 19802357760, 18169724928},
    {"tiny-64e", 64, 8192, 12912033792, 1587412992, 9902161920, 11512578048, 9890168832},
    {"small-64e", 64, 8192, 40862842880, 4293754880, 29053550592, 33884798976, 29022486528},
    {"medium-64e", 64, 8192, 70223069184, 7371423744, 50231549952, 58082328576, 50186944512},
    {"medium-96e", 96, 8192, 103747584000, 7375060992, 50253373440, 58104152064, 50186944512},
    {"medium-128e", 128, 8192, 137272098816, 7378698240, 50275196928, 58125975552, 50186944512},
    {"large-128e", 128, 8192, 295988363264, 15137767424, 100189734912, 112016228352, 100046733312},
    {"ultra-128e", 128, 8192, 1200482942976, 58357186560, 371813990400, 397178044416, 371523059712},
    {"ultra-256e", 256, 8192, 2379499438080, 58405158912, 372101824512, 397465878528, 371523059712},
    {"qwen3-30b-a3b", 128, 4096, 30531911680, 3352821760, 23082958848, 27913617408, 23006281728},
};

static void same(const char *model, int64_t experts, const char *what, int64_t got, int64_t expected) {
  ck_assert_msg(got == expected, "%s, %lld experts, %s: got %lld, expected %lld", model, (long long)experts, what,
                (long long)got, (long long)expected);
}

START_TEST(test_published_counts) {
  for (size_t i = 0; i < sizeof PUBLISHED / sizeof PUBLISHED[0]; i++) {
    const exact *e = &PUBLISHED[i];
    mt_config cfg = load(e->model);
    cfg.experts = e->experts;
    cfg.seq_len = e->seq_len;
    same(e->model, e->experts, "params_total", ms_count_params_total(&cfg, false), e->total);
    same(e->model, e->experts, "params_active", ms_count_params_active(&cfg, false), e->active);
    same(e->model, e->experts, "olmo_core_3_ddp", ms_flops_token(&cfg, MS_FLOPS_OLMO_CORE_3_DDP), e->olmo3);
    same(e->model, e->experts, "full_attention", ms_flops_token(&cfg, MS_FLOPS_FULL_ATTENTION), e->full);
    same(e->model, e->experts, "megatron_lm", ms_flops_token(&cfg, MS_FLOPS_MEGATRON_LM), e->megatron);
  }
}
END_TEST

/* Value of a row of flops-conventions.csv from our formulas; -1 for rows that are ratios. */
static int64_t ours(const mt_config *cfg, const char *name, const char *metric) {
  ms_model_parts p = ms_count_parts(cfg);
  int64_t scores = 6 * cfg->layers * cfg->heads * cfg->head_dim;
  const char *component = strstr(name, "%component=");
  const char *convention = strstr(name, "%convention=");
  if (strcmp(metric, "params_total") == 0) return ms_count_params_total(cfg, true);
  if (strcmp(metric, "params_active") == 0) {
    int64_t active = ms_count_params_active(cfg, true);
    if (strstr(name, "excl_input_emb") != NULL) return active - p.embedding;
    return strstr(name, "excl_both_emb") != NULL ? active - p.embedding - p.head : active;
  }
  if (strcmp(metric, "flop_token") != 0) return -1;
  if (component != NULL) {
    const char *c = component + 11;
    if (strcmp(c, "attention_projections") == 0) return 6 * p.attention;
    if (strcmp(c, "attention_core_full") == 0) return 2 * scores * cfg->seq_len;
    if (strcmp(c, "attention_core_causal") == 0) return scores * (cfg->seq_len + 1);
    if (strcmp(c, "router") == 0) return 6 * p.router;
    if (strcmp(c, "routed_experts") == 0) return 6 * p.routed_active;
    if (strcmp(c, "lm_head") == 0) return 6 * p.head;
    if (strcmp(c, "input_embedding_if_counted") == 0) return 6 * p.embedding;
    if (strcmp(c, "norms") == 0) return 6 * p.norms;
  }
  for (int i = 0; convention != NULL && i < MS_FLOPS_COUNT; i++) {
    if (strcmp(convention + 12, ms_flops_name((ms_flops)i)) == 0) return ms_flops_token(cfg, (ms_flops)i);
  }
  return 0;
}

START_TEST(test_conventions_csv) {
  mk_context ctx = {0};
  char path[MS_PATH_BYTES];
  ms_csv *csv = NULL;
  mt_config cfg = load("qwen3-30b-a3b");
  cfg.seq_len = 4096;
  ck_assert_int_eq(ms_path_find(&ctx, NULL, "baselines/published/flops-conventions.csv", path), MK_OK);
  ck_assert_int_eq(ms_csv_read(&ctx, path, &csv), MK_OK);
  int exact_rows = 0, ratios = 0;
  double base = (double)ms_flops_token(&cfg, MS_FLOPS_OLMO_CORE_3_DDP);
  for (int64_t row = 0; row < csv->n_rows; row++) {
    const char *name = ms_csv_get(csv, row, "case"), *metric = ms_csv_get(csv, row, "metric");
    double value = ms_csv_number(csv, row, "value");
    int64_t got = ours(&cfg, name, metric);
    if (got >= 0) {
      ck_assert_msg((double)got == value, "%s %s: got %lld, file %.0f", name, metric, (long long)got, value);
      exact_rows++;
      continue;
    }
    double ratio = (double)ours(&cfg, name, "flop_token") / base;
    ck_assert_msg(fabs(ratio / value - 1) < 6e-4, "%s: ratio %.6f, file %.3f", name, ratio, value);
    ratios++;
  }
  ms_csv_destroy(&ctx, csv);
  ck_assert_int_eq(exact_rows, 21);
  ck_assert_int_eq(ratios, 9);
}
END_TEST

/* baselines/peers/torch prints these for its shapes. */
START_TEST(test_peer_shapes) {
  mt_config s = load("peer-s"), l = load("peer-l");
  s.seq_len = 256;
  l.seq_len = 512;
  same("peer-s", 16, "flop_token", ms_flops_token(&s, MS_FLOPS_OLMO_CORE_3_DDP), 31561728);
  same("peer-l", 32, "flop_token", ms_flops_token(&l, MS_FLOPS_OLMO_CORE_3_DDP), 221011968);
}
END_TEST

/* A file whose text `from` is replaced by `to`; expects one fault with `text` at the line of `to`. */
static void check_broken(const char *from, const char *to, const char *text) {
  mk_context ctx = {0};
  ms_diagnostics diag = {0};
  char source[MS_PATH_BYTES], folder[] = "/tmp/moemark-model-XXXXXX", path[128], data[16384];
  ck_assert_int_eq(ms_model_find(&ctx, "text-4l", source), MK_OK);
  FILE *in = fopen(source, "r");
  size_t bytes = fread(data, 1, sizeof data - 1, in);
  fclose(in);
  data[bytes] = '\0';
  char *at = strstr(data, from);
  ck_assert_ptr_nonnull(at);
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/text-4l.yaml", folder);
  FILE *out = fopen(path, "w");
  fprintf(out, "%.*s%s%s", (int)(at - data), data, to, at + strlen(from));
  fclose(out);
  mt_config cfg = mt_config_default(), before = cfg;
  ck_assert_int_eq(ms_model_load(&ctx, path, &diag, &cfg), MK_ERR_CONFIG);
  bool found = false;
  for (int i = 0; i < diag.count; i++)
    found = found || strstr(diag.line[i], text) != NULL;
  ck_assert_msg(found, "%s: %d faults, the first %s", to, diag.count, diag.count > 0 ? diag.line[0] : "none");
  ck_assert_int_eq(memcmp(&cfg, &before, sizeof cfg), 0);
  int faults = diag.count;
  mk_error_clear(&ctx);
  ck_assert_int_eq(ms_model_load(&ctx, path, &diag, &cfg), MK_ERR_CONFIG); /* another case: each fault is said once */
  ck_assert_msg(diag.count == faults, "%s: %d faults, read again %d", to, faults, diag.count);
  ms_diagnostics_fini(&ctx, &diag);
  unlink(path);
  rmdir(folder);
}

START_TEST(test_broken_models) {
  check_broken("params_total_no_norms: ", "params_total_no_norms: 1", "params_total_no_norms: the file says");
  check_broken("d_model: 256", "d_model: 320", "the dimensions give");
  check_broken("top_k: 4\n", "", "mandatory key 'top_k' is missing");
  check_broken("source:", "sauce:", "unknown key 'sauce' in a model; the nearest is 'source'");
  check_broken("norm: pre", "norm: post", "norm: 'post' is not one of: reordered, peri, pre");
  check_broken("layers: 4", "layers: 4\nranks: 2", "unknown key 'ranks' in a model");
  check_broken("name: text-4l", "name: text-5l", "name: 'text-5l' is not the name of its file");
  check_broken("flop_token_megatron_lm: ", "flop_token_megatron_lm: 9", "flop_token_megatron_lm: the file says");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("models");
  TCase *tcase = tcase_create("counts");
  tcase_add_test(tcase, test_all_files_load);
  tcase_add_test(tcase, test_published_counts);
  tcase_add_test(tcase, test_conventions_csv);
  tcase_add_test(tcase, test_peer_shapes);
  tcase_add_test(tcase, test_broken_models);
  suite_add_tcase(suite, tcase);
  return test_main(suite);
}
