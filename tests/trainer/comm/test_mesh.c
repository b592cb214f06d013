/* The mesh: groups of every kind partition the ranks, experts reduce among the ranks that hold them, illegal layouts
 * are refused with their reason; communicators of a one-rank mesh. */
#include <string.h>

#include "tests/support/check_main.h"
#include "trainer/comm/mesh.h"

static mt_mesh_plan plan_of(int world, int rank, int ep, int pp, int64_t experts) {
  mk_context ctx = {0};
  mt_mesh_config config = {.ep = ep, .pp = pp, .experts = experts};
  mt_mesh_plan plan = {0};
  mk_status st = mt_mesh_plan_make(&ctx, world, rank, &config, &plan);
  ck_assert_msg(st == MK_OK, "world %d rank %d ep %d pp %d: %s", world, rank, ep, pp, ctx.error.message);
  return plan;
}

static int own_place(const mt_mesh_plan *plan, mt_mesh_kind kind) {
  switch (kind) {
    case MT_MESH_DENSE:
      return plan->dp_rank;
    case MT_MESH_EXPERT:
      return plan->ep_dp_rank;
    case MT_MESH_EP:
      return plan->ep_rank;
    case MT_MESH_PP:
      return plan->pp_rank;
    default:
      return plan->rank;
  }
}

/* Every rank finds itself at its place, and all members of its group list the same group: the groups partition. */
static void check_partition(int world, int ep, int pp, int64_t experts, mt_mesh_kind kind) {
  int ranks[64], theirs[64];
  for (int rank = 0; rank < world; rank++) {
    mt_mesh_plan plan = plan_of(world, rank, ep, pp, experts);
    int n = mt_mesh_group(&plan, kind, ranks);
    ck_assert_msg(ranks[own_place(&plan, kind)] == rank, "world %d ep %d pp %d kind %d: rank %d is not in its group",
                  world, ep, pp, (int)kind, rank);
    for (int i = 0; i < n; i++) {
      mt_mesh_plan other = plan_of(world, ranks[i], ep, pp, experts);
      int m = mt_mesh_group(&other, kind, theirs);
      ck_assert_msg(m == n && memcmp(ranks, theirs, (size_t)n * sizeof ranks[0]) == 0,
                    "world %d ep %d pp %d kind %d: ranks %d and %d list different groups", world, ep, pp, (int)kind,
                    rank, ranks[i]);
      ck_assert_msg(i == 0 || ranks[i] > ranks[i - 1], "world %d ep %d pp %d kind %d: not ascending", world, ep, pp,
                    (int)kind);
    }
  }
}

static bool holds(const mt_mesh_plan *plan, int stage, int64_t expert, int64_t experts) {
  int64_t per_rank = experts / plan->ep;
  return plan->pp_rank == stage && expert >= plan->ep_rank * per_rank && expert < (plan->ep_rank + 1) * per_rank;
}

/* The reduction group of an expert is exactly the ranks of the stage that hold it (Megatron-LM#5916). */
static void check_expert_owners(int world, int ep, int pp, int64_t experts) {
  int ranks[64];
  for (int rank = 0; rank < world; rank++) {
    mt_mesh_plan plan = plan_of(world, rank, ep, pp, experts);
    int n = mt_mesh_group(&plan, MT_MESH_EXPERT, ranks);
    for (int64_t expert = 0; expert < experts; expert++) {
      if (!holds(&plan, plan.pp_rank, expert, experts)) continue;
      int at = 0;
      for (int other = 0; other < world; other++) {
        mt_mesh_plan theirs = plan_of(world, other, ep, pp, experts);
        if (!holds(&theirs, plan.pp_rank, expert, experts)) continue;
        ck_assert_msg(at < n && ranks[at] == other, "world %d ep %d pp %d expert %lld: rank %d holds it but is not in",
                      world, ep, pp, (long long)expert, other);
        at++;
      }
      ck_assert_int_eq(at, n);
    }
  }
}

START_TEST(groups_partition_the_ranks) {
  const int worlds[] = {1, 2, 8, 16};
  for (size_t w = 0; w < 4; w++) {
    for (int pp = 1; pp <= worlds[w]; pp *= 2) {
      for (int ep = 1; ep <= worlds[w] / pp; ep *= 2) {
        for (int kind = MT_MESH_WORLD; kind <= MT_MESH_PP; kind++)
          check_partition(worlds[w], ep, pp, 16, kind);
        check_expert_owners(worlds[w], ep, pp, 16);
      }
    }
  }
}
END_TEST

static void expect_group(const mt_mesh_plan *plan, mt_mesh_kind kind, int n, const int *want) {
  int ranks[64];
  ck_assert_int_eq(mt_mesh_group(plan, kind, ranks), n);
  for (int i = 0; i < n; i++)
    ck_assert_msg(ranks[i] == want[i], "kind %d place %d: rank %d", (int)kind, i, ranks[i]);
}

