/* RMSNorm on the CPU: a row is read from memory once; the second loop over it finds it in the first-level cache.
 * Backward adds the gain's gradient in pieces of ROWS rows, in the order of the pieces. */
#include "kernels/ops/rmsnorm/rmsnorm.h"

#include "kernels/device/cpu/cpu_device.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/device/cpu/vector.h"
#include "kernels/ops/op_decls.h"

enum { GRAIN_ELEMENTS = 16384, ROWS = 32 };

/* Sum of squares of a row of u; with a branch, u is made and stored on the way. */
MK_INLINE float row_squares(const mk_rmsnorm_fwd_args *a, mk_dtype dtype, int64_t first) {
  int64_t width = a->x.dim[1];
  const void *x = mk_at(a->x.data, dtype, first);
  float squares = 0;
  if (mk_tensor_present(&a->branch)) {
    const void *branch = mk_at(a->branch.data, dtype, first);
    void *sum = mk_at(a->sum.data, dtype, first);
#pragma omp simd reduction(+ : squares)
    for (int64_t d = 0; d < width; d++) {
      float u = mk_round_to(dtype, mk_get(x, dtype, d) + mk_get(branch, dtype, d));
      mk_put(sum, dtype, d, u);
      squares += u * u;
    }
  } else {
#pragma omp simd reduction(+ : squares)
    for (int64_t d = 0; d < width; d++)
      squares += mk_get(x, dtype, d) * mk_get(x, dtype, d);
  }
  return squares;
}

MK_INLINE void fwd_leaf(const mk_rmsnorm_fwd_args *a, mk_dtype dtype, mk_dtype gain_dtype, int64_t row) {
  int64_t width = a->x.dim[1], first = row * width;
  const mk_tensor *source = mk_tensor_present(&a->branch) ? &a->sum : &a->x;
  const void *u = mk_at(source->data, dtype, first), *gain = a->gain.data;
  void *y = mk_at(a->y.data, dtype, first);
  float rstd = 1.0f / sqrtf(row_squares(a, dtype, first) / (float)width + a->eps);
  ((float *)a->rstd.data)[row] = rstd;
  if (mk_tensor_present(&a->add)) {
    const void *add = mk_at(a->add.data, dtype, first);
#pragma omp simd
    for (int64_t d = 0; d < width; d++) {
      float n = mk_round_to(dtype, mk_get(u, dtype, d) * rstd * mk_get(gain, gain_dtype, d));
      mk_put(y, dtype, d, n + mk_get(add, dtype, d));
    }
  } else {
#pragma omp simd
    for (int64_t d = 0; d < width; d++)
      mk_put(y, dtype, d, mk_get(u, dtype, d) * rstd * mk_get(gain, gain_dtype, d));
  }
}

MK_INLINE void bwd_leaf(const mk_rmsnorm_bwd_args *a, mk_dtype dtype, mk_dtype gain_dtype, int64_t row, float *dgain) {
  int64_t width = a->x.dim[1], first = row * width;
  const void *dy = mk_at(a->dy.data, dtype, first), *x = mk_at(a->x.data, dtype, first), *gain = a->gain.data;
  void *dx = mk_at(a->dx.data, dtype, first);
  float rstd = ((const float *)a->rstd.data)[row], dot = 0;
#pragma omp simd reduction(+ : dot)
  for (int64_t d = 0; d < width; d++) {
    float scaled = mk_get(dy, dtype, d) * (mk_get(x, dtype, d) * rstd);
    dgain[d] += scaled;
    dot += scaled * mk_get(gain, gain_dtype, d);
  }
  float mean = dot / (float)width;
  if (mk_tensor_present(&a->add)) {
    const void *add = mk_at(a->add.data, dtype, first);
#pragma omp simd
    for (int64_t d = 0; d < width; d++) {
      float g = mk_get(dy, dtype, d) * mk_get(gain, gain_dtype, d);
      mk_put(dx, dtype, d, rstd * (g - mk_get(x, dtype, d) * rstd * mean) + mk_get(add, dtype, d));
    }
  } else {
#pragma omp simd
    for (int64_t d = 0; d < width; d++) {
      float g = mk_get(dy, dtype, d) * mk_get(gain, gain_dtype, d);
      mk_put(dx, dtype, d, rstd * (g - mk_get(x, dtype, d) * rstd * mean));
    }
  }
}

MK_VECTOR static void fwd_rows(const void *args, int64_t first, int64_t count) {
  const mk_rmsnorm_fwd_args *a = args;
  bool bf16 = a->x.dtype == MK_BF16, gain_bf16 = a->gain.dtype == MK_BF16;
  for (int64_t row = first; row < first + count; row++) {
    if (bf16 && gain_bf16) {
      fwd_leaf(a, MK_BF16, MK_BF16, row);
    } else if (bf16) {
      fwd_leaf(a, MK_BF16, MK_F32, row);
    } else if (gain_bf16) {
      fwd_leaf(a, MK_F32, MK_BF16, row);
    } else {
      fwd_leaf(a, MK_F32, MK_F32, row);
    }
  }
}

MK_VECTOR static void bwd_rows(const void *args, int64_t first, int64_t count, float *dgain) {
  const mk_rmsnorm_bwd_args *a = args;
  bool bf16 = a->x.dtype == MK_BF16, gain_bf16 = a->gain.dtype == MK_BF16;
  for (int64_t row = first; row < first + count; row++) {
    if (bf16 && gain_bf16) {
      bwd_leaf(a, MK_BF16, MK_BF16, row, dgain);
    } else if (bf16) {
      bwd_leaf(a, MK_BF16, MK_F32, row, dgain);
    } else if (gain_bf16) {
      bwd_leaf(a, MK_F32, MK_BF16, row, dgain);
    } else {
      bwd_leaf(a, MK_F32, MK_F32, row, dgain);
    }
  }
}

mk_status mk_rmsnorm_fwd_cpu(mk_stream *stream, const void *args) {
  const mk_rmsnorm_fwd_args *a = args;
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_rmsnorm_fwd, a->x.dtype));
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_rmsnorm_fwd, a->gain.dtype));
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_rmsnorm_fwd, a->rstd.dtype));
  mk_cpu_ranges(a->x.dim[0], mk_cpu_grain_rows(GRAIN_ELEMENTS, a->x.dim[1]), fwd_rows, a);
  return MK_OK;
}

mk_status mk_rmsnorm_bwd_cpu(mk_stream *stream, const void *args) {
  const mk_rmsnorm_bwd_args *a = args;
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_rmsnorm_bwd, a->x.dtype));
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_rmsnorm_bwd, a->gain.dtype));
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_rmsnorm_bwd, a->rstd.dtype));
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_rmsnorm_bwd, a->dgain.dtype));
  mk_cpu_ranges_sum(a->x.dim[0], ROWS, a->x.dim[1], bwd_rows, a, a->dgain.data);
  return MK_OK;
}
