/* How many rows each table of a run folder has, kept in a JSON file beside the tables, because a CSV file that lost
 * whole lines still reads well. Under the key "rows": {"runs.csv": 12, ...}. */
#ifndef SUITE_RECORD_ROW_COUNTS_H
#define SUITE_RECORD_ROW_COUNTS_H

#include "suite/record/csv.h"

struct cJSON;

/* Adds the count of the table `name` to the root of a file. */
void ms_row_counts_add(struct cJSON *root, const char *name, int64_t rows);

/* Compares a table read from <folder>/<name> with the count in `root`, which was read from <folder>/<json>.
 * MK_ERR_FORMAT names both and both counts. A file without a count for the table says nothing: older ones have none. */
mk_status ms_row_counts_check(mk_context *ctx, const struct cJSON *root, const char *folder, const char *json,
                              const char *name, const ms_csv *table);

#endif
