/* The order in which fsdp uses units, without ranks: golden walks, gathers of a step by their closed forms, and every
 * small pipeline walked with a note of what is here. */
#include <stdio.h>

#include "tests/support/check_main.h"
#include "trainer/parallel/fsdp.h"

enum { TEXT_BYTES = 512, LAYERS = 9, MOST_RANKS = 4, MOST_MICROBATCHES = 9 };

static const mt_fsdp_reshard MODES[] = {MT_RESHARD_AFTER_FORWARD, MT_KEEP_TO_BACKWARD, MT_KEEP_TO_FORWARD};

static mt_config config_of(mt_pp_schedule schedule, int p, int v, int64_t m, int64_t layers, mt_fsdp_reshard reshard) {
  mt_config c = mt_config_default();
  c.ranks = c.pp = p, c.pp_schedule = schedule, c.pp_chunks = v, c.layers = layers, c.rank_tokens = 1;
  c.global_tokens = m, c.fsdp_reshard = reshard, c.shard = MT_SHARD_FSDP;
  return c;
}

/* Each use: unit, + where it is gathered, f, b or both ways (x), - where it is released. */
static void walk_text(const mt_fsdp_uses *uses, char *text) {
  size_t used = 0;
  mt_fsdp_walk w = mt_fsdp_walk_start(uses);
  text[0] = '\0';
  for (mt_fsdp_use u; mt_fsdp_walk_get(&w, &u); mt_fsdp_walk_on(&w)) {
    used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%d%s%c%s", used > 0 ? " " : "", u.unit,
                             u.gathers ? "+" : "", "fbx"[u.use], u.releases ? "-" : "");
  }
}

/* The walk of a rank in a step or an evaluation. */
static void check_walk(const mt_config *c, int rank, bool train, const char *expected) {
  mk_context ctx = {0};
  mt_pp_plan plan = {0};
  mt_fsdp_uses uses = {0};
  char text[TEXT_BYTES];
  mt_pp_shape shape = mt_pp_shape_of(c);
  ck_assert_int_eq((train ? mt_pp_plan_make : mt_pp_forward_make)(&ctx, &shape, &plan), MK_OK);
  ck_assert_int_eq(mt_fsdp_uses_make(&ctx, c, &plan.rank[rank], train, &uses), MK_OK);
  walk_text(&uses, text);
  ck_assert_str_eq(text, expected);
  mt_fsdp_uses_fini(&ctx, &uses);
  mt_pp_plan_fini(&plan);
  ck_assert_int_eq(ctx.heap_live, 0);
}

/* Two stages of three layers: 0 embedding, 1 and 2 | 3, 4 head. */
START_TEST(golden_walks) {
  static const struct {
    mt_pp_schedule schedule;
    int64_t m;
    int p, rank;
    mt_fsdp_reshard reshard;
    const char *text;
  } golden[] = {
      {MT_PP_1F1B, 2, 1, 0, MT_RESHARD_AFTER_FORWARD,
       "0+f- 1+f- 2+f- 3+f- 4+x- 3+b- 2+b- 1+b- 0+f- 1+f- 2+f- 3+f- 4+x- 3+b- 2+b- 1+b-"},
      {MT_PP_1F1B, 2, 1, 0, MT_KEEP_TO_FORWARD,
       "0+f- 1+f- 2+f- 3+f- 4+x 3+b 2+b 1+b 0+f- 1f- 2f- 3f- 4x- 3+b- 2+b- 1+b-"},
      {MT_PP_GPIPE, 2, 2, 0, MT_RESHARD_AFTER_FORWARD, "0+f- 1+f- 2+f- 0+f- 1+f- 2+f- 2+b- 1+b- 2+b- 1+b-"},
      {MT_PP_GPIPE, 2, 2, 0, MT_KEEP_TO_BACKWARD, "0+f- 1+f 2+f 0+f- 1f 2f 2b 1b 2b- 1b-"},
      {MT_PP_GPIPE, 2, 2, 0, MT_KEEP_TO_FORWARD, "0+f- 1+f- 2+f- 0+f- 1+f- 2+f- 2+b 1+b 2b- 1b-"},
      {MT_PP_GPIPE, 2, 2, 1, MT_KEEP_TO_BACKWARD, "3+f 4+x- 3f 4+x- 3b 3b-"},
      {MT_PP_1F1B, 3, 2, 1, MT_KEEP_TO_BACKWARD, "3+f 4+x- 3b- 3+f 4+x- 3b- 3+f 4+x- 3b-"},
      {MT_PP_1F1B, 3, 2, 0, MT_KEEP_TO_FORWARD, "0+f- 1+f- 2+f- 0+f- 1+f- 2+f- 2+b 1+b 0+f- 1f- 2f- 2+b 1+b 2b- 1b-"},
  };
  for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
    mt_config c = config_of(golden[i].schedule, golden[i].p, 1, golden[i].m, 3, golden[i].reshard);
    check_walk(&c, golden[i].rank, true, golden[i].text);
  }
}
END_TEST

