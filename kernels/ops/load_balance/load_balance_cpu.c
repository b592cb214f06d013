/* Load balance, cpu. stats: column sums over pieces of fixed size, added in the order of the pieces, so that the sums
 * do not depend on threads; O(T*E). loss: a few thousand numbers in all, so the reference serves. */
#include <string.h>

#include "kernels/device/cpu/cpu_device.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/device/cpu/vector.h"
#include "kernels/ops/load_balance/load_balance.h"
#include "kernels/ops/op_decls.h"

enum { PIECE_ELEMENTS = 32768 };

typedef struct stats_job {
  const float *scores; /* [tokens of the group, experts] */
  int64_t experts;
  int32_t renormalize;
} stats_job;

MK_VECTOR static void sum_range(const void *args, int64_t first, int64_t count, float *partial) {
  const stats_job *job = args;
  int64_t experts = job->experts;
  for (int64_t t = first; t < first + count; t++) {
    const float *row = job->scores + t * experts;
    float sum = 0;
    if (job->renormalize) {
#pragma omp simd reduction(+ : sum)
      for (int64_t e = 0; e < experts; e++)
        sum += row[e];
    }
    float factor = job->renormalize ? 1.0f / sum : 1.0f;
#pragma omp simd
    for (int64_t e = 0; e < experts; e++)
      partial[e] += row[e] * factor;
  }
}

mk_status mk_load_balance_stats_cpu(mk_stream *stream, const void *args) {
  const mk_load_balance_stats_args *a = args;
  int64_t groups = a->score_sum.dim[0], experts = a->scores.dim[1], tokens = a->scores.dim[0] / groups;
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_load_balance_stats, a->scores.dtype));
  memset(a->score_sum.data, 0, mk_tensor_bytes(&a->score_sum));
  for (int64_t g = 0; g < groups; g++) {
    stats_job job = {(const float *)a->scores.data + g * tokens * experts, experts, a->renormalize};
    float *total = (float *)a->score_sum.data + g * experts;
    mk_cpu_ranges_sum(tokens, mk_cpu_grain_rows(PIECE_ELEMENTS, experts), experts, sum_range, &job, total);
  }
  return MK_OK;
}

mk_status mk_load_balance_loss_cpu(mk_stream *stream, const void *args) {
  return mk_load_balance_loss_ref(stream, args);
}
