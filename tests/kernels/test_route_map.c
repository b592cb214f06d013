/* Route count and route map: conformance, worked examples of drops by a rank's capacity (Olmo-core's) and by an
 * expert's, and properties of all ranks of a group together under random requests. */
#include "kernels/base/rng.h"
#include "tests/kernels/step_tensors.h"
#include "tests/support/check_main.h"
#include "tests/support/conformance.h"

enum { PLAIN, TOTAL_IS_COUNTS, STEP_COUNTS, ONE_EXPERT, EMPTY_FIRST_AND_LAST, EMPTY_IN_A_ROW, VARIANTS };

/* Expert ids of a variant; the last three leave experts empty (P-03, P-11). */
static mk_tensor make_idx(test_bench *b, int64_t tokens, int64_t experts, int64_t top_k, int variant) {
  int64_t low = 0, high = experts - 1;
  if (variant == ONE_EXPERT) low = high;
  if (variant == EMPTY_FIRST_AND_LAST && experts > 2) low = 1, high = experts - 2;
  if (variant == EMPTY_IN_A_ROW && experts > 3) high = experts - 4;
  return test_integers(b, "idx", TEST_IN, mk_tensor_2d(MK_I32, tokens, top_k), low, high);
}

/* dim: tokens, experts, top-k, groups */
static mk_status launch_count(test_bench *b, const conf_point *p) {
  int64_t tokens = p->dim[0], experts = p->dim[1], top_k = p->dim[2], groups = p->dim[3];
  mk_route_count_args a = {.idx = make_idx(b, tokens, experts, top_k, p->variant),
                           .counts = test_output(b, "counts", mk_tensor_2d(MK_I32, groups, experts)),
                           .position = test_output(b, "position", mk_tensor_2d(MK_I32, tokens, top_k)),
                           .total = test_output(b, "total", mk_tensor_1d(MK_I32, experts))};
  mk_tensor table = mk_tensor_1d(MK_I64, experts);
  if (p->variant == STEP_COUNTS)
    a.step_counts = test_integers(b, "step_counts", TEST_INOUT, table, 0, INT64_C(1) << 33);
  if (p->variant == TOTAL_IS_COUNTS && groups == 1) {
    a.total = table;
    a.total.dtype = MK_I32;
    a.total.data = a.counts.data;
  }
  mk_status st = mk_route_count(b->stream, &a);
  if (a.total.data == a.counts.data) test_ok(b, mk_fill(b->stream, &b->tensors[3].t, 0), "unused total");
  return st;
}

/* dim: tokens, experts, top-k, ranks; the variant chooses the rank. */
static mk_status launch_map(test_bench *b, const conf_point *p, int64_t capacity, int64_t expert_capacity) {
  int64_t tokens = p->dim[0], experts = p->dim[1], top_k = p->dim[2], ranks = p->dim[3];
  int64_t rank = p->variant % ranks, routes = tokens * top_k;
  mk_tensor table = mk_tensor_2d(MK_I32, tokens, top_k);
  mk_route_count_args count = {.idx = make_idx(b, tokens, experts, top_k, p->variant),
                               .counts = test_output(b, "counts", mk_tensor_2d(MK_I32, 1, experts)),
                               .position = test_output(b, "position", table),
                               .total = test_output(b, "total", mk_tensor_1d(MK_I32, experts))};
  mk_tensor requested = mk_tensor_2d(MK_I32, ranks, experts);
  mk_route_map_args a = {.requested = test_integers(b, "requested", TEST_INOUT, requested, 0, 2 * routes / experts + 1),
                         .idx = count.idx,
                         .position = count.position,
                         .dst_row = test_output(b, "dst_row", table),
                         .keep = test_output(b, "keep", requested),
                         .offsets = test_output(b, "offsets", mk_tensor_1d(MK_I32, experts / ranks + 1)),
                         .ranks = ranks,
                         .rank = rank,
                         .capacity = capacity,
                         .expert_capacity = expert_capacity};
  if (p->variant != TOTAL_IS_COUNTS) a.dst_rank = test_output(b, "dst_rank", table);
  if (p->variant != PLAIN) a.sums = step_sums(b);
  MK_TRY(&b->ctx, mk_route_count(b->stream, &count));
  mk_tensor mine = mk_tensor_rows(&a.requested, rank, 1);
  MK_TRY(&b->ctx, mk_copy_d2d(b->stream, &mine, &count.counts));
  return mk_route_map(b->stream, &a);
}

