/* The rows of the equivalence table: the product of the axes below, without those that mt_config_check refuses. */
#ifndef TESTS_TRAINER_PARALLEL_TABLE_H
#define TESTS_TRAINER_PARALLEL_TABLE_H

#include "tests/trainer/parallel/row.h"

/* One refusal and how many combinations end in it; `example` is the first. */
typedef struct table_refusal {
  char reason[MK_MESSAGE_BYTES];
  char example[ROW_TEXT_BYTES];
  int64_t count;
} table_refusal;

typedef struct table {
  row *rows; /* rows that share a plain twin lie side by side */
  int n_rows;
  int64_t n_legal; /* legal combinations */
  table_refusal *refusals;
  int n_refusals;
} table;

/* Every legal strategy of `ranks` ranks (sharding, EP, transport, PP, schedule, recompute) in FP32, in FP32 on
 * cpu_async with guard, and in one of the lower precisions, which take turns with the devices; or, with pairs_only, few
 * of all combinations in which every legal pair of two settings of different axes occurs (greedy: the next row is the
 * one with most new pairs; ties go to the earlier one). */
table table_make(mk_context *ctx, int ranks, bool pairs_only);
void table_free(table *t);

#endif
