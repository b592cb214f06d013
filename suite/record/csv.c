/* Cells are heap texts; the row store doubles. Look-ups go by column name: tables have tens of columns and the suite
 * writes a row a launch, so a linear search costs nothing. */
#include "suite/record/csv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/heap.h"

mk_status ms_csv_create(mk_context *ctx, const char *const *columns, int n_columns, ms_csv **out) {
  mk_status st = MK_OK;
  ms_csv *table = NULL;
  MK_CHECK(ctx, n_columns > 0, MK_ERR_ARG, "a table needs at least one column");
  MK_TRY_GOTO(ctx, mk_heap_alloc(ctx, sizeof *table, &table), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)n_columns, sizeof *table->column, &table->column), out);
  table->n_columns = n_columns;
  for (int i = 0; i < n_columns; i++)
    MK_TRY_GOTO(ctx, mk_heap_strdup(ctx, columns[i], &table->column[i]), out);
  *out = table;
  table = NULL;
out:
  ms_csv_destroy(ctx, table);
  return st;
}

void ms_csv_destroy(mk_context *ctx, ms_csv *table) {
  if (table == NULL) return;
  for (int64_t i = 0; i < table->n_rows * table->n_columns; i++)
    mk_heap_free(ctx, table->cell[i]);
  for (int i = 0; i < table->n_columns && table->column != NULL; i++)
    mk_heap_free(ctx, table->column[i]);
  mk_heap_free(ctx, table->cell);
  mk_heap_free(ctx, table->column);
  mk_heap_free(ctx, table);
}

mk_status ms_csv_row_add(mk_context *ctx, ms_csv *table) {
  size_t row_bytes = (size_t)table->n_columns * sizeof *table->cell;
  if (table->n_rows == table->capacity) {
    int64_t capacity = table->capacity == 0 ? 16 : 2 * table->capacity;
    MK_TRY(ctx, mk_heap_resize(ctx, &table->cell, (size_t)capacity * row_bytes));
    table->capacity = capacity;
  }
  memset(table->cell + table->n_rows * table->n_columns, 0, row_bytes);
  table->n_rows += 1;
  return MK_OK;
}

int ms_csv_column(const ms_csv *table, const char *column) {
  for (int i = 0; i < table->n_columns; i++) {
    if (strcmp(table->column[i], column) == 0) return i;
  }
  return -1;
}

mk_status ms_csv_set(mk_context *ctx, ms_csv *table, const char *column, const char *text) {
  int index = ms_csv_column(table, column);
  MK_CHECK(ctx, index >= 0 && table->n_rows > 0, MK_ERR_ARG, "no column '%s' in this table, or no row yet", column);
  char *copy = NULL;
  if (text[0] != '\0') MK_TRY(ctx, mk_heap_strdup(ctx, text, &copy));
  char **cell = &table->cell[(table->n_rows - 1) * table->n_columns + index];
  mk_heap_free(ctx, *cell);
  *cell = copy;
  return MK_OK;
}

void ms_number_print(double value, char *text, size_t bytes) {
  text[0] = '\0';
  if (isnan(value)) return;
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(text, bytes, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  if (fabs(value) < 1e15 && value == floor(value)) snprintf(text, bytes, "%.0f", value); /* 52000, not 5.2e+04 */
}

mk_status ms_csv_set_number(mk_context *ctx, ms_csv *table, const char *column, double value) {
  char text[64];
  ms_number_print(value, text, sizeof text);
  return ms_csv_set(ctx, table, column, text);
}

mk_status ms_csv_set_integer(mk_context *ctx, ms_csv *table, const char *column, int64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%lld", (long long)value);
  return ms_csv_set(ctx, table, column, text);
}

const char *ms_csv_get(const ms_csv *table, int64_t row, const char *column) {
  int index = ms_csv_column(table, column);
  if (index < 0 || row < 0 || row >= table->n_rows) return "";
  const char *cell = table->cell[row * table->n_columns + index];
  return cell == NULL ? "" : cell;
}

double ms_csv_number(const ms_csv *table, int64_t row, const char *column) {
  const char *text = ms_csv_get(table, row, column);
  char *end = NULL;
  double value = strtod(text, &end);
  return end == text || *end != '\0' ? NAN : value;
}