static mk_status launch_pool(test_bench *b, const conf_point *p) {
  int64_t routes = p->dim[0] * p->dim[2], ranks = p->dim[3];
  const int64_t capacities[VARIANTS] = {routes * ranks + 1, routes + 1, 1, routes / 2 + 1, routes + 1 - routes % 2, 7};
  return launch_map(b, p, capacities[p->variant], 0);
}

/* A bound for each expert; in every other variant a pool beside it, which may be the narrower one. */
static mk_status launch_experts(test_bench *b, const conf_point *p) {
  int64_t routes = p->dim[0] * p->dim[2], ranks = p->dim[3], mean = ranks * routes / p->dim[1];
  const int64_t bounds[VARIANTS] = {routes * ranks + 1, mean + 1, 1, routes / 2 + 1, mean / 2 + 1, 7};
  return launch_map(b, p, p->variant % 2 == 0 ? INT32_MAX : routes / 2 + 1, bounds[p->variant]);
}

static const conf_case cases[] = {
    {.name = "route_count",
     .launch = launch_count,
     .shapes = {{0, 8, 2, 1}, {1, 1, 1, 1}, {6, 4, 4, 3}, {67, 33, 3, 1}, {4000, 128, 8, 4}, {65537, 4, 2, 1}},
     .n_shapes = 6,
     .variants = VARIANTS,
     .dtypes = 1u << MK_F32},
    {.name = "route_map",
     .launch = launch_pool,
     .shapes = {{0, 8, 2, 1}, {1, 1, 1, 1}, {5, 4, 2, 2}, {67, 33, 3, 3}, {1500, 128, 4, 8}, {65537, 4, 1, 4}},
     .n_shapes = 6,
     .variants = VARIANTS,
     .dtypes = 1u << MK_F32},
    {.name = "route_map, expert capacity",
     .launch = launch_experts,
     .shapes = {{0, 8, 2, 2}, {1, 1, 1, 1}, {1, 4, 2, 2}, {5, 4, 2, 2}, {67, 33, 3, 3}, {1500, 128, 4, 8}},
     .n_shapes = 6,
     .variants = VARIANTS,
     .dtypes = 1u << MK_F32},
};

CONF_TEST(cases)

enum { MAX_RANKS = 8, MAX_EXPERTS = 64, MAX_ROUTES = 512 };

/* A group of ranks, each with its routes, and what every rank's route map says. */
typedef struct group {
  int64_t ranks, experts, capacity, expert_capacity;
  int64_t routes[MAX_RANKS];
  int32_t idx[MAX_RANKS][MAX_ROUTES];
  int32_t requested[MAX_RANKS * MAX_EXPERTS];
  int32_t keep[MAX_RANKS][MAX_RANKS * MAX_EXPERTS];
  int32_t dst_rank[MAX_RANKS][MAX_ROUTES], dst_row[MAX_RANKS][MAX_ROUTES];
  int32_t offsets[MAX_RANKS][MAX_EXPERTS + 1];
  double dropped[MAX_RANKS], routed[MAX_RANKS];
} group;