/* 16 ranks, pp 2, ep 4, seen from rank 13 = stage 1, dp_rank 5, ep_dp_rank 1, ep_rank 1; written out by hand. */
START_TEST(layout_is_as_written) {
  mt_mesh_plan plan = plan_of(16, 13, 4, 2, 8);
  ck_assert_int_eq(plan.dp, 8);
  ck_assert_int_eq(plan.dp_rank, 5);
  ck_assert_int_eq(plan.ep_dp, 2);
  ck_assert_int_eq(plan.ep_dp_rank, 1);
  ck_assert_int_eq(plan.ep_rank, 1);
  ck_assert_int_eq(plan.pp_rank, 1);
  expect_group(&plan, MT_MESH_DENSE, 8, (const int[]){8, 9, 10, 11, 12, 13, 14, 15});
  expect_group(&plan, MT_MESH_EP, 4, (const int[]){12, 13, 14, 15});
  expect_group(&plan, MT_MESH_EXPERT, 2, (const int[]){9, 13});
  expect_group(&plan, MT_MESH_PP, 2, (const int[]){5, 13});
}
END_TEST

/* The same rank with ep 2 and four ranks a copy of the parameters: copies are dp ranks 0..3 and 4..7. */
START_TEST(copies_are_neighbours) {
  mk_context ctx = {0};
  mt_mesh_config config = {.ep = 2, .pp = 2, .experts = 8, .shard = 4};
  mt_mesh_plan plan;
  ck_assert_int_eq(mt_mesh_plan_make(&ctx, 16, 13, &config, &plan), MK_OK);
  ck_assert_int_eq(plan.copies, 2);
  ck_assert_int_eq(plan.shard_rank[0], 1);
  ck_assert_int_eq(plan.shard_rank[1], 0);
  expect_group(&plan, MT_MESH_DENSE_SHARD, 4, (const int[]){12, 13, 14, 15});
  expect_group(&plan, MT_MESH_EXPERT_SHARD, 2, (const int[]){13, 15});
  expect_group(&plan, MT_MESH_COPIES, 2, (const int[]){9, 13});
}
END_TEST

static const struct refusal {
  int world, ep, pp;
  int64_t experts;
  const char *reason;
  int shard;
} refusals[] = {
    {8, 1, 3, 8, "pp 3 does not divide the 8 ranks", 0},
    {8, 8, 2, 8, "ep 8 does not divide the 4 data-parallel ranks", 0},
    {6, 4, 1, 8, "ep 4 does not divide the 6", 0},
    {8, 8, 1, 4, "only 4 experts", 0},
    {8, 4, 1, 6, "does not divide 6 experts", 0},
    {8, 2, 1, 0, "no experts", 0},
    {8, 0, 1, 8, "at least 1", 0},
    {8, 1, -1, 8, "at least 1", 0},
    {8, 1, 1, 8, "3 ranks that share a copy of the parameters do not divide the 8", 3},
    {8, 4, 1, 8, "2 ranks that share a copy of the parameters are no multiple of ep 4", 2},
};

START_TEST(illegal_layouts_are_refused) {
  const struct refusal *r = &refusals[_i];
  mk_context ctx = {0};
  mt_mesh_config config = {.ep = r->ep, .pp = r->pp, .experts = r->experts, .shard = r->shard};
  mt_mesh_plan plan;
  ck_assert_int_eq(mt_mesh_plan_make(&ctx, r->world, 0, &config, &plan), MK_ERR_CONFIG);
  ck_assert_msg(strstr(ctx.error.message, r->reason) != NULL, "said: %s", ctx.error.message);
}
END_TEST

START_TEST(one_rank_mesh) {
  mk_context ctx = {0};
  mt_comm *world = NULL;
  mt_mesh *mesh = NULL;
  mt_mesh_config config = {.ep = 1, .pp = 1, .experts = 0};
  ck_assert_int_eq(mt_comm_self_create(&ctx, &world), MK_OK);
  ck_assert_int_eq(mt_mesh_create(&ctx, world, &config, &mesh), MK_OK);
  ck_assert_str_eq(mesh->dense->purpose, "dense");
  ck_assert_str_eq(mesh->pp_back->purpose, "pp_back");
  ck_assert_int_eq(mesh->expert->size, 1);
  mt_mesh_destroy(mesh);
  mt_mesh_destroy(NULL);
  for (int n = 1; n <= 6; n++) {
    ctx.heap_fail_at = ctx.heap_calls + n;
    ck_assert_int_eq(mt_mesh_create(&ctx, world, &config, &mesh), MK_ERR_MEMORY);
    mk_error_clear(&ctx);
    ck_assert_int_eq(ctx.heap_live, 1);
  }
  mt_comm_destroy(world);
  ck_assert_int_eq(ctx.heap_live, 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("mesh");
  TCase *tc = tcase_create("mesh");
  tcase_add_test(tc, groups_partition_the_ranks);
  tcase_add_test(tc, layout_is_as_written);
  tcase_add_test(tc, copies_are_neighbours);
  tcase_add_loop_test(tc, illegal_layouts_are_refused, 0, (int)(sizeof refusals / sizeof refusals[0]));
  tcase_add_test(tc, one_rank_mesh);
  suite_add_tcase(suite, tc);
  return test_main(suite);
}
