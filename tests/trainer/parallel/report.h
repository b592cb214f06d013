/* The table on paper: a CSV line and a printed line a row, refusals and totals. Rank 0 writes. */
#ifndef TESTS_TRAINER_PARALLEL_REPORT_H
#define TESTS_TRAINER_PARALLEL_REPORT_H

#include <stdio.h>

#include "tests/trainer/parallel/compare.h"
#include "tests/trainer/parallel/table.h"

typedef struct report {
  mt_comm *world; /* borrowed */
  mk_device *dev; /* for gathering results */
  mk_stream *stream;
  FILE *csv; /* NULL: none */
  int64_t rows, failed;
} report;

/* path: a new CSV file, or NULL. Collective; ends the process when the file cannot be made. */
report report_begin(mk_context *ctx, mt_comm *world, const char *path);

/* Adds one row: the worst of all ranks (collective). */
void report_row(mk_context *ctx, report *rep, const row *r, const result *own);

/* Refused combinations: a line a reason. */
void report_refusals(report *rep, const table *t);

/* Prints the totals and returns the number of failed rows. Collective. */
int64_t report_end(report *rep);

#endif
