/* SwiGLU on the CPU: one pass, FP32 arithmetic, rows shared between threads. */
#include "kernels/device/cpu/cpu_device.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/device/cpu/vector.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/swiglu/swiglu.h"
#include "kernels/ops/valid_rows.h"

enum { GRAIN_ELEMENTS = 8192 };

MK_INLINE void fwd_leaf(const mk_swiglu_fwd_args *a, mk_dtype dtype, int64_t row) {
  int64_t width = a->y.dim[1];
  const void *up = mk_at(a->x.data, dtype, row * 2 * width), *gate = mk_at(up, dtype, width);
  void *y = mk_at(a->y.data, dtype, row * width);
#pragma omp simd
  for (int64_t f = 0; f < width; f++) {
    float z = mk_get(gate, dtype, f);
    mk_put(y, dtype, f, mk_get(up, dtype, f) * z * mk_sigmoidf(z));
  }
}

MK_INLINE void bwd_leaf(const mk_swiglu_bwd_args *a, mk_dtype dtype, int64_t row) {
  int64_t width = a->dy.dim[1];
  const void *dy = mk_at(a->dy.data, dtype, row * width);
  const void *up = mk_at(a->x.data, dtype, row * 2 * width), *gate = mk_at(up, dtype, width);
  void *dup = mk_at(a->dx.data, dtype, row * 2 * width), *dgate = mk_at(dup, dtype, width);
#pragma omp simd
  for (int64_t f = 0; f < width; f++) {
    float g = mk_get(dy, dtype, f), u = mk_get(up, dtype, f), z = mk_get(gate, dtype, f), sig = mk_sigmoidf(z);
    mk_put(dup, dtype, f, g * z * sig);
    mk_put(dgate, dtype, f, g * u * sig * (1.0f + z * (1.0f - sig)));
  }
}

MK_VECTOR static void fwd_rows(const void *args, int64_t first, int64_t count) {
  const mk_swiglu_fwd_args *a = args;
  for (int64_t row = first; row < first + count; row++) {
    if (a->y.dtype == MK_BF16) {
      fwd_leaf(a, MK_BF16, row);
    } else {
      fwd_leaf(a, MK_F32, row);
    }
  }
}

MK_VECTOR static void bwd_rows(const void *args, int64_t first, int64_t count) {
  const mk_swiglu_bwd_args *a = args;
  for (int64_t row = first; row < first + count; row++) {
    if (a->dy.dtype == MK_BF16) {
      bwd_leaf(a, MK_BF16, row);
    } else {
      bwd_leaf(a, MK_F32, row);
    }
  }
}

mk_status mk_swiglu_fwd_cpu(mk_stream *stream, const void *args) {
  const mk_swiglu_fwd_args *a = args;
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_swiglu_fwd, a->y.dtype));
  int64_t rows = mk_valid_rows(&a->rows, a->y.dim[0]);
  mk_cpu_ranges(rows, mk_cpu_grain_rows(GRAIN_ELEMENTS, a->y.dim[1]), fwd_rows, a);
  return MK_OK;
}

mk_status mk_swiglu_bwd_cpu(mk_stream *stream, const void *args) {
  const mk_swiglu_bwd_args *a = args;
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_swiglu_bwd, a->dy.dtype));
  int64_t rows = mk_valid_rows(&a->rows, a->dy.dim[0]);
  mk_cpu_ranges(rows, mk_cpu_grain_rows(GRAIN_ELEMENTS, a->dy.dim[1]), bwd_rows, a);
  return MK_OK;
}
