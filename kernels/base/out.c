/* See out.h. */
#include "kernels/base/out.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void mk_out(const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  vprintf(fmt, args);
  va_end(args);
}

mk_status mk_out_flush(mk_context *ctx) {
  bool failed = fflush(stdout) != 0 || ferror(stdout) != 0;
  MK_CHECK(ctx, !failed, MK_ERR_OUTPUT, "cannot write to standard output: %s", strerror(errno));
  return MK_OK;
}
