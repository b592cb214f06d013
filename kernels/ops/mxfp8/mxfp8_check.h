/* Checks of quantised operands, shared by the ops that take them. */
#ifndef KERNELS_OPS_MXFP8_MXFP8_CHECK_H
#define KERNELS_OPS_MXFP8_MXFP8_CHECK_H

#include "kernels/ops/check.h"
#include "kernels/ops/mxfp8/mxfp8.h"

/* Requires q u8 of [n,k], or [groups,n,k] with groups >= 0, and scales to match; -1 accepts any n or k. */
static inline mk_status mk_mxfp8_check(mk_stream *stream, const char *op, const mk_mxfp8 *m, int64_t groups, int64_t n,
                                       int64_t k) {
  unsigned u8 = MK_ONE_OF(MK_U8);
  if (groups < 0) {
    MK_TRY(stream->dev->ctx, mk_check_tensor(stream, op, "q", &m->q, u8, 2, n, k, 1));
    return mk_check_tensor(stream, op, "scale", &m->scale, u8, 2, m->q.dim[0], mk_mxfp8_blocks(m->q.dim[1]), 1);
  }
  MK_TRY(stream->dev->ctx, mk_check_tensor(stream, op, "q", &m->q, u8, 3, groups, n, k));
  return mk_check_tensor(stream, op, "scale", &m->scale, u8, 3, m->q.dim[0], m->q.dim[1], mk_mxfp8_blocks(m->q.dim[2]));
}

#endif
