/* Text on standard output. Data goes here; log lines go to stderr (log.h). */
#ifndef KERNELS_BASE_OUT_H
#define KERNELS_BASE_OUT_H

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* printf to standard output. A failing output is noticed by mk_out_flush. */
void mk_out(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* MK_ERR_OUTPUT when something could not be written (closed pipe, full disk). */
mk_status mk_out_flush(mk_context *ctx);

#ifdef __cplusplus
}
#endif

#endif
