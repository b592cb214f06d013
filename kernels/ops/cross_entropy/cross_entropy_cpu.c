/* Cross-entropy, cpu: tokens split over threads. A row is read in chunks that stay in the first-level cache, with a
 * running maximum and a sum rescaled when the maximum moves (online softmax: Milakov and Gimelshein, arXiv 1805.02867);
 * the gradient is a second pass over the row, which still is in the second-level cache. O(T*V). */
#include "kernels/device/cpu/cpu_device.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/device/cpu/vector.h"
#include "kernels/ops/cross_entropy/cross_entropy.h"
#include "kernels/ops/ids.h"
#include "kernels/ops/op_decls.h"

enum { CHUNK = 2048, PIECE_ELEMENTS = 16384 };

/* Running maximum and sum of exp(x - max) of a row. */
typedef struct running_sum {
  float max;
  double sum;
} running_sum;

/* A row of -inf so far is shifted by 0, so that a later NaN or finite logit is seen. */
MK_INLINE float shift_of(float max) { return max == -INFINITY ? 0.0f : max; }

/* An empty sum stays 0 (its factor may be infinite), a NaN stays NaN. */
MK_INLINE void add_chunk(running_sum *run, const void *row, mk_dtype dtype, int64_t n) {
  float max = run->max, sum = 0;
#pragma omp simd reduction(max : max)
  for (int64_t i = 0; i < n; i++)
    max = mk_get(row, dtype, i) > max ? mk_get(row, dtype, i) : max;
  float shift = shift_of(max);
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; i++)
    sum += mk_expf(mk_get(row, dtype, i) - shift);
  if (max != run->max && run->sum != 0) run->sum *= exp((double)shift_of(run->max) - (double)shift);
  run->sum += (double)sum;
  run->max = max;
}

/* row = (softmax * factor - [v == label]) / divisor, with `factor` the z-loss's 1 + 2 w lse. */
MK_INLINE void write_gradient(const running_sum *run, void *row, mk_dtype dtype, int64_t n, int64_t label,
                              double factor, double divisor) {
  float shift = shift_of(run->max), scale = (float)(factor / run->sum / divisor);
  /* in FP64: for a probability near 1 the difference cancels */
  double at_label = exp((double)mk_get(row, dtype, label) - (double)shift) / run->sum * factor - 1.0;
#pragma omp simd
  for (int64_t i = 0; i < n; i++)
    mk_put(row, dtype, i, mk_expf(mk_get(row, dtype, i) - shift) * scale);
  mk_put(row, dtype, label, (float)(at_label / divisor));
}

MK_INLINE void do_token(const mk_cross_entropy_args *a, int64_t token, mk_dtype dtype) {
  int64_t vocab = a->logits.dim[1], label = ((const int32_t *)a->labels.data)[token];
  void *row = mk_at(a->logits.data, dtype, token * vocab);
  float *ce = (float *)a->losses.data + token, *z = ce + a->logits.dim[0];
  *ce = 0;
  *z = 0;
  if (label < 0) {
    if (a->with_grad) memset(row, 0, (size_t)vocab * mk_dtype_bytes(dtype));
    return;
  }
  running_sum run = {-INFINITY, 0};
  for (int64_t v = 0; v < vocab; v += CHUNK) {
    add_chunk(&run, mk_at(row, dtype, v), dtype, vocab - v < CHUNK ? vocab - v : CHUNK);
  }
  double lse = (double)shift_of(run.max) + log(run.sum), weight = (double)a->z_weight;
  *ce = (float)(lse - (double)mk_get(row, dtype, label));
  *z = (float)(weight * lse * lse);
  if (!a->with_grad) return;
  double divisor = ((const mk_step_state *)a->state.data)->loss_divisor;
  write_gradient(&run, row, dtype, vocab, label, 1.0 + 2.0 * weight * lse, divisor);
}

MK_VECTOR static void token_range(const void *args, int64_t first, int64_t count) {
  const mk_cross_entropy_args *a = args;
  for (int64_t t = first; t < first + count; t++) {
    if (a->logits.dtype == MK_BF16) {
      do_token(a, t, MK_BF16);
    } else {
      do_token(a, t, MK_F32);
    }
  }
}

mk_status mk_cross_entropy_cpu(mk_stream *stream, const void *args) {
  const mk_cross_entropy_args *a = args;
  mk_context *ctx = stream->dev->ctx;
  int64_t tokens = a->logits.dim[0], vocab = a->logits.dim[1], labels = 0;
  const float *losses = a->losses.data;
  double divisor = ((const mk_step_state *)a->state.data)->loss_divisor, *sums = a->sums.data, ce = 0, z = 0;
  MK_TRY(ctx, mk_cpu_check_float(stream, MK_OP_cross_entropy, a->logits.dtype));
  MK_TRY(ctx, mk_cpu_check_float(stream, MK_OP_cross_entropy, a->losses.dtype));
  MK_TRY(ctx, mk_ids_check(stream, "cross_entropy", "labels", &a->labels, INT32_MIN, vocab));
  mk_cpu_ranges(tokens, mk_cpu_grain_rows(PIECE_ELEMENTS, vocab), token_range, a);
  for (int64_t t = 0; t < tokens; t++) {
    ce += (double)losses[t];
    z += (double)losses[tokens + t];
    labels += ((const int32_t *)a->labels.data)[t] >= 0;
  }
  sums[MK_SUM_CE] += ce / divisor;
  sums[MK_SUM_Z] += z / divisor;
  sums[MK_SUM_LABELS] += (double)labels;
  return MK_OK;
}
