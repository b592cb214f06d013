/* A CSV table in memory: named columns, rows of text. Numbers are written with the fewest digits that read back as the
 * same value; NaN is an empty cell. Files: RFC 4180 with LF line ends, header always, dot decimals, UTF-8. */
#ifndef SUITE_RECORD_CSV_H
#define SUITE_RECORD_CSV_H

#include <stdint.h>

#include "kernels/base/status.h"

typedef struct ms_csv {
  int n_columns;
  int64_t n_rows, capacity;
  char **column; /* names */
  char **cell;   /* row-major; NULL = empty */
} ms_csv;

mk_status ms_csv_create(mk_context *ctx, const char *const *columns, int n_columns, ms_csv **out);
void ms_csv_destroy(mk_context *ctx, ms_csv *table);

/* Adds an empty row; its index is n_rows - 1. */
mk_status ms_csv_row_add(mk_context *ctx, ms_csv *table);

/* Sets a cell of the last row. An unknown column is MK_ERR_ARG: a table never loses a value quietly. */
mk_status ms_csv_set(mk_context *ctx, ms_csv *table, const char *column, const char *text);
mk_status ms_csv_set_number(mk_context *ctx, ms_csv *table, const char *column, double value);
mk_status ms_csv_set_integer(mk_context *ctx, ms_csv *table, const char *column, int64_t value);

/* Index of a column, or -1. */
int ms_csv_column(const ms_csv *table, const char *column);

/* Text of a cell; "" where the column is missing or the cell empty. Never NULL. */
const char *ms_csv_get(const ms_csv *table, int64_t row, const char *column);

/* A cell as a number; NaN where it is missing, empty or no number. */
double ms_csv_number(const ms_csv *table, int64_t row, const char *column);

/* Reads a whole file. A row with another number of fields than the header, a doubled or empty column name and a broken
 * quote are MK_ERR_FORMAT with path:line; so is a last line without its end, which may have lost digits. Unknown
 * columns are kept: readers ask by name. */
mk_status ms_csv_read(mk_context *ctx, const char *path, ms_csv **out);

/* Replaces `path` atomically. */
mk_status ms_csv_write(mk_context *ctx, const char *path, const ms_csv *table);

/* The table as CSV text in a fresh heap block. */
mk_status ms_csv_print(mk_context *ctx, const ms_csv *table, char **out, size_t *bytes);

/* Fewest of 1 to 17 significant digits that read back as `value`; "" for NaN. */
void ms_number_print(double value, char *text, size_t bytes);

#endif