/* An evaluation keeps nothing, and its head runs forward only. */
START_TEST(evaluation_walk) {
  mt_config c = config_of(MT_PP_V, 1, 2, 2, 3, MT_KEEP_TO_BACKWARD);
  check_walk(&c, 0, false, "0+f- 1+f- 2+f- 3+f- 4+f-");
}
END_TEST

static void expect(const mt_config *c, int rank, const char *what, int64_t expected, int64_t got) {
  ck_assert_msg(expected == got, "schedule %d p %lld v %lld m %lld mode %d rank %d: %s: expected %lld got %lld",
                (int)c->pp_schedule, (long long)c->pp, (long long)c->pp_chunks, (long long)mt_config_microbatches(c),
                (int)c->fsdp_reshard, rank, what, (long long)expected, (long long)got);
}

/* A unit is gathered exactly where it is not here, nothing is here at the end, and a step uses each unit of the rank as
 * often as its microbatches say. */
static void follow(const mt_config *c, const mt_fsdp_uses *uses, int rank) {
  bool here[LAYERS + 2] = {false};
  int64_t count[LAYERS + 2] = {0}, before = 0, m = mt_config_microbatches(c);
  mt_fsdp_walk w = mt_fsdp_walk_start(uses);
  for (mt_fsdp_use u; mt_fsdp_walk_get(&w, &u); mt_fsdp_walk_on(&w)) {
    expect(c, rank, "uses before", before++, w.before);
    expect(c, rank, "gathered where it is not here", !here[u.unit], u.gathers);
    here[u.unit] = !u.releases;
    count[u.unit] += 1;
  }
  for (int unit = 0; unit < LAYERS + 2; unit++) {
    bool end = unit == 0 || unit == LAYERS + 1, held = mt_pp_holds_unit(&uses->shape, LAYERS, rank, unit);
    expect(c, rank, "here at the end", false, here[unit]);
    expect(c, rank, "uses of a unit", !held ? 0 : end ? m : 2 * m, count[unit]);
  }
}

/* Gathers of a chunk's layers; how often a chunk starts anew depends on the schedule only when layers stay until their
 * backward pass. */
static void check_gathers(const mt_config *c, const mt_pp_list *list, int rank, int chunk) {
  int64_t m = mt_config_microbatches(c), got = mt_fsdp_passes(list, chunk, c->fsdp_reshard, m, NULL);
  bool last = rank == c->pp - 1;
  if (c->fsdp_reshard == MT_RESHARD_AFTER_FORWARD) expect(c, rank, "gathers", 2 * m, got);
  if (c->fsdp_reshard == MT_KEEP_TO_FORWARD) expect(c, rank, "gathers", m + 1, got);
  if (c->fsdp_reshard != MT_KEEP_TO_BACKWARD) return;
  if (c->pp_schedule == MT_PP_GPIPE) expect(c, rank, "gathers", 1, got);
  if (c->pp_schedule == MT_PP_1F1B) expect(c, rank, "gathers", last ? m : 1, got);
  expect(c, rank, "gathers between one and one a microbatch", true, got >= 1 && got <= m);
}

static bool check_shape(const mt_config *c) {
  mk_context ctx = {0};
  mt_pp_plan plan = {0};
  mt_pp_shape shape = mt_pp_shape_of(c);
  if (mt_pp_plan_make(&ctx, &shape, &plan) != MK_OK) return false;
  for (int rank = 0; rank < c->pp; rank++) {
    mt_fsdp_uses uses = {0};
    ck_assert_int_eq(mt_fsdp_uses_make(&ctx, c, &plan.rank[rank], true, &uses), MK_OK);
    follow(c, &uses, rank);
    for (int chunk = 0; chunk < shape.chunks; chunk++)
      check_gathers(c, &plan.rank[rank], rank, chunk);
    mt_fsdp_uses_fini(&ctx, &uses);
  }
  mt_pp_plan_fini(&plan);
  return true;
}

START_TEST(every_shape_is_walked) {
  int ran = 0;
  for (int schedule = MT_PP_GPIPE; schedule <= MT_PP_V; schedule++) {
    for (int p = 1; p <= MOST_RANKS; p++) {
      for (int64_t m = 1; m <= MOST_MICROBATCHES; m++) {
        mt_config c = config_of((mt_pp_schedule)schedule, p, 0, m, LAYERS, MODES[_i]);
        ran += check_shape(&c);
      }
    }
  }
  ck_assert_int_gt(ran, 3 * MOST_RANKS * MOST_MICROBATCHES); /* interleaved refuses some */
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("fsdp uses");
  TCase *tc = tcase_create("walks");
  tcase_add_test(tc, golden_walks);
  tcase_add_test(tc, evaluation_walk);
  tcase_add_loop_test(tc, every_shape_is_walked, 0, (int)(sizeof MODES / sizeof MODES[0]));
  suite_add_tcase(s, tc);
  return s;
}

int main(void) { return test_main(suite()); }
