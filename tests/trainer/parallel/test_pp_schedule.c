/* Pipeline schedules without ranks: golden timelines, live chunks, bubbles, and every small shape run in simulation.
 * With the word `refused` as its argument the program prints the shapes that are refused and why, and ends. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check_main.h"
#include "tests/trainer/parallel/pp_lists.h"

enum { TEXT_BYTES = 1 << 14, MOST_RANKS = 8, MOST_MICROBATCHES = 16, MOST_CHUNKS = 4 };

static const char *const NAMES[] = {"gpipe", "1f1b", "interleaved", "v"};

static void make(mk_context *ctx, mt_pp_schedule schedule, int p, int v, int64_t m, mt_pp_plan *plan) {
  mt_pp_shape shape = {schedule, p, v, m};
  mk_status st = mt_pp_plan_make(ctx, &shape, plan);
  ck_assert_msg(st == MK_OK, "%s p %d v %d m %lld: %s", NAMES[schedule], p, v, (long long)m, ctx->error.message);
}

/* Timelines of Olmo-core 3.0.0's two schedules, computed with that code (spec of the reproduction, pipeline section).
 * */
START_TEST(golden_timelines) {
  static const struct {
    mt_pp_schedule schedule;
    int rank;
    const char *text;
  } golden[] = {
      {MT_PP_INTERLEAVED, 0,
       "0F0 0F1 2F0 2F1 .. .. 0F2 2B0 2B_0 0F3 2B1 2B_1 2F2 0B0 0B_0 2F3 0B1 "
       "0B_1 .. 2B2 2B_2 2B3 2B_3 0B2 0B_2 0B3 "
       "0B_3"},
      {MT_PP_INTERLEAVED, 1,
       ".. 1F0 1F1 3F0 3B0 3B_0 3F1 3B1 3B_1 1F2 1B0 1B_0 1F3 1B1 1B_1 3F2 3B2 "
       "3B_2 3F3 3B3 3B_3 1B2 1B_2 1B3 1B_3 .. "
       ".."},
      {MT_PP_V, 0,
       "0F0 0F1 0F2 3F0 3B0 3B_0 3F1 3B1 3B_1 0F3 0B0 0B_0 3F2 3B2 3B_2 .. 0B1 "
       "0B_1 3F3 3B3 3B_3 .. 0B2 0B_2 .. .. "
       "0B3 0B_3"},
      {MT_PP_V, 1,
       ".. 1F0 2F0 1F1 2F1 .. 2B0 2B_0 1B0 1B_0 1F2 2F2 2B1 2B_1 1B1 1B_1 1F3 "
       "2F3 2B2 2B_2 1B2 1B_2 2B3 2B_3 1B3 1B_3 "
       ".. .."},
  };
  mk_context ctx = {0};
  mt_pp_plan plan = {0};
  char text[TEXT_BYTES];
  make(&ctx, golden[_i].schedule, 2, 2, 4, &plan);
  ck_assert_uint_lt(mt_pp_slots_text(&plan, golden[_i].rank, text, sizeof text), sizeof text);
  ck_assert_str_eq(text, golden[_i].text);
  mt_pp_plan_fini(&plan);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

/* What a list looks like, sends and receives included. */
START_TEST(lists_are_printed) {
  mk_context ctx = {0};
  mt_pp_plan plan = {0};
  char text[TEXT_BYTES];
  make(&ctx, MT_PP_1F1B, 2, 1, 3, &plan);
  mt_pp_list_text(&plan, 0, text, sizeof text);
  ck_assert_str_eq(text, "0F0 0F0>1 0F1 0F1>1 1B0<1 0B0 0F2 0F2>1 1B1<1 0B1 1B2<1 0B2 step");
  mt_pp_list_text(&plan, 1, text, sizeof text);
  ck_assert_str_eq(text, "0F0<0 1F0 0F1<0 1B0 1B0>0 1F1 1B1 0F2<0 1B1>0 1F2 1B2 1B2>0 step");
  ck_assert_uint_eq(mt_pp_list_text(&plan, 0, NULL, 0),
                    strlen("0F0 0F0>1 0F1 0F1>1 1B0<1 0B0 0F2 0F2>1 1B1<1 0B1 1B2<1 "
                           "0B2 step"));
  mt_pp_plan_fini(&plan);
}
END_TEST

/* Published figures: Olmo-core 3 report Table 10 (p 4, m 8), the others computed with its code; 1f1b and gpipe by
 * (p-1)/(m+p-1) (Narayanan et al. 2021, section 2.2). peaks: live chunks by rank; 0 ends the list. */
START_TEST(bubbles_and_peaks) {
  static const struct {
    mt_pp_schedule schedule;
    int p, v;
    int64_t m;
    double percent;
    int peaks[MOST_RANKS];
  } row[] = {
      {MT_PP_INTERLEAVED, 2, 2, 4, 100.0 / 9, {5, 3}},
      {MT_PP_INTERLEAVED, 4, 2, 4, 300.0 / 11, {8, 8, 7, 5}},
      {MT_PP_INTERLEAVED, 4, 2, 8, 300.0 / 19, {11, 9, 7, 5}},
      {MT_PP_INTERLEAVED, 4, 2, 32, 900.0 / 201, {0}},
      {MT_PP_INTERLEAVED, 8, 2, 64, 2100.0 / 405, {0}},
      {MT_PP_INTERLEAVED, 8, 2, 128, 2100.0 / 789, {0}},
      {MT_PP_INTERLEAVED, 2, 2, 16, 300.0 / 99, {0}},
      {MT_PP_INTERLEAVED, 2, 2, 24, 300.0 / 147, {0}},
      {MT_PP_INTERLEAVED, 4, 2, 48, 900.0 / 297, {0}},
      {MT_PP_INTERLEAVED, 8, 2, 24, 2100.0 / 165, {23, 21, 19, 17, 15, 13, 11, 9}},
      {MT_PP_V, 2, 2, 4, 400.0 / 28, {4, 4}},
      {MT_PP_V, 4, 2, 4, 1500.0 / 39, {5, 6, 6, 6}},
      {MT_PP_V, 4, 2, 8, 1500.0 / 63, {6, 6, 6, 6}},
      {MT_PP_V, 4, 2, 32, 1500.0 / 207, {0}},
      {MT_PP_V, 8, 2, 64, 3300.0 / 417, {12, 12, 12, 12, 12, 12, 12, 12}},
      {MT_PP_V, 8, 2, 128, 3300.0 / 801, {0}},
      {MT_PP_1F1B, 4, 1, 8, 300.0 / 11, {4, 3, 2, 1}},
      {MT_PP_1F1B, 4, 1, 4, 300.0 / 7, {4, 3, 2, 1}},
      {MT_PP_1F1B, 4, 1, 2, 300.0 / 5, {2, 2, 2, 1}},
      {MT_PP_GPIPE, 4, 1, 8, 300.0 / 11, {8, 8, 8, 8}},
  };
  for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
    mk_context ctx = {0};
    mt_pp_plan plan = {0};
    make(&ctx, row[i].schedule, row[i].p, row[i].v, row[i].m, &plan);
    double percent = 100 * mt_pp_bubble(&plan);
    ck_assert_msg(fabs(percent - row[i].percent) < 1e-9, "%s p %d m %lld: bubble expected %.4f %% got %.4f %%",
                  NAMES[row[i].schedule], row[i].p, (long long)row[i].m, row[i].percent, percent);
    for (int r = 0; r < row[i].p && row[i].peaks[0] > 0; r++) {
      ck_assert_msg(plan.rank[r].sets == row[i].peaks[r], "%s p %d m %lld rank %d: live chunks expected %d got %d",
                    NAMES[row[i].schedule], row[i].p, (long long)row[i].m, r, row[i].peaks[r], plan.rank[r].sets);
    }
    mt_pp_plan_fini(&plan);
  }
}
END_TEST

