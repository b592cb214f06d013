/* Text grows by doubling. */
#include "suite/report/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/heap.h"

static void room_for(ms_text *t, size_t more) {
  if (t->status != MK_OK || t->bytes + more + 1 <= t->room) return;
  size_t room = 2 * (t->bytes + more + 1024);
  t->status = mk_heap_resize(t->ctx, &t->text, room);
  if (t->status == MK_OK) t->room = room;
}

void ms_text_add(ms_text *t, const char *fmt, ...) {
  va_list args, again;
  va_start(args, fmt);
  va_copy(again, args);
  int bytes = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  room_for(t, (size_t)bytes);
  if (t->status == MK_OK) {
    vsnprintf(t->text + t->bytes, (size_t)bytes + 1, fmt, again);
    t->bytes += (size_t)bytes;
  }
  va_end(again);
}

static void cell_add(ms_text *t, const char *cell) {
  ms_text_add(t, " ");
  for (; *cell != '\0'; cell++) {
    if (*cell == '|') ms_text_add(t, "\\");
    ms_text_add(t, "%c", *cell == '\n' ? ' ' : *cell);
  }
  ms_text_add(t, " |");
}

void ms_text_table(ms_text *t, const ms_csv *table) {
  ms_text_add(t, "|");
  for (int i = 0; i < table->n_columns; i++)
    cell_add(t, table->column[i]);
  ms_text_add(t, "\n|");
  for (int i = 0; i < table->n_columns; i++)
    ms_text_add(t, "---|");
  for (int64_t row = 0; row < table->n_rows; row++) {
    ms_text_add(t, "\n|");
    for (int i = 0; i < table->n_columns; i++)
      cell_add(t, ms_csv_get(table, row, table->column[i]));
  }
  ms_text_add(t, "\n\n");
}

void ms_pretty(double value, char *out, size_t bytes) {
  out[0] = '\0';
  if (isnan(value)) return;
  snprintf(out, bytes, fabs(value) >= 9999.5 && fabs(value) < 1e15 ? "%.0f" : "%.4g", value);
}

void ms_pretty_interval(double value, double lo, double hi, char *out, size_t bytes) {
  out[0] = '\0';
  if (isnan(value)) return;
  if (isnan(lo) || isnan(hi)) {
    snprintf(out, bytes, "%.3f", value);
  } else {
    snprintf(out, bytes, "%.3f [%.3f, %.3f]", value, lo, hi);
  }
}
