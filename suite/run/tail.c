/* New bytes are appended to the unfinished line; complete lines go to the record reader. A last line without its line
 * break stays pending: its writer was killed. */
#include "suite/run/tail.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/heap.h"

mk_status ms_tail_init(mk_context *ctx, const char *path, ms_tail *out) {
  ms_tail tail = {.ctx = ctx, .path = path, .fd = -1};
  MK_TRY(ctx, ms_records_create(ctx, &tail.records));
  *out = tail;
  return MK_OK;
}

static mk_status lines_take(ms_tail *t) {
  char *line = t->pending, *stop = t->pending + t->n_pending;
  for (char *end; (end = memchr(line, '\n', (size_t)(stop - line))) != NULL; line = end + 1) {
    t->lines += 1;
    if (end == line) continue;
    MK_TRY(t->ctx, ms_records_line_add(t->ctx, t->records, t->path, t->lines, line, (size_t)(end - line)));
  }
  t->n_pending = (size_t)(stop - line);
  memmove(t->pending, line, t->n_pending);
  return MK_OK;
}

static mk_status read_new(ms_tail *t) {
  char chunk[16384];
  if (t->fd < 0) t->fd = open(t->path, O_RDONLY | O_CLOEXEC);
  for (ssize_t got; t->fd >= 0 && (got = read(t->fd, chunk, sizeof chunk)) > 0;) {
    MK_TRY(t->ctx, mk_heap_resize(t->ctx, &t->pending, t->n_pending + (size_t)got));
    memcpy(t->pending + t->n_pending, chunk, (size_t)got);
    t->n_pending += (size_t)got;
    MK_TRY(t->ctx, lines_take(t));
  }
  return MK_OK;
}

int64_t ms_tail_poll(ms_tail *t) {
  if (t->status == MK_OK) t->status = read_new(t);
  return t->lines;
}

ms_records *ms_tail_fini(ms_tail *t) {
  ms_records *records = t->records;
  mk_heap_free(t->ctx, t->pending);
  if (t->fd >= 0) close(t->fd);
  *t = (ms_tail){.fd = -1};
  return records;
}
