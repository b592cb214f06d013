/* Maps from routes to rows for the tests of permute and combine: injective, spread over the buffer, some dropped. */
#ifndef TESTS_KERNELS_ROUTE_ROWS_H
#define TESTS_KERNELS_ROUTE_ROWS_H

#include "kernels/base/heap.h"
#include "tests/support/bench.h"

typedef enum drop_rule { DROP_NONE, DROP_SOME, DROP_ALL } drop_rule;

/* Rows of a buffer for tokens*top_k routes: a few more than needed, so that some stay unnamed. */
static inline int64_t spread_rows(int64_t tokens, int64_t top_k) { return tokens * top_k + 3; }

/* Route r goes to row 7 r + 2 mod rows; for rows divisible by 7, whose multiples would collide, to row r + 2 mod rows.
 */
static inline mk_tensor spread_map(test_bench *b, int64_t tokens, int64_t top_k, drop_rule drop) {
  int64_t rows = spread_rows(tokens, top_k), stride = rows % 7 == 0 ? 1 : 7;
  int32_t *ids = NULL;
  test_ok(b, mk_heap_array(&b->ctx, (size_t)(tokens * top_k), sizeof *ids, &ids), "staging");
  for (int64_t r = 0; r < tokens * top_k; r++) {
    bool dropped = drop == DROP_ALL || (drop == DROP_SOME && (r % 5 == 1 || r % 11 == 0));
    ids[r] = dropped ? -1 : (int32_t)((r * stride + 2) % rows);
  }
  mk_tensor map = test_bytes(b, "map", TEST_IN, mk_tensor_2d(MK_I32, tokens, top_k), ids);
  mk_heap_free(&b->ctx, ids);
  return map;
}

/* What the ops that sum over routes add: nothing, a tensor, or the one that they overwrite. */
typedef enum add_rule { ADD_NONE, ADD, ADD_IN_PLACE, ADDS } add_rule;

/* The sums' output; `added` becomes what the op adds. */
static inline mk_tensor sum_output(test_bench *b, const char *name, add_rule rule, mk_tensor add, mk_tensor *added) {
  if (rule != ADD_NONE) *added = add;
  return test_output_from(b, name, rule == ADD_IN_PLACE, &add);
}

#endif
