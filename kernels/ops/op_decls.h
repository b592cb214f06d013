/* Prototypes of the backend functions of every op, made from op_list.h. Included by the backends' tables and by the
 * files that define the functions, so that a wrong signature does not compile. */
#ifndef KERNELS_OPS_OP_DECLS_H
#define KERNELS_OPS_OP_DECLS_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define X(name) \
  mk_status mk_##name##_ref(mk_stream *stream, const void *args); \
  mk_status mk_##name##_cpu(mk_stream *stream, const void *args); \
  mk_status mk_##name##_cuda(mk_stream *stream, const void *args); \
  mk_work mk_##name##_work(const void *args, int64_t rows);
MK_OP_LIST(X)
#undef X

#ifdef __cplusplus
}
#endif

#endif
