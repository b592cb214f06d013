/* Faults are kept sorted by place, so that checks may run in any order and the reader sees the file's order. */
#include "suite/study/diagnostics.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "kernels/base/text.h"

static bool after(ms_place a, ms_place b) { return a.line > b.line || (a.line == b.line && a.col > b.col); }

static mk_status make_room(mk_context *ctx, ms_diagnostics *diag, int more) {
  size_t count = (size_t)(diag->count + more);
  MK_TRY(ctx, mk_heap_resize(ctx, &diag->line, count * sizeof *diag->line));
  return mk_heap_resize(ctx, &diag->place, count * sizeof *diag->place);
}

static mk_status insert(mk_context *ctx, ms_diagnostics *diag, char *line, ms_place place) {
  MK_TRY(ctx, make_room(ctx, diag, 1));
  int at = diag->count;
  for (; at > 0 && after(diag->place[at - 1], place); at--) {
    diag->line[at] = diag->line[at - 1];
    diag->place[at] = diag->place[at - 1];
  }
  diag->line[at] = line;
  diag->place[at] = place;
  diag->count += 1;
  return MK_OK;
}

mk_status ms_diagnostics_add(mk_context *ctx, ms_diagnostics *diag, const char *path, ms_place place, const char *fmt,
                             ...) {
  char text[MK_MESSAGE_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  char *line = NULL;
  MK_TRY(ctx, mk_heap_printf(ctx, &line, "%s:%d:%d: error: %s", path, place.line, place.col, text));
  mk_text_printable(line); /* a path may hold a line break */
  mk_status st = insert(ctx, diag, line, place);
  if (st != MK_OK) mk_heap_free(ctx, line);
  return st;
}

static bool holds(const ms_diagnostics *diag, int count, const char *line) {
  for (int i = 0; i < count; i++) {
    if (strcmp(diag->line[i], line) == 0) return true;
  }
  return false;
}

mk_status ms_diagnostics_move(mk_context *ctx, ms_diagnostics *from, ms_diagnostics *to) {
  mk_status st = from->count == 0 ? MK_OK : make_room(ctx, to, from->count);
  int there = to->count;
  for (int i = 0; st == MK_OK && i < from->count; i++) {
    if (holds(to, there, from->line[i])) continue;
    to->place[to->count] = from->place[i];
    to->line[to->count++] = from->line[i];
    from->line[i] = NULL;
  }
  ms_diagnostics_fini(ctx, from);
  return st;
}

void ms_diagnostics_fini(mk_context *ctx, ms_diagnostics *diag) {
  for (int i = 0; i < diag->count; i++)
    mk_heap_free(ctx, diag->line[i]);
  mk_heap_free(ctx, diag->line);
  mk_heap_free(ctx, diag->place);
  *diag = (ms_diagnostics){0};
}
