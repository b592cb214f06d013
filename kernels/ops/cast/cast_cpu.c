/* Cast on the CPU: one pass between f32 and bf16; a copy between equal dtypes. */
#include "kernels/ops/cast/cast.h"

#include "kernels/device/cpu/cpu_device.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/device/cpu/vector.h"
#include "kernels/ops/op_decls.h"

enum { GRAIN = 32768 };

MK_INLINE void cast_leaf(const mk_cast_args *a, mk_dtype from, mk_dtype to, int64_t first, int64_t count) {
  const void *x = mk_at(a->x.data, from, first);
  void *y = mk_at(a->y.data, to, first);
#pragma omp simd
  for (int64_t i = 0; i < count; i++)
    mk_put(y, to, i, mk_get(x, from, i));
}

MK_VECTOR static void cast_range(const void *args, int64_t first, int64_t count) {
  const mk_cast_args *a = args;
  if (a->x.dtype == a->y.dtype) {
    size_t bytes = mk_dtype_bytes(a->x.dtype);
    memcpy((char *)a->y.data + (size_t)first * bytes, (char *)a->x.data + (size_t)first * bytes, (size_t)count * bytes);
  } else if (a->x.dtype == MK_F32) {
    cast_leaf(a, MK_F32, MK_BF16, first, count);
  } else {
    cast_leaf(a, MK_BF16, MK_F32, first, count);
  }
}

mk_status mk_cast_cpu(mk_stream *stream, const void *args) {
  const mk_cast_args *a = args;
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_cast, a->x.dtype));
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_cast, a->y.dtype));
  if (a->x.data != a->y.data) mk_cpu_ranges(mk_tensor_count(&a->x), GRAIN, cast_range, a);
  return MK_OK;
}
