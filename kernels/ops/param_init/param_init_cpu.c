/* Parameter initialisation on the CPU: the definition, elements shared between threads. Runs once a launch. */
#include "kernels/device/cpu/cpu_device.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/device/cpu/vector.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/param_init/param_draw.h"

enum { GRAIN = 4096 };

static void draw_range(const void *args, int64_t first, int64_t count) {
  const mk_param_init_args *a = args;
  mk_rng_block block;
  for (int64_t i = first; i < first + count; i++)
    mk_put(a->main.data, a->main.dtype, i, (float)mk_param_value(a, i, &block, i == first));
}

mk_status mk_param_init_cpu(mk_stream *stream, const void *args) {
  const mk_param_init_args *a = args;
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_param_init, a->main.dtype));
  mk_cpu_ranges(mk_tensor_count(&a->main), GRAIN, draw_range, a);
  return MK_OK;
}
