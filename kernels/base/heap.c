/* Counting wrapper over malloc. `out` and `block` are pointers to pointers, passed as void * so that any
 * pointer type fits without a cast at the call. */
#include "kernels/base/heap.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool call_fails(mk_context *ctx) {
  ctx->heap_calls += 1;
  return ctx->heap_fail_at != 0 && ctx->heap_calls == ctx->heap_fail_at;
}

static mk_status fail(mk_context *ctx, const char *what, size_t bytes) {
  return MK_FAIL_CALLER(ctx, MK_ERR_MEMORY, "out of host memory: could not %s %zu bytes", what, bytes);
}

mk_status mk_heap_alloc(mk_context *ctx, size_t bytes, void *out) {
  void *block = call_fails(ctx) ? NULL : calloc(1, bytes > 0 ? bytes : 1);
  if (block == NULL) return fail(ctx, "allocate", bytes);
  ctx->heap_live += 1;
  memcpy(out, &block, sizeof block);
  return MK_OK;
}

mk_status mk_heap_array(mk_context *ctx, size_t count, size_t size, void *out) {
  MK_CHECK(ctx, size == 0 || count <= SIZE_MAX / size, MK_ERR_MEMORY, "array of %zu x %zu bytes is too large", count,
           size);
  return mk_heap_alloc(ctx, count * size, out);
}

mk_status mk_heap_resize(mk_context *ctx, void *block, size_t bytes) {
  void *old = NULL;
  memcpy(&old, block, sizeof old);
  void *fresh = call_fails(ctx) ? NULL : realloc(old, bytes > 0 ? bytes : 1);
  if (fresh == NULL) return fail(ctx, "resize to", bytes);
  if (old == NULL) ctx->heap_live += 1;
  memcpy(block, &fresh, sizeof fresh);
  return MK_OK;
}

mk_status mk_heap_strdup(mk_context *ctx, const char *text, char **out) { return mk_heap_printf(ctx, out, "%s", text); }

mk_status mk_heap_printf(mk_context *ctx, char **out, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int length = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  MK_CHECK(ctx, length >= 0, MK_ERR_ARG, "text could not be formatted");
  char *text = NULL;
  mk_status st = mk_heap_alloc(ctx, (size_t)length + 1, &text);
  if (st != MK_OK) return st; /* no frame: the place is the caller's */
  va_start(args, fmt);
  vsnprintf(text, (size_t)length + 1, fmt, args);
  va_end(args);
  *out = text;
  return MK_OK;
}

void mk_heap_free(mk_context *ctx, void *block) {
  if (block == NULL) return;
  ctx->heap_live -= 1;
  free(block);
}