static mk_route_count_args count_rank(test_bench *b, const group *g, int64_t rank) {
  mk_tensor table = mk_tensor_2d(MK_I32, g->routes[rank], 1);
  mk_route_count_args a = {.idx = test_bytes(b, "idx", TEST_IN, table, g->idx[rank]),
                           .counts = test_output(b, "counts", mk_tensor_2d(MK_I32, 1, g->experts)),
                           .position = test_output(b, "position", table),
                           .total = test_output(b, "total", mk_tensor_1d(MK_I32, g->experts))};
  test_ok(b, mk_route_count(b->stream, &a), "route_count");
  return a;
}

static void map_group(group *g, int device) {
  mk_device_config config = case_device(device);
  for (int pass = 0; pass < 2; pass++) { /* counts of all ranks first, as the all-gather would bring them */
    for (int64_t rank = 0; rank < g->ranks; rank++) {
      test_bench b;
      test_bench_open(&b, &config, 1, false);
      mk_route_count_args count = count_rank(&b, g, rank);
      if (pass == 0) {
        test_read_bytes(&b, &count.total, g->requested + rank * g->experts);
        test_bench_close(&b);
        continue;
      }
      mk_tensor table = count.idx, matrix = mk_tensor_2d(MK_I32, g->ranks, g->experts);
      mk_route_map_args a = {.requested = test_bytes(&b, "requested", TEST_IN, matrix, g->requested),
                             .idx = count.idx,
                             .position = count.position,
                             .dst_rank = test_output(&b, "dst_rank", table),
                             .dst_row = test_output(&b, "dst_row", table),
                             .keep = test_output(&b, "keep", matrix),
                             .offsets = test_output(&b, "offsets", mk_tensor_1d(MK_I32, g->experts / g->ranks + 1)),
                             .sums = step_sums(&b),
                             .ranks = g->ranks,
                             .rank = rank,
                             .capacity = g->capacity,
                             .expert_capacity = g->expert_capacity};
      test_ok(&b, mk_route_map(b.stream, &a), "route_map");
      test_read_bytes(&b, &a.keep, g->keep[rank]);
      test_read_bytes(&b, &a.dst_rank, g->dst_rank[rank]);
      test_read_bytes(&b, &a.dst_row, g->dst_row[rank]);
      test_read_bytes(&b, &a.offsets, g->offsets[rank]);
      g->dropped[rank] = step_sum(&b, &a.sums, MK_SUM_DROPPED);
      g->routed[rank] = step_sum(&b, &a.sums, MK_SUM_ROUTED);
      test_bench_close(&b);
    }
  }
}

static void expect(const char *what, const int32_t *got, const int32_t *want, int n) {
  for (int i = 0; i < n; i++)
    ck_assert_msg(got[i] == want[i], "%s[%d]: expected %d, got %d", what, i, want[i], got[i]);
}

/* Two ranks of two experts, 5 rows each. Requests of source 0: 3 1 | 0 2, of source 1: 2 2 | 4 1. Worked out with
 * Olmo-core 3.0.0 (olmo_core/nn/moe/v2/ep_no_sync_common.py). */
START_TEST(olmo_core_capacity_example) {
  group g = {.ranks = 2, .experts = 4, .capacity = 5, .routes = {6, 9}};
  const int32_t source0[] = {3, 0, 1, 0, 3, 0}, source1[] = {2, 0, 1, 2, 3, 2, 1, 0, 2};
  memcpy(g.idx[0], source0, sizeof source0);
  memcpy(g.idx[1], source1, sizeof source1);
  map_group(&g, _i);
  expect("requested", g.requested, (int32_t[]){3, 1, 0, 2, 2, 2, 4, 1}, 8);
  for (int rank = 0; rank < 2; rank++)
    expect("keep", g.keep[rank], (int32_t[]){3, 0, 0, 1, 2, 0, 4, 0}, 8);
  expect("rank of source 0", g.dst_rank[0], (int32_t[]){1, 0, -1, 0, -1, 0}, 6);
  expect("row of source 0", g.dst_row[0], (int32_t[]){4, 0, -1, 1, -1, 2}, 6);
  expect("rank of source 1", g.dst_rank[1], (int32_t[]){1, 0, -1, 1, -1, 1, -1, 0, 1}, 9);
  expect("row of source 1", g.dst_row[1], (int32_t[]){0, 3, -1, 1, -1, 2, -1, 4, 3}, 9);
  expect("offsets of rank 0", g.offsets[0], (int32_t[]){0, 5, 5}, 3);
  expect("offsets of rank 1", g.offsets[1], (int32_t[]){0, 4, 5}, 3);
  ck_assert_double_eq(g.dropped[0] + g.dropped[1], 5);
  ck_assert_double_eq(g.routed[0] + g.routed[1], 15);
}
END_TEST

