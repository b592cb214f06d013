/* Where a fault stands, and the list of all faults of one file. */
#ifndef SUITE_STUDY_DIAGNOSTICS_H
#define SUITE_STUDY_DIAGNOSTICS_H

#include "kernels/base/status.h"

/* Line and column of a file, from 1. */
typedef struct ms_place {
  int line, col;
} ms_place;

/* One line each, already "file:line:col: error: text", in the order of their places. */
typedef struct ms_diagnostics {
  char **line;
  ms_place *place;
  int count;
} ms_diagnostics;

/* Adds a fault. Fails only when host memory runs out. */
mk_status ms_diagnostics_add(mk_context *ctx, ms_diagnostics *diag, const char *path, ms_place place, const char *fmt,
                             ...) __attribute__((format(printf, 5, 6)));

/* Appends the lines of `from` (of another file) behind those of `to`, unless they stand there already: the file was
 * read before. Empties `from`, also on failure. */
mk_status ms_diagnostics_move(mk_context *ctx, ms_diagnostics *from, ms_diagnostics *to);

/* Frees the lines; legal on a zeroed list. */
void ms_diagnostics_fini(mk_context *ctx, ms_diagnostics *diag);

#endif
