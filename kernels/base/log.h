/* Lines on stderr, one write per line so that ranks do not interleave inside a line. */
#ifndef KERNELS_BASE_LOG_H
#define KERNELS_BASE_LOG_H

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "moemark: <text>\n" on stderr; ranks other than 0 are named ("moemark[rank 3]: ..."). */
void mk_log(const mk_context *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Replaces the current line of a terminal by `text`; "" clears it. For progress, only where stderr is a terminal. */
void mk_log_status(const mk_context *ctx, const char *text);

/* The recorded error as one line "moemark: error: <message>"; with `frames` the call path follows. Of several ranks
 * (ctx->ranks) also rank 0 is named. */
void mk_log_error(const mk_context *ctx, bool frames);

#ifdef __cplusplus
}
#endif

#endif
