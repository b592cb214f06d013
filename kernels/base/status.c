/* The error record: set once, at the first fault; frames are added on the way up. */
#include "kernels/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/text.h"

const char *mk_status_name(mk_status status) {
  switch (status) {
    case MK_OK:
      return "ok";
    case MK_ERR_ARG:
      return "argument";
    case MK_ERR_CONFIG:
      return "config";
    case MK_ERR_MEMORY:
      return "memory";
    case MK_ERR_IO:
      return "io";
    case MK_ERR_FORMAT:
      return "format";
    case MK_ERR_OUTPUT:
      return "output";
    case MK_ERR_DEVICE:
      return "device";
    case MK_ERR_COMM:
      return "comm";
    case MK_ERR_TIMEOUT:
      return "timeout";
    case MK_ERR_UNSUPPORTED:
      return "unsupported";
    case MK_ERR_MISMATCH:
      return "mismatch";
    case MK_ERR_NUMERIC:
      return "numeric";
    case MK_ERR_INTERRUPTED:
      return "interrupted";
  }
  return "unknown";
}

static void frame_add(mk_error *error, const char *file, int line) {
  if (error->n_frames < MK_MAX_FRAMES) {
    error->frames[error->n_frames].file = file;
    error->frames[error->n_frames].line = line;
    error->n_frames += 1;
  }
}

/* Is this the first fault? Then it is on record now. */
static bool record(mk_error *error, mk_status status, const char *file, int line, const char *fmt, va_list args)
    __attribute__((format(printf, 5, 0)));

static bool record(mk_error *error, mk_status status, const char *file, int line, const char *fmt, va_list args) {
  if (error->status != MK_OK) return false;
  error->status = status;
  vsnprintf(error->message, sizeof error->message, fmt, args);
  mk_text_printable(error->message);
  frame_add(error, file, line);
  return true;
}

mk_status mk_fail(mk_context *ctx, mk_status status, const char *file, int line, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  record(&ctx->error, status, file, line, fmt, args);
  va_end(args);
  return status;
}

mk_status mk_fail_caller(mk_context *ctx, mk_status status, const char *file, int line, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  if (record(&ctx->error, status, file, line, fmt, args)) ctx->error.unplaced = true;
  va_end(args);
  return status;
}

static void place_add(mk_error *error, const char *file, int line) {
  size_t used = strlen(error->message);
  const char *name = strrchr(file, '/');
  snprintf(error->message + used, sizeof error->message - used, " (%s:%d)", name != NULL ? name + 1 : file, line);
  error->unplaced = false;
}

mk_status mk_trace(mk_context *ctx, mk_status status, const char *file, int line) {
  if (ctx->error.unplaced) place_add(&ctx->error, file, line);
  frame_add(&ctx->error, file, line);
  return status;
}

void mk_error_prefix(mk_context *ctx, const char *what) {
  char message[MK_MESSAGE_BYTES];
  memcpy(message, ctx->error.message, sizeof message);
  snprintf(ctx->error.message, sizeof ctx->error.message, "%.500s: %.*s", what, MK_MESSAGE_BYTES - 503, message);
  mk_text_printable(ctx->error.message);
}

void mk_error_clear(mk_context *ctx) {
  ctx->error.status = MK_OK;
  ctx->error.message[0] = '\0';
  ctx->error.n_frames = 0;
  ctx->error.unplaced = false;
}