/* Every stage has layers, every layer one stage; Ultra's 63 layers make 15 stages of 4 and one of 3. */
START_TEST(layers_are_split_once) {
  for (int stages = 1; stages <= 32; stages++) {
    mt_pp_shape shape = {MT_PP_INTERLEAVED, stages, 1, 1};
    for (int64_t layers = stages; layers <= 130; layers++) {
      int64_t next = 0;
      for (int s = 0; s < stages; s++) {
        mt_pp_stage part = mt_pp_stage_make(&shape, layers, s);
        ck_assert_int_eq(part.first_layer, next);
        ck_assert_msg(part.layers >= 1, "stage %d of %d with %lld layers is empty", s, stages, (long long)layers);
        ck_assert(part.embeds == (s == 0) && part.predicts == (s == stages - 1));
        next += part.layers;
      }
      ck_assert_int_eq(next, layers);
    }
  }
  mt_pp_shape ultra = {MT_PP_INTERLEAVED, 8, 2, 8};
  for (int s = 0; s < 16; s++)
    ck_assert_int_eq(mt_pp_stage_make(&ultra, 63, s).layers, s < 15 ? 4 : 3);
}
END_TEST

/* As pp_order_v.c says: on every rank alike from 2p microbatches on, and never more. */
START_TEST(v_peaks) {
  for (int p = 2; p <= MOST_RANKS; p++) {
    int most = 2 * ((2 * p + 1 + 2) / 3);
    for (int64_t m = 1; m <= 2 * p + 1; m++) {
      mk_context ctx = {0};
      mt_pp_plan plan = {0};
      make(&ctx, MT_PP_V, p, 2, m, &plan);
      for (int r = 0; r < p; r++) {
        bool good = m < 2 * p ? plan.rank[r].sets <= most : plan.rank[r].sets == most;
        ck_assert_msg(good, "p %d m %lld rank %d: live chunks %d, most %d", p, (long long)m, r, plan.rank[r].sets,
                      most);
      }
      mt_pp_plan_fini(&plan);
    }
  }
}
END_TEST

