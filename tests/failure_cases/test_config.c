/* Keys: every word and every number of the table is either taken or refused with its name (P-08, O-13, E-08), and what
 * they decide about memory (P-06, E-10). */
#include <stdio.h>
#include <string.h>

#include "tests/support/check_main.h"
#include "tests/trainer/support/tiny.h"

/* The default or one word of a key: a step runs, or the refusal says why and begins with a key's name. */
static void run_or_refuse(const mt_key *key, const char *word) {
  mk_context ctx = {0};
  mt_config c = tiny_config();
  tiny_rank r;
  if (word != NULL) tiny_ok(&ctx, mt_config_set(&ctx, &c, key->name, word), key->name);
  mk_status st = mt_config_check(&ctx, &c);
  if (st == MK_OK) {
    tiny_open(&r, &c);
    tiny_train(&r.ctx, r.t, 1, false);
    tiny_close(&r);
    return;
  }
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(ctx.error.message, ":, "), ctx.error.message);
  ck_assert_msg(word != NULL, "the default of %s is refused: %s", key->name, ctx.error.message);
  ck_assert_msg(st == MK_ERR_CONFIG || st == MK_ERR_UNSUPPORTED, "%s: %s: status %s", key->name, word,
                mk_status_name(st));
  ck_assert_msg(mt_config_key_find(name) != NULL, "%s: %s: no key leads '%s'", key->name, word, ctx.error.message);
}

START_TEST(p08_every_word_runs_or_is_refused_with_its_reason) {
  size_t count = 0;
  const mt_key *keys = mt_config_keys(&count);
  int words = 0;
  for (size_t i = 0; i < count; i++) {
    mk_context ctx = {0};
    mt_config c = tiny_config();
    if (keys[i].type != MT_KEY_ENUM) continue;
    run_or_refuse(&keys[i], NULL);
    ck_assert_int_eq(mt_config_set(&ctx, &c, keys[i].name, "nosuch"), MK_ERR_CONFIG);
    for (int w = 0; keys[i].words[w] != NULL; w++, words++) {
      run_or_refuse(&keys[i], keys[i].words[w]);
      ck_assert_msg(strstr(ctx.error.message, keys[i].words[w]) != NULL, "'%s' does not list %s", ctx.error.message,
                    keys[i].words[w]);
    }
  }
  ck_assert_int_gt(words, 30);
}
END_TEST

START_TEST(o13_whole_numbers_are_checked_for_type_and_range) {
  static const char *const bad[] = {"true", "", "1e99", "-1", "4.5", "64k", "0x10", " 7"};
  size_t count = 0;
  const mt_key *keys = mt_config_keys(&count);
  for (size_t i = 0; i < count; i++) {
    for (size_t b = 0; keys[i].type == MT_KEY_INT && b < sizeof bad / sizeof bad[0]; b++) {
      mk_context ctx = {0};
      mt_config c = tiny_config(), before = c;
      if (strcmp(bad[b], "-1") == 0 && keys[i].min <= -1) continue; /* documented in its help */
      ck_assert_msg(mt_config_set(&ctx, &c, keys[i].name, bad[b]) == MK_ERR_CONFIG, "%s takes '%s'", keys[i].name,
                    bad[b]);
      ck_assert_msg(strncmp(ctx.error.message, keys[i].name, strlen(keys[i].name)) == 0, "'%s' does not name %s",
                    ctx.error.message, keys[i].name);
      ck_assert(memcmp(&before, &c, sizeof c) == 0);
    }
  }
}
END_TEST

static size_t comm_bytes(mt_ep_transport transport, int64_t top_k, double capacity, mt_capacity_scope scope) {
  mk_context ctx = {0};
  size_t bytes[MK_MEM_COUNT] = {0};
  mt_config c = tiny_config();
  c.ranks = c.ep = 2, c.shard = MT_SHARD_DDP, c.experts = 64, c.top_k = top_k, c.d_model = 64;
  c.rank_tokens = 240, c.global_tokens = 480, c.ep_transport = transport, c.capacity_factor = capacity,
  c.capacity_scope = scope;
  tiny_ok(&ctx, mt_config_check(&ctx, &c), "check");
  tiny_ok(&ctx, mt_plan_memory(&ctx, &c, bytes), "plan");
  return bytes[MK_MEM_COMM];
}

