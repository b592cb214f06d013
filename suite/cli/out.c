/* Tables are collected and written at the end, so that columns can be aligned and a failing verb prints nothing by
 * halves. */
#include "suite/cli/out.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "kernels/base/text.h"
#include "suite/record/csv.h"

struct ms_table {
  ms_csv *csv;
  int next;        /* column of the next cell */
  uint64_t hidden; /* bit i: column i is left out of aligned text */
};

bool ms_format_parse(const char *text, ms_format *out) {
  static const char *const WORDS[] = {"table", "csv", "json"};
  for (int i = 0; i < 3; i++) {
    if (strcmp(WORDS[i], text) != 0) continue;
    *out = (ms_format)i;
    return true;
  }
  return false;
}

mk_status ms_table_create(mk_context *ctx, int n_columns, const char *const *columns, ms_table **out) {
  ms_table *table = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *table, &table));
  mk_status st = ms_csv_create(ctx, columns, n_columns, &table->csv);
  if (st == MK_OK) {
    *out = table;
  } else {
    ms_table_destroy(ctx, table);
  }
  return st;
}

void ms_table_destroy(mk_context *ctx, ms_table *table) {
  if (table == NULL) return;
  ms_csv_destroy(ctx, table->csv);
  mk_heap_free(ctx, table);
}

mk_status ms_table_cell(mk_context *ctx, ms_table *table, const char *fmt, ...) {
  char text[MK_MESSAGE_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  mk_text_printable(text); /* from a file, perhaps: it must not steer the terminal */
  if (table->next == 0) MK_TRY(ctx, ms_csv_row_add(ctx, table->csv));
  MK_TRY(ctx, ms_csv_set(ctx, table->csv, table->csv->column[table->next], text));
  table->next = (table->next + 1) % table->csv->n_columns;
  return MK_OK;
}

mk_status ms_table_number(mk_context *ctx, ms_table *table, const char *fmt, double value) {
  char text[64] = "";
  if (value == value) snprintf(text, sizeof text, fmt, value); /* NaN: an empty cell */
  return ms_table_cell(ctx, table, "%s", text);
}

void ms_table_hide(ms_table *table, const char *column) {
  int at = ms_csv_column(table->csv, column);
  if (at >= 0 && at < 64) table->hidden |= UINT64_C(1) << at;
}

static bool is_hidden(const ms_table *table, int column) { return column < 64 && (table->hidden >> column & 1) != 0; }

/* ---- writing ---- */

static mk_status put(mk_context *ctx, const char *text, size_t bytes) {
  bool written = fwrite(text, 1, bytes, stdout) == bytes && fflush(stdout) == 0;
  MK_CHECK(ctx, written, MK_ERR_OUTPUT, "standard output: cannot write: %s", strerror(errno));
  return MK_OK;
}

mk_status ms_out_text(mk_context *ctx, const char *text) {
  MK_TRY(ctx, put(ctx, text, strlen(text)));
  return put(ctx, "\n", 1);
}

mk_status ms_out_line(mk_context *ctx, const char *fmt, ...) {
  char line[4 * MK_MESSAGE_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  mk_text_printable(line[0] == '\n' ? line + 1 : line);
  return ms_out_text(ctx, line);
}

void ms_err_line(const char *line) {
  fwrite(line, 1, strlen(line), stderr);
  fwrite("\n", 1, 1, stderr);
}

/* Characters of UTF-8 text. */
static int width_of(const char *text) {
  int width = 0;
  for (; *text != '\0'; text++)
    width += ((unsigned char)*text & 0xC0) != 0x80;
  return width;
}

static bool is_number(const char *text) {
  double value = 0;
  return mk_text_number(text, false, &value);
}

/* A column of numbers stands right. */
static bool is_right(const ms_csv *csv, int column) {
  for (int64_t row = 0; row < csv->n_rows; row++) {
    const char *text = ms_csv_get(csv, row, csv->column[column]);
    if (text[0] != '\0' && !is_number(text)) return false;
  }
  return csv->n_rows > 0;
}

static mk_status put_padded(mk_context *ctx, const char *text, int width, bool right, bool last) {
  int fill = width - width_of(text);
  char *cell = NULL;
  if (right) {
    MK_TRY(ctx, mk_heap_printf(ctx, &cell, "%*s%s%s", fill, "", text, last ? "\n" : "  "));
  } else {
    MK_TRY(ctx, mk_heap_printf(ctx, &cell, "%s%*s%s", text, last ? 0 : fill, "", last ? "\n" : "  "));
  }
  mk_status st = put(ctx, cell, strlen(cell));
  mk_heap_free(ctx, cell);
  return st;
}

static mk_status write_text(mk_context *ctx, const ms_table *table, const int *width, const bool *right) {
  const ms_csv *csv = table->csv;
  int last = csv->n_columns - 1;
  while (last > 0 && is_hidden(table, last))
    last--;
  for (int64_t row = -1; row < csv->n_rows; row++) {
    for (int i = 0; i <= last; i++) {
      const char *text = row < 0 ? csv->column[i] : ms_csv_get(csv, row, csv->column[i]);
      if (!is_hidden(table, i)) MK_TRY(ctx, put_padded(ctx, text, width[i], right[i], i == last));
    }
  }
  return MK_OK;
}

static mk_status write_table(mk_context *ctx, const ms_table *table) {
  const ms_csv *csv = table->csv;
  mk_status st = MK_OK;
  int *width = NULL;
  bool *right = NULL;
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)csv->n_columns, sizeof *width, &width), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)csv->n_columns, sizeof *right, &right), out);
  for (int i = 0; i < csv->n_columns; i++) {
    right[i] = is_right(csv, i);
    width[i] = width_of(csv->column[i]);
    for (int64_t row = 0; row < csv->n_rows; row++) {
      int w = width_of(ms_csv_get(csv, row, csv->column[i]));
      if (w > width[i]) width[i] = w;
    }
  }
  MK_TRY_GOTO(ctx, write_text(ctx, table, width, right), out);