START_TEST(a_v_meets_on_rank_0) {
  mt_pp_shape v = {MT_PP_V, 4, 2, 8}, loop = {MT_PP_INTERLEAVED, 4, 2, 8};
  static const int v_ranks[] = {0, 1, 2, 3, 3, 2, 1, 0}, loop_ranks[] = {0, 1, 2, 3, 0, 1, 2, 3};
  for (int s = 0; s < 8; s++) {
    ck_assert_int_eq(mt_pp_rank_of(&v, s), v_ranks[s]);
    ck_assert_int_eq(mt_pp_rank_of(&loop, s), loop_ranks[s]);
    ck_assert_int_eq(mt_pp_stage_at(&v, v_ranks[s], mt_pp_chunk_of(&v, s)), s);
    ck_assert_int_eq(mt_pp_stage_at(&loop, loop_ranks[s], mt_pp_chunk_of(&loop, s)), s);
  }
  ck_assert(mt_pp_holds_unit(&v, 16, 0, 0) && mt_pp_holds_unit(&v, 16, 0, 17));
  ck_assert(mt_pp_holds_unit(&loop, 16, 3, 17) && !mt_pp_holds_unit(&loop, 16, 0, 17));
}
END_TEST

typedef struct tally {
  int ran, refused;
} tally;

typedef void (*shape_fn)(const mt_pp_shape *shape, tally *count);

static tally each_shape(shape_fn visit) {
  tally count = {0};
  mt_pp_shape s = {0};
  for (int kind = MT_PP_GPIPE; kind <= MT_PP_V; kind++) {
    for (s.ranks = 1; s.ranks <= MOST_RANKS; s.ranks++) {
      for (s.chunks = 1; s.chunks <= MOST_CHUNKS; s.chunks++) {
        for (s.microbatches = 1; s.microbatches <= MOST_MICROBATCHES; s.microbatches++) {
          s.schedule = (mt_pp_schedule)kind;
          visit(&s, &count);
        }
      }
    }
  }
  return count;
}

static void say_refused(const mt_pp_shape *s, tally *count) {
  mk_context ctx = {0};
  bool refused = mt_pp_check(&ctx, s) != MK_OK;
  *(refused ? &count->refused : &count->ran) += 1;
  if (!refused) return;
  printf("%s p %d v %d m %lld: %s\n", NAMES[s->schedule], s->ranks, s->chunks, (long long)s->microbatches,
         ctx.error.message);
}

