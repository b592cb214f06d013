/* Columns of every result table, in the order in which they are written. Columns are only ever added, at the end of a
 * group; none is renamed. Schema names: moemark/<table>/1. */
#ifndef SUITE_RECORD_SCHEMA_H
#define SUITE_RECORD_SCHEMA_H

#include "suite/record/csv.h"

typedef enum ms_csv_kind {
  MS_CSV_LAUNCHES,  /* a row a planned launch: its state and where its logs are */
  MS_CSV_RUNS,      /* a row a launch; the study's factors follow `nodes` */
  MS_CSV_STEPS,     /* a row a step */
  MS_CSV_EVALS,     /* a row a held-out evaluation */
  MS_CSV_SUMMARY,   /* a row a case and metric */
  MS_CSV_CONTRASTS, /* a row a case against its base */
  MS_CSV_CLAIMS,    /* a row a claim */
  MS_CSV_FLOPS,     /* a row a case and FLOP convention */
  MS_CSV_ACCEPTED,  /* baselines/accepted; has no schema column */
  MS_CSV_KINDS,
} ms_csv_kind;

/* "moemark/runs/1" ...; NULL for tables without the column. */
const char *ms_schema_name(ms_csv_kind kind);

/* An empty table with the columns of `kind`; `factors` (names, may be NULL) are inserted where the kind has them. */
mk_status ms_schema_table(mk_context *ctx, ms_csv_kind kind, const char *const *factors, int n_factors, ms_csv **out);

/* Reads a table of `kind` from a file. MK_ERR_FORMAT where a column is missing without which its rows mean nothing, or
 * where a cell of a column of numbers is neither empty nor a number: such a value would count as not measured. */
mk_status ms_result_read(mk_context *ctx, ms_csv_kind kind, const char *path, ms_csv **out);

/* Adds a row whose `schema` column is set. */
mk_status ms_schema_row_add(mk_context *ctx, ms_csv_kind kind, ms_csv *table);

#endif
