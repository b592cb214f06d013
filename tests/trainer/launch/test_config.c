/* Configurations as text: a preset sets its keys, what follows it stands, a file that was written reads back equal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/check_main.h"
#include "trainer/launch/config.h"

static void set(mk_context *ctx, mt_config *c, const char *key, const char *value) {
  ck_assert_msg(mt_config_set(ctx, c, key, value) == MK_OK, "%s=%s: %s", key, value, ctx->error.message);
}

/* Every key of the table as text; the first difference, or NULL. */
static const char *difference(const mt_config *a, const mt_config *b) {
  size_t count = 0;
  const mt_key *keys = mt_config_keys(&count);
  for (size_t i = 0; i < count; i++) {
    char x[MT_TEXT_BYTES], y[MT_TEXT_BYTES];
    mt_config_get(a, &keys[i], x, sizeof x);
    mt_config_get(b, &keys[i], y, sizeof y);
    if (strcmp(x, y) != 0) return keys[i].name;
  }
  return NULL;
}

START_TEST(olmo_v1_is_the_published_baseline) {
  mk_context ctx = {0};
  mt_config c = mt_config_default();
  c.embed_norm = true, c.weight_scale = MT_WEIGHT_SCALE_K, c.capacity_factor = 1.25, c.norm = MT_NORM_REORDERED;
  set(&ctx, &c, "preset", "olmo_v1");
  ck_assert_int_eq(c.norm, MT_NORM_HYBRID);
  ck_assert(!c.embed_norm && c.norm_topk && c.skip_step && c.host_counts);
  ck_assert_int_eq(c.weight_scale, MT_WEIGHT_SCALE_ONE);
  ck_assert_double_eq(c.capacity_factor, 0);
  ck_assert_int_eq(c.ep, 1);
  ck_assert_int_eq(c.shard, MT_SHARD_FSDP);
  ck_assert_int_eq(c.fsdp_reshard, MT_RESHARD_AFTER_FORWARD);
  ck_assert_int_eq(c.fsdp_reduce, MT_FSDP_REDUCE_EACH);
  ck_assert_int_eq(c.fsdp_prefetch, 0);
  ck_assert_int_eq(mt_config_prefetch_backward(&c), 1);
  ck_assert(mt_preset_sets("olmo_v1", "shard") && !mt_preset_sets("olmo_v1", "lr") && !mt_preset_sets("none", "shard"));
}
END_TEST

START_TEST(what_follows_a_preset_stands) {
  mk_context ctx = {0};
  mt_config c = mt_config_default(), none = mt_config_default();
  set(&ctx, &c, "preset", "olmo_v1");
  set(&ctx, &c, "fsdp_prefetch", "2");
  set(&ctx, &c, "norm", "reordered");
  ck_assert_int_eq(c.fsdp_prefetch, 2);
  ck_assert_int_eq(c.norm, MT_NORM_REORDERED);
  ck_assert_int_eq(c.shard, MT_SHARD_FSDP);
  set(&ctx, &none, "shard", "ddp");
  set(&ctx, &none, "preset", "none");
  ck_assert_int_eq(none.shard, MT_SHARD_DDP);
}
END_TEST

/* The file has the keys in the table's order, so that a key changed after the preset is not set back by it. */
START_TEST(a_written_file_reads_back_equal) {
  mk_context ctx = {0};
  mt_config c = mt_config_default(), back = mt_config_default();
  char path[64];
  snprintf(path, sizeof path, "test_config.%d.json", (int)getpid());
  set(&ctx, &c, "preset", "olmo_v1");
  set(&ctx, &c, "norm", "peri");
  set(&ctx, &c, "shard", "dist_opt");
  set(&ctx, &c, "fsdp_prefetch_backward", "-1");
  ck_assert_int_eq(mt_config_write(&ctx, path, &c), MK_OK);
  mk_status st = mt_config_read(&ctx, path, &back);
  remove(path);
  ck_assert_msg(st == MK_OK, "%s", ctx.error.message);
  const char *key = difference(&c, &back);
  ck_assert_msg(key == NULL, "'%s' is not what was written", key);
}
END_TEST

static const struct refusal {
  const char *key, *value, *reason;
} REFUSALS[] = {
    {"fsdp_shard_ranks", "3", "fsdp_shard_ranks: 3 does not divide the 8 data-parallel ranks"},
    {"fsdp_shard_ranks", "2", "fsdp_shard_ranks: 2 is not a multiple of ep 4"},
    {"norm", "hybrid", "leave weights_in and"},
};

START_TEST(illegal_combinations_with_fsdp_are_refused) {
  const struct refusal *r = &REFUSALS[_i];
  mk_context ctx = {0};
  mt_config c = mt_config_default();
  c.ranks = 8, c.ep = 4, c.shard = MT_SHARD_FSDP, c.global_tokens = 8 * c.rank_tokens, c.d_model = 128;
  c.expert_hidden = 128;
  strcpy(c.weights_out, "w");
  ck_assert_msg(mt_config_check(&ctx, &c) == MK_OK, "%s", ctx.error.message);
  set(&ctx, &c, r->key, r->value);
  ck_assert_int_ne(mt_config_check(&ctx, &c), MK_OK);
  ck_assert_msg(strstr(ctx.error.message, r->reason) != NULL, "%s=%s said: %s", r->key, r->value, ctx.error.message);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("config");
  TCase *tc = tcase_create("config");
  tcase_add_test(tc, olmo_v1_is_the_published_baseline);
  tcase_add_test(tc, what_follows_a_preset_stands);
  tcase_add_test(tc, a_written_file_reads_back_equal);
  tcase_add_loop_test(tc, illegal_combinations_with_fsdp_are_refused, 0, (int)(sizeof REFUSALS / sizeof REFUSALS[0]));
  suite_add_tcase(suite, tc);
  return test_main(suite);
}