static void run_shape(const mt_pp_shape *s, tally *count) {
  mk_context ctx = {0};
  mt_pp_plan plan = {0};
  char why[PP_WHY_BYTES] = "";
  if (mt_pp_plan_make(&ctx, s, &plan) != MK_OK) {
    ck_assert_msg(strncmp(ctx.error.message, "pp_", 3) == 0, "no key is named: %s", ctx.error.message);
    ck_assert_int_eq(ctx.heap_live, 0);
    count->refused += 1;
    return;
  }
  ck_assert_msg(pp_lists_run(&plan, why), "%s p %d v %d m %lld: %s", NAMES[s->schedule], s->ranks, s->chunks,
                (long long)s->microbatches, why);
  mt_pp_plan_fini(&plan);
  count->ran += 1;
}

/* gpipe and 1f1b take one chunk, v two; interleaved takes every m that its rounds divide. */
START_TEST(every_shape_runs_or_is_refused) {
  int divides = 0, plain = MOST_RANKS * MOST_MICROBATCHES;
  for (int p = 1; p <= MOST_RANKS; p++) {
    for (int64_t m = 1; m <= MOST_MICROBATCHES; m++) {
      int64_t rounds = m / p > 1 ? m / p : 1;
      divides += m % rounds == 0;
    }
  }
  tally count = each_shape(run_shape);
  ck_assert_int_eq(count.ran, 3 * plain + MOST_CHUNKS * divides);
  ck_assert_int_eq(count.ran + count.refused, 4 * MOST_CHUNKS * plain);
}
END_TEST

/* The check itself: a set given back too early, a buffer that another stream takes, two receives in the wrong order. */
START_TEST(broken_lists_are_caught) {
  mk_context ctx = {0};
  mt_pp_plan plan = {0};
  char why[PP_WHY_BYTES] = "";
  make(&ctx, MT_PP_INTERLEAVED, 2, 2, 4, &plan);
  ck_assert(pp_lists_run(&plan, why));
  mt_pp_list *list = &plan.rank[0];
  int changed = 0;
  for (int64_t i = 0; i < list->count; i++) {
    mt_pp_action *a = &list->action[i];
    if (a->op != (_i == 2 ? MT_PP_RECV : MT_PP_COMPUTE)) continue;
    if (_i == 0) a->set = 0, changed++;
    if (_i == 1 && a->in > 0 && !a->backward) a->in = 0, changed++;
    if (_i == 2 && !a->backward && changed++ == 0) a->microbatch ^= 1;
  }
  ck_assert_int_gt(changed, 0);
  ck_assert(!pp_lists_run(&plan, why));
  ck_assert_msg(why[0] != '\0', "no reason is given");
  mt_pp_plan_fini(&plan);
}
END_TEST

START_TEST(every_allocation_may_fail) {
  for (int kind = MT_PP_GPIPE; kind <= MT_PP_V; kind++) {
    for (long long n = 1;; n++) {
      mk_context ctx = {.heap_fail_at = n};
      mt_pp_plan plan = {0};
      mt_pp_shape shape = {(mt_pp_schedule)kind, 3, kind >= MT_PP_INTERLEAVED ? 2 : 1, 3};
      mk_status st = mt_pp_plan_make(&ctx, &shape, &plan);
      bool reached = ctx.heap_calls >= n;
      mt_pp_plan_fini(&plan);
      ck_assert_int_eq(ctx.heap_live, 0);
      if (!reached) break;
      ck_assert_int_eq(st, MK_ERR_MEMORY);
    }
  }
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("pp schedule");
  TCase *tc = test_case(s, "lists", 60);
  tcase_add_loop_test(tc, golden_timelines, 0, 4);
  tcase_add_test(tc, lists_are_printed);
  tcase_add_test(tc, bubbles_and_peaks);
  tcase_add_test(tc, v_peaks);
  tcase_add_test(tc, layers_are_split_once);
  tcase_add_test(tc, a_v_meets_on_rank_0);
  tcase_add_test(tc, every_shape_runs_or_is_refused);
  tcase_add_loop_test(tc, broken_lists_are_caught, 0, 3);
  tcase_add_test(tc, every_allocation_may_fail);
  return s;
}

int main(int argc, char **argv) {
  if (argc < 2 || strcmp(argv[1], "refused") != 0) return test_main(suite());
  tally count = each_shape(say_refused);
  printf("%d shapes run, %d are refused\n", count.ran, count.refused);
  return 0;
}
