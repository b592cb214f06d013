/* Scale on the CPU: one pass; the product is taken in FP64 and rounded once, which memory bandwidth hides. */
#include "kernels/ops/scale/scale.h"

#include "kernels/device/cpu/cpu_device.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/device/cpu/vector.h"
#include "kernels/ops/op_decls.h"

enum { GRAIN = 32768 };

MK_VECTOR static void scale_range(const void *args, int64_t first, int64_t count) {
  const mk_scale_args *a = args;
  float *x = (float *)a->x.data + first;
  double factor = a->factor;
#pragma omp simd
  for (int64_t i = 0; i < count; i++)
    x[i] = (float)((double)x[i] * factor);
}

mk_status mk_scale_cpu(mk_stream *stream, const void *args) {
  const mk_scale_args *a = args;
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_scale, a->x.dtype));
  mk_cpu_ranges(mk_tensor_count(&a->x), GRAIN, scale_range, a);
  return MK_OK;
}