/* Two ranks of two experts, 3 rows an expert. Requests of source 0: 1 3 | 0 1, of source 1: 1 2 | 4 0. An expert that
 * has room keeps all, so that the next one starts right behind it. */
START_TEST(expert_capacity_example) {
  group g = {.ranks = 2, .experts = 4, .capacity = 6, .expert_capacity = 3, .routes = {5, 7}};
  const int32_t source0[] = {1, 0, 1, 1, 3}, source1[] = {1, 2, 0, 1, 2, 2, 2};
  memcpy(g.idx[0], source0, sizeof source0);
  memcpy(g.idx[1], source1, sizeof source1);
  map_group(&g, _i);
  expect("requested", g.requested, (int32_t[]){1, 3, 0, 1, 1, 2, 4, 0}, 8);
  for (int rank = 0; rank < 2; rank++)
    expect("keep", g.keep[rank], (int32_t[]){1, 3, 0, 1, 1, 0, 3, 0}, 8);
  expect("rank of source 0", g.dst_rank[0], (int32_t[]){0, 0, 0, 0, 1}, 5);
  expect("row of source 0", g.dst_row[0], (int32_t[]){2, 0, 3, 4, 3}, 5);
  expect("rank of source 1", g.dst_rank[1], (int32_t[]){-1, 1, 0, -1, 1, 1, -1}, 7);
  expect("row of source 1", g.dst_row[1], (int32_t[]){-1, 0, 1, -1, 1, 2, -1}, 7);
  expect("offsets of rank 0", g.offsets[0], (int32_t[]){0, 2, 5}, 3);
  expect("offsets of rank 1", g.offsets[1], (int32_t[]){0, 3, 4}, 3);
  ck_assert_double_eq(g.dropped[0], 0);
  ck_assert_double_eq(g.dropped[1], 3);
  g.capacity = 4; /* a pool beside it: expert 1 loses a row that it would accept */
  map_group(&g, _i);
  expect("keep under both", g.keep[0], (int32_t[]){1, 2, 0, 1, 1, 0, 3, 0}, 8);
  expect("row of source 0 under both", g.dst_row[0], (int32_t[]){2, 0, 3, -1, 3}, 5);
  expect("offsets of rank 0 under both", g.offsets[0], (int32_t[]){0, 2, 4}, 3);
}
END_TEST

/* P-07: 5 tokens, all to expert 0 of 4, k = 1, capacity factor 1: the expert accepts ceil(5 * 1 / 4) = 2. */
START_TEST(p07_five_tokens_of_one_expert) {
  group g = {.ranks = 1, .experts = 4, .capacity = 8, .expert_capacity = 2, .routes = {5}};
  map_group(&g, _i);
  expect("keep", g.keep[0], (int32_t[]){2, 0, 0, 0}, 4);
  expect("rank", g.dst_rank[0], (int32_t[]){0, 0, -1, -1, -1}, 5);
  expect("row", g.dst_row[0], (int32_t[]){0, 1, -1, -1, -1}, 5);
  expect("offsets", g.offsets[0], (int32_t[]){0, 2, 2, 2, 2}, 5);
  ck_assert_double_eq(g.dropped[0], 3);
  ck_assert_double_eq(g.dropped[0] / g.routed[0], 0.6);
}
END_TEST

