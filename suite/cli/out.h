/* What goes to standard output: one table as aligned text, CSV (RFC 4180 with LF) or a JSON array of objects, and plain
 * lines. Nothing else in the suite writes there. */
#ifndef SUITE_CLI_OUT_H
#define SUITE_CLI_OUT_H

#include "kernels/base/status.h"

typedef enum ms_format { MS_FORMAT_TABLE, MS_FORMAT_CSV, MS_FORMAT_JSON } ms_format;

typedef struct ms_table ms_table;

/* False for an unknown word. */
bool ms_format_parse(const char *text, ms_format *out);

/* A table with these column names. */
mk_status ms_table_create(mk_context *ctx, int n_columns, const char *const *columns, ms_table **out);
void ms_table_destroy(mk_context *ctx, ms_table *table);

/* Adds the next cell, row by row. An empty cell is a missing value; control characters become '?'. */
mk_status ms_table_cell(mk_context *ctx, ms_table *table, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* A number by a format for one double; NaN is an empty cell. */
mk_status ms_table_number(mk_context *ctx, ms_table *table, const char *fmt, double value);

/* Leaves a column (of the first 64) out of aligned text; CSV and JSON keep it. */
void ms_table_hide(ms_table *table, const char *column);

/* Writes the table to standard output. MK_ERR_OUTPUT when it cannot be written (closed pipe, full disk). */
mk_status ms_table_write(mk_context *ctx, const ms_table *table, ms_format format);

/* One line of text to standard output, after an empty one where it begins with a line break. */
mk_status ms_out_line(mk_context *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* One line as it is to standard error: diagnostics, which start with their file. */
void ms_err_line(const char *line);

/* A text of any length and a line end to standard output. */
mk_status ms_out_text(mk_context *ctx, const char *text);

#endif
