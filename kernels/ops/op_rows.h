/* The rows of a call, for mk_op_work, where a buffer holds fewer than its dims say. */
#ifndef KERNELS_OPS_OP_ROWS_H
#define KERNELS_OPS_OP_ROWS_H

#include "kernels/ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether a tensor on the device says how many rows this call works on. */
bool mk_op_rows_on_device(mk_op_id op, const void *args);

/* That number, read by the host, so where it can address device memory only; -1 when the dims say it all. */
int64_t mk_op_rows(mk_op_id op, const void *args);

#ifdef __cplusplus
}
#endif

#endif