START_TEST(e10_exchange_buffers_grow_with_k) {
  for (int transport = MT_EP_BLOCK; transport <= MT_EP_DEEPEP_V2; transport++) {
    double ratio = (double)comm_bytes((mt_ep_transport)transport, 32, 0, MT_CAPACITY_RANK) /
                   (double)comm_bytes((mt_ep_transport)transport, 8, 0, MT_CAPACITY_RANK);
    ck_assert_msg(ratio > 3.9 && ratio < 4.1, "transport %d: bytes(32) / bytes(8) = %g", transport, ratio);
  }
}
END_TEST

/* A capacity of more than all routes, of a rank or of its experts together, is no larger than they are; half of them is
 * half. */
START_TEST(p06_capacity_never_exceeds_the_routes) {
  size_t all = comm_bytes(MT_EP_ROWWISE, 8, 0, MT_CAPACITY_RANK);
  for (int scope = MT_CAPACITY_RANK; scope <= MT_CAPACITY_EXPERT; scope++) {
    mt_capacity_scope of = (mt_capacity_scope)scope;
    ck_assert_uint_eq(comm_bytes(MT_EP_ROWWISE, 8, 0, of), all);
    ck_assert_uint_eq(comm_bytes(MT_EP_ROWWISE, 8, 2, of), all);
    ck_assert_uint_eq(comm_bytes(MT_EP_ROWWISE, 8, 1000, of), all);
    ck_assert_uint_lt(comm_bytes(MT_EP_ROWWISE, 8, 1, of), all / 10 * 6); /* beside the rows: what is sent */
  }
}
END_TEST

/* Rows that an expert of the last of `ranks` ranks accepts of the tokens of all of them. */
static int64_t expert_capacity(int ranks, int64_t tokens, int64_t experts, int64_t top_k, double factor) {
  mk_context ctx = {0};
  mt_ep *ep = NULL;
  mt_config c = tiny_config();
  c.ranks = c.ep = ranks, c.shard = MT_SHARD_DDP, c.experts = experts, c.top_k = top_k, c.seq_len = 1;
  c.rank_tokens = tokens / ranks, c.global_tokens = tokens, c.ep_transport = MT_EP_ROWWISE, c.eval_tokens = 0;
  c.capacity_factor = factor, c.capacity_scope = MT_CAPACITY_EXPERT, c.label_shift_inside = false;
  tiny_ok(&ctx, mt_config_check(&ctx, &c), "check");
  tiny_ok(&ctx, mt_ep_create(&ctx, NULL, &c, ranks, ranks - 1, NULL, &ep), "ep");
  int64_t capacity = ep->expert_capacity;
  ck_assert_int_eq(ep->capacity, mt_ep_rows_max(&c, ranks));
  ck_assert_int_le(ep->capacity, experts / ranks * capacity);
  mt_ep_destroy(ep);
  return capacity;
}

/* min(N, ceil(N * k * factor / E)): a token chooses an expert at most once, so that no more than all N can come. */
START_TEST(p06_an_expert_accepts_no_more_than_all_tokens) {
  ck_assert_int_eq(expert_capacity(2, 4, 2, 2, 2), 4);
  ck_assert_int_eq(expert_capacity(2, 2, 8, 2, 1), 1);
  ck_assert_int_eq(expert_capacity(2, 4, 2, 2, 0.75), 3);
  ck_assert_int_eq(expert_capacity(2, 10, 4, 1, 1), 3); /* 2.5 */
}
END_TEST

int main(void) {
  Suite *suite = suite_create("failure cases: configuration");
  TCase *tc = test_case(suite, "keys", 120);
  tcase_add_test(tc, p08_every_word_runs_or_is_refused_with_its_reason);
  tcase_add_test(tc, o13_whole_numbers_are_checked_for_type_and_range);
  tcase_add_test(tc, e10_exchange_buffers_grow_with_k);
  tcase_add_test(tc, p06_capacity_never_exceeds_the_routes);
  tcase_add_test(tc, p06_an_expert_accepts_no_more_than_all_tokens);
  return test_main(suite);
}
