/* Squared norm on the CPU: fixed pieces, each summed in LANES independent FP64 sums so that the adds' latency does not
 * hold up the loads; the lanes and then the pieces are added in a fixed order. */
#include "kernels/ops/squared_norm/squared_norm.h"

#include "kernels/device/cpu/cpu_device.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/device/cpu/vector.h"
#include "kernels/ops/op_decls.h"

enum { GRAIN = 32768, LANES = 32 };

MK_VECTOR static double sum_range(const void *args, int64_t first, int64_t count) {
  const mk_squared_norm_args *a = args;
  const float *x = (const float *)a->x.data + first;
  double lane[LANES] = {0};
  int64_t whole = count / LANES * LANES;
  for (int64_t i = 0; i < whole; i += LANES) {
#pragma omp simd
    for (int j = 0; j < LANES; j++)
      lane[j] += (double)x[i + j] * (double)x[i + j];
  }
  for (int64_t i = whole; i < count; i++)
    lane[i - whole] += (double)x[i] * (double)x[i];
  double sum = 0;
  for (int j = 0; j < LANES; j++)
    sum += lane[j];
  return sum;
}

mk_status mk_squared_norm_cpu(mk_stream *stream, const void *args) {
  const mk_squared_norm_args *a = args;
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_squared_norm, a->x.dtype));
  *(double *)a->out.data += a->scale * mk_cpu_ranges_sum_f64(mk_tensor_count(&a->x), GRAIN, sum_range, a);
  return MK_OK;
}