out:
  mk_heap_free(ctx, width);
  mk_heap_free(ctx, right);
  return st;
}

static mk_status write_csv(mk_context *ctx, const ms_csv *csv) {
  char *text = NULL;
  size_t bytes = 0;
  MK_TRY(ctx, ms_csv_print(ctx, csv, &text, &bytes));
  mk_status st = put(ctx, text, bytes);
  mk_heap_free(ctx, text);
  return st;
}

/* Numbers stay numbers with the digits of the cell; an empty cell is null. */
static bool add_cell(cJSON *row, const char *name, const char *text) {
  if (text[0] == '\0') return cJSON_AddNullToObject(row, name) != NULL;
  bool json_number =
      is_number(text) && text[0] != '+' && text[0] != '.' && !(text[0] == '0' && text[1] != '.' && text[1] != '\0');
  return (json_number ? cJSON_AddRawToObject(row, name, text) : cJSON_AddStringToObject(row, name, text)) != NULL;
}

static mk_status write_json(mk_context *ctx, const ms_csv *csv) {
  mk_status st = MK_OK;
  char *text = NULL;
  cJSON *rows = cJSON_CreateArray();
  bool built = rows != NULL;
  for (int64_t i = 0; i < csv->n_rows && built; i++) {
    cJSON *row = cJSON_CreateObject();
    built = row != NULL && cJSON_AddItemToArray(rows, row);
    for (int j = 0; j < csv->n_columns && built; j++) {
      built = add_cell(row, csv->column[j], ms_csv_get(csv, i, csv->column[j]));
    }
  }
  if (built) text = cJSON_Print(rows);
  MK_CHECK_GOTO(ctx, text != NULL, MK_ERR_MEMORY, out, "out of host memory while writing JSON");
  MK_TRY_GOTO(ctx, ms_out_text(ctx, text), out);
out:
  cJSON_free(text);
  cJSON_Delete(rows);
  return st;
}

mk_status ms_table_write(mk_context *ctx, const ms_table *table, ms_format format) {
  switch (format) {
    case MS_FORMAT_CSV:
      return write_csv(ctx, table->csv);
    case MS_FORMAT_JSON:
      return write_json(ctx, table->csv);
    default:
      return write_table(ctx, table);
  }
}