/* Rows of an expert that are kept and asked for. */
static int64_t kept_of(const group *g, int64_t expert, int64_t *asked) {
  int64_t kept = 0;
  *asked = 0;
  for (int64_t at = expert; at < g->ranks * g->experts; at += g->experts) {
    ck_assert_msg(g->keep[0][at] >= 0 && g->keep[0][at] <= g->requested[at], "keep %d of %d requested", g->keep[0][at],
                  g->requested[at]);
    kept += g->keep[0][at];
    *asked += g->requested[at];
  }
  return kept;
}

/* Rows that `rank` keeps: what its experts accept, as far as the pool has room. */
static int64_t kept_at(const group *g, int64_t rank, int64_t *asked) {
  int64_t locals = g->experts / g->ranks, kept = 0;
  *asked = 0;
  for (int64_t expert = rank * locals; expert < (rank + 1) * locals; expert++) {
    int64_t asked_here, room = g->capacity - kept, kept_here = kept_of(g, expert, &asked_here), want = asked_here;
    if (g->expert_capacity > 0 && want > g->expert_capacity) want = g->expert_capacity;
    if (want > room) want = room;
    ck_assert_msg(kept_here == want, "expert %lld keeps %lld of %lld, expected %lld", (long long)expert,
                  (long long)kept_here, (long long)asked_here, (long long)want);
    kept += kept_here;
    *asked += asked_here;
  }
  return kept;
}

/* Rows [0, kept) of `rank` are each named once, ordered by local expert, then source, then route. */
static void check_rows(const group *g, int64_t rank, int64_t kept) {
  int32_t next = 0;
  int64_t locals = g->experts / g->ranks;
  for (int64_t expert = rank * locals; expert < (rank + 1) * locals; expert++) {
    ck_assert_int_eq(g->offsets[rank][expert - rank * locals], next);
    for (int64_t source = 0; source < g->ranks; source++) {
      bool lost = false;
      for (int64_t r = 0; r < g->routes[source]; r++) {
        if (g->idx[source][r] != expert) continue;
        ck_assert_msg(!lost || g->dst_row[source][r] < 0, "a later route was kept in front of an earlier one");
        lost = g->dst_row[source][r] < 0;
        ck_assert_int_eq(g->dst_rank[source][r], lost ? -1 : (int32_t)rank);
        if (!lost) ck_assert_int_eq(g->dst_row[source][r], next++);
      }
    }
  }
  ck_assert_int_eq(next, kept);
  ck_assert_int_eq(g->offsets[rank][locals], kept);
}

static void check_group(const group *g) {
  double dropped = 0, lost = 0;
  for (int64_t rank = 0; rank < g->ranks; rank++) {
    int64_t asked, kept = kept_at(g, rank, &asked);
    if (g->expert_capacity == 0) ck_assert_int_eq(kept, asked < g->capacity ? asked : g->capacity);
    ck_assert_msg(memcmp(g->keep[rank], g->keep[0], sizeof(int32_t) * (size_t)(g->ranks * g->experts)) == 0,
                  "rank %lld has another keep matrix than rank 0", (long long)rank);
    check_rows(g, rank, kept);
    lost += (double)(asked - kept);
    dropped += g->dropped[rank];
    ck_assert_double_eq(g->routed[rank], (double)g->routes[rank]);
  }
  ck_assert_double_eq(dropped, lost);
}

