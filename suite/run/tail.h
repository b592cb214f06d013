/* Follows a records.jsonl while it is written. */
#ifndef SUITE_RUN_TAIL_H
#define SUITE_RUN_TAIL_H

#include "suite/record/records.h"

typedef struct ms_tail {
  mk_context *ctx;
  const char *path; /* borrowed */
  int fd;           /* -1 until the file exists */
  char *pending;    /* bytes of an unfinished line */
  size_t n_pending;
  int64_t lines;
  ms_records *records;
  mk_status status; /* first failure; reading stops there */
} ms_tail;

mk_status ms_tail_init(mk_context *ctx, const char *path, ms_tail *out);

/* Reads what is new; returns the number of complete lines so far. */
int64_t ms_tail_poll(ms_tail *tail);

/* Frees everything but the records, which it hands over (may be without start or end). */
ms_records *ms_tail_fini(ms_tail *tail);

#endif
