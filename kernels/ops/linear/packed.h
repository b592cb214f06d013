/* Packed copies of weights: the size that a device wants for w [N,K] or [E,N,K], and the check of an optional one. */
#ifndef KERNELS_OPS_LINEAR_PACKED_H
#define KERNELS_OPS_LINEAR_PACKED_H

#include "kernels/ops/check.h"

static inline int64_t mk_packed_bytes(mk_stream *stream, const mk_tensor *w) {
  int64_t groups = w->n_dims == 3 ? w->dim[0] : 1;
  return (int64_t)mk_gemm_pack_bytes(stream->dev, w->dtype, groups, w->dim[w->n_dims - 2], w->dim[w->n_dims - 1]);
}

static inline mk_status mk_packed_check(mk_stream *stream, const char *op, const mk_tensor *packed,
                                        const mk_tensor *w) {
  if (!mk_tensor_present(packed)) return MK_OK;
  return mk_check_tensor(stream, op, "packed", packed, MK_ONE_OF(MK_U8), 1, mk_packed_bytes(stream, w), 1, 1);
}

#endif