START_TEST(properties_under_random_requests) {
  const int64_t shapes[][2] = {{1, 4}, {2, 2}, {2, 8}, {3, 12}, {4, 64}, {8, 16}};
  group g;
  for (int round = 0; round < 36; round++) {
    mk_rng_block draw = mk_rng_draw(4242, MK_RNG_TEST, (uint32_t)_i, (uint64_t)round);
    g = (group){.ranks = shapes[round % 6][0], .experts = shapes[round % 6][1]};
    g.capacity = 1 + (int64_t)(draw.word[0] % 300);
    if (round / 6 % 3 > 0) g.expert_capacity = 1 + (int64_t)(draw.word[2] % 100);
    if (round / 6 % 3 == 1) g.capacity = g.experts / g.ranks * g.expert_capacity; /* the pool never cuts */
    int64_t hot = 1 + (int64_t)(draw.word[1] % (uint32_t)g.experts); /* only the first `hot` experts are asked for */
    for (int64_t rank = 0; rank < g.ranks; rank++) {
      mk_rng_block size = mk_rng_draw(4243, MK_RNG_TEST, (uint32_t)round, (uint64_t)rank);
      g.routes[rank] = round % 5 == 4 && rank == 0 ? 0 : (int64_t)(size.word[0] % 200);
      for (int64_t r = 0; r < g.routes[rank]; r++) {
        mk_rng_block id = mk_rng_draw(4244 + (uint64_t)round, MK_RNG_TEST, (uint32_t)rank, (uint64_t)r);
        g.idx[rank][r] = (int32_t)(id.word[0] % (uint32_t)hot);
      }
    }
    map_group(&g, 0);
    check_group(&g);
  }
}
END_TEST

/* P-14: an id of the expert after the last is refused, not counted. */
START_TEST(p14_ids_beyond_the_experts_are_refused) {
  test_bench b;
  mk_device_config config = case_device(_i);
  test_bench_open(&b, &config, 1, false);
  const int32_t idx[] = {0, 1, 2, 1};
  mk_tensor table = mk_tensor_2d(MK_I32, 4, 1);
  mk_route_count_args a = {.idx = test_bytes(&b, "idx", TEST_IN, table, idx),
                           .counts = test_output(&b, "counts", mk_tensor_2d(MK_I32, 1, 2)),
                           .position = test_output(&b, "position", table),
                           .total = test_output(&b, "total", mk_tensor_1d(MK_I32, 2))};
  ck_assert_int_eq(mk_route_count(b.stream, &a), MK_ERR_ARG);
  ck_assert_str_eq(b.ctx.error.message, "route_count: entry 2 of idx is 2, expected in [0, 2)");
  mk_error_clear(&b.ctx);
  mk_route_map_args m = {.requested = a.counts,
                         .idx = a.idx,
                         .position = a.position,
                         .dst_row = a.position,
                         .keep = a.counts,
                         .offsets = a.total,
                         .ranks = 1,
                         .rank = 0,
                         .capacity = 0};
  ck_assert_int_eq(mk_route_map(b.stream, &m), MK_ERR_ARG);
  ck_assert_str_eq(b.ctx.error.message, "route_map: capacity of 0 rows, expected 1 to 2^31 - 1");
  mk_error_clear(&b.ctx);
  m.capacity = 1, m.expert_capacity = -1;
  ck_assert_int_eq(mk_route_map(b.stream, &m), MK_ERR_ARG);
  ck_assert_str_eq(b.ctx.error.message, "route_map: expert_capacity of -1 rows, expected 0 (none) to 2^31 - 1");
  mk_error_clear(&b.ctx);
  test_bench_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("route_map");
  TCase *tcase = test_case(suite, "route_map", 240);
  CONF_ADD(tcase, cases);
  tcase_add_loop_test(tcase, olmo_core_capacity_example, 0, CASE_DEVICES);
  tcase_add_loop_test(tcase, expert_capacity_example, 0, CASE_DEVICES);
  tcase_add_loop_test(tcase, p07_five_tokens_of_one_expert, 0, CASE_DEVICES);
  tcase_add_test(tcase, properties_under_random_requests);
  tcase_add_loop_test(tcase, p14_ids_beyond_the_experts_are_refused, 0, CASE_DEVICES);
  return test_main(suite);
}
