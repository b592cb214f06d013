/* Log lines are formatted into one buffer and written with one call. */
#include "kernels/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static void write_line(char *line, int used, size_t bytes) {
  if (used < 0) return;
  if ((size_t)used > bytes - 2) used = (int)bytes - 2;
  line[used] = '\n';
  ssize_t written = write(STDERR_FILENO, line, (size_t)used + 1);
  (void)written; /* nowhere is left to report a failing stderr */
}

static int prefix(const mk_context *ctx, char *line, size_t bytes) {
  if (ctx->rank == 0) return snprintf(line, bytes, "moemark: ");
  return snprintf(line, bytes, "moemark[rank %d]: ", ctx->rank);
}

void mk_log(const mk_context *ctx, const char *fmt, ...) {
  char line[MK_MESSAGE_BYTES + 128];
  int used = prefix(ctx, line, sizeof line);
  va_list args;
  va_start(args, fmt);
  used += vsnprintf(line + used, sizeof line - (size_t)used - 1, fmt, args);
  va_end(args);
  write_line(line, used, sizeof line);
}

void mk_log_error(const mk_context *ctx, bool frames) {
  char line[MK_MESSAGE_BYTES + 128];
  /* of several ranks, the first is named too */
  bool named = ctx->rank == 0 && ctx->ranks > 1;
  int used = named ? snprintf(line, sizeof line, "moemark[rank 0]: ") : prefix(ctx, line, sizeof line);
  used += snprintf(line + used, sizeof line - (size_t)used - 1, "error: %s", ctx->error.message);
  write_line(line, used, sizeof line);
  for (int i = 0; frames && i < ctx->error.n_frames; i++) {
    mk_log(ctx, "  at %s:%d", ctx->error.frames[i].file, ctx->error.frames[i].line);
  }
}

void mk_log_status(const mk_context *ctx, const char *text) {
  char line[512];
  (void)ctx;
  int used = snprintf(line, sizeof line, "\r\033[K%.400s", text);
  ssize_t written = used > 0 ? write(STDERR_FILENO, line, (size_t)used) : 0;
  (void)written;
}
