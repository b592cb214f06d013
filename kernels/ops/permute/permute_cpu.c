/* Permute, cpu: row copies, tokens split over threads; the backward is a combine whose weights are 1. O(T*K*D). */
#include <string.h>

#include "kernels/device/cpu/cpu_device.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/ops/combine/combine_sum.h"
#include "kernels/ops/ids.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/permute/permute.h"

enum { PIECE_ELEMENTS = 32768 };

static void copy_rows(const void *args, int64_t first, int64_t count) {
  const mk_permute_fwd_args *a = args;
  const int32_t *map = a->map.data;
  int64_t top_k = a->map.dim[1];
  size_t row_bytes = (size_t)a->x.dim[1] * mk_dtype_bytes(a->x.dtype);
  for (int64_t t = first; t < first + count; t++) {
    const char *x = (const char *)a->x.data + (size_t)t * row_bytes;
    for (int64_t r = t * top_k; r < (t + 1) * top_k; r++) {
      if (map[r] >= 0) memcpy((char *)a->out.data + (size_t)map[r] * row_bytes, x, row_bytes);
    }
  }
}

mk_status mk_permute_fwd_cpu(mk_stream *stream, const void *args) {
  const mk_permute_fwd_args *a = args;
  mk_context *ctx = stream->dev->ctx;
  MK_TRY(ctx, mk_cpu_check_float(stream, MK_OP_permute_fwd, a->x.dtype));
  MK_TRY(ctx, mk_ids_check(stream, "permute_fwd", "map", &a->map, INT32_MIN, a->out.dim[0]));
  mk_cpu_ranges(a->x.dim[0], mk_cpu_grain_rows(PIECE_ELEMENTS, a->map.dim[1] * a->x.dim[1]), copy_rows, a);
  return MK_OK;
}

mk_status mk_permute_bwd_cpu(mk_stream *stream, const void *args) {
  const mk_permute_bwd_args *a = args;
  mk_combine_fwd_args sum = {.rows = a->dout, .map = a->map, .add = a->add, .y = a->dx};
  return mk_combine_sum_cpu(stream, MK_OP_permute_bwd, &sum, NULL);
}
