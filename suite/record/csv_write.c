/* CSV out. A field is quoted (by libcsv) only where RFC 4180 asks for it. Two passes: count, then fill. */
#include <csv.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "suite/record/csv.h"

/* Bytes of a field as written; `dest` may be NULL to count only. */
static size_t field_put(char *dest, size_t room, const char *text) {
  size_t bytes = strlen(text);
  if (strpbrk(text, "\",\r\n") != NULL) return csv_write2(dest, room, text, bytes, CSV_QUOTE);
  if (dest != NULL) memcpy(dest, text, bytes);
  return bytes;
}

static size_t row_put(char *dest, size_t room, char *const *cell, int count) {
  size_t used = 0;
  for (int i = 0; i < count; i++) {
    bool fill = dest != NULL;
    used += field_put(fill ? dest + used : NULL, fill ? room - used : 0, cell[i] == NULL ? "" : cell[i]);
    if (fill) dest[used] = i + 1 < count ? ',' : '\n';
    used += 1;
  }
  return used;
}

static size_t table_put(char *dest, size_t room, const ms_csv *table) {
  size_t used = row_put(dest, room, table->column, table->n_columns);
  for (int64_t row = 0; row < table->n_rows; row++) {
    bool fill = dest != NULL;
    used += row_put(fill ? dest + used : NULL, fill ? room - used : 0, table->cell + row * table->n_columns,
                    table->n_columns);
  }
  return used;
}

mk_status ms_csv_print(mk_context *ctx, const ms_csv *table, char **out, size_t *bytes) {
  size_t need = table_put(NULL, 0, table);
  char *text = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, need + 1, &text));
  *bytes = table_put(text, need, table);
  *out = text;
  return MK_OK;
}

mk_status ms_csv_write(mk_context *ctx, const char *path, const ms_csv *table) {
  mk_status st = MK_OK;
  char *text = NULL;
  size_t bytes = 0;
  MK_TRY_GOTO(ctx, ms_csv_print(ctx, table, &text, &bytes), out);
  MK_TRY_GOTO(ctx, mk_file_write(ctx, path, text, bytes), out);
out:
  mk_heap_free(ctx, text);
  return st;
}
