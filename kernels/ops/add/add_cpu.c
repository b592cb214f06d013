/* Add on the CPU: one pass. */
#include "kernels/ops/add/add.h"

#include "kernels/device/cpu/cpu_device.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/device/cpu/vector.h"
#include "kernels/ops/op_decls.h"

enum { GRAIN = 32768 };

MK_INLINE void add_leaf(const mk_add_args *args, mk_dtype dtype, int64_t first, int64_t count) {
  const void *a = mk_at(args->a.data, dtype, first), *b = mk_at(args->b.data, dtype, first);
  void *y = mk_at(args->y.data, dtype, first);
#pragma omp simd
  for (int64_t i = 0; i < count; i++)
    mk_put(y, dtype, i, mk_get(a, dtype, i) + mk_get(b, dtype, i));
}

MK_VECTOR static void add_range(const void *args, int64_t first, int64_t count) {
  const mk_add_args *a = args;
  if (a->y.dtype == MK_BF16) {
    add_leaf(a, MK_BF16, first, count);
  } else {
    add_leaf(a, MK_F32, first, count);
  }
}

mk_status mk_add_cpu(mk_stream *stream, const void *args) {
  const mk_add_args *a = args;
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_add, a->y.dtype));
  mk_cpu_ranges(mk_tensor_count(&a->y), GRAIN, add_range, a);
  return MK_OK;
}
