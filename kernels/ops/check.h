/* Argument checks shared by the ops' front files. All of them run on every device, simulation included. */
#ifndef KERNELS_OPS_CHECK_H
#define KERNELS_OPS_CHECK_H

#include "kernels/device/device.h"

/* One dtype of a set, as bits: MK_ONE_OF(MK_F32) | MK_ONE_OF(MK_BF16). */
#define MK_ONE_OF(dtype) (1u << (dtype))
#define MK_ANY_FLOAT (MK_ONE_OF(MK_F32) | MK_ONE_OF(MK_BF16) | MK_ONE_OF(MK_F64))
#define MK_MASTER_FLOAT (MK_ONE_OF(MK_F32) | MK_ONE_OF(MK_F64))

/* Requires tensor `t` ("op: name") to have a dtype of `dtypes` and exactly the given dims; -1 accepts any size.
 * Memory must be present unless the tensor is empty or the device is simulated. Fails with MK_ERR_ARG. */
mk_status mk_check_tensor(mk_stream *stream, const char *op, const char *name, const mk_tensor *t, unsigned dtypes,
                          int n_dims, int64_t d0, int64_t d1, int64_t d2);

/* Requires `t` to be present, of a dtype of `dtypes` and of `count` elements (-1: any) in whatever shape. */
mk_status mk_check_flat(mk_stream *stream, const char *op, const char *name, const mk_tensor *t, unsigned dtypes,
                        int64_t count);

/* Requires output `out` to share no byte with input `in`, for ops that would read what they have overwritten. */
mk_status mk_check_apart(mk_stream *stream, const char *op, const char *out_name, const mk_tensor *out,
                         const char *in_name, const mk_tensor *in);

#define MK_CHECK_APART(stream, op, args, out, in) \
  MK_TRY((stream)->dev->ctx, mk_check_apart((stream), (op), #out, &(args)->out, #in, &(args)->in))
#define MK_CHECK_FLAT(stream, op, args, field, dtypes, count) \
  MK_TRY((stream)->dev->ctx, mk_check_flat((stream), (op), #field, &(args)->field, (dtypes), (count)))
#define MK_CHECK_1D(stream, op, args, field, dtypes, d0) \
  MK_TRY((stream)->dev->ctx, mk_check_tensor((stream), (op), #field, &(args)->field, (dtypes), 1, (d0), 1, 1))
#define MK_CHECK_2D(stream, op, args, field, dtypes, d0, d1) \
  MK_TRY((stream)->dev->ctx, mk_check_tensor((stream), (op), #field, &(args)->field, (dtypes), 2, (d0), (d1), 1))
#define MK_CHECK_3D(stream, op, args, field, dtypes, d0, d1, d2) \
  MK_TRY((stream)->dev->ctx, mk_check_tensor((stream), (op), #field, &(args)->field, (dtypes), 3, (d0), (d1), (d2)))

#endif
