/* AdamW on the CPU: one pass in FP32 over gradient, moments, main parameters and compute copy; each byte is touched
 * once, so that the op runs at memory bandwidth. */
#include "kernels/device/cpu/cpu_device.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/device/cpu/vector.h"
#include "kernels/ops/adamw/adamw_factors.h"
#include "kernels/ops/op_decls.h"

enum { GRAIN = 16384 };

typedef enum copy_kind { COPY_NONE, COPY_F32, COPY_BF16 } copy_kind;

typedef struct adamw_run {
  const mk_adamw_args *a;
  float clip, decay, step, root;
  copy_kind copy;
} adamw_run;

MK_INLINE void update_leaf(const adamw_run *run, copy_kind copy, bool clear, int64_t first, int64_t count) {
  const mk_adamw_args *a = run->a;
  float *grad = (float *)a->grad.data + first, *main = (float *)a->main.data + first;
  float *m = (float *)a->m.data + first, *v = (float *)a->v.data + first;
  mk_dtype dtype = copy == COPY_BF16 ? MK_BF16 : MK_F32;
  void *compute = copy != COPY_NONE ? mk_at(a->compute.data, dtype, first) : NULL;
  float b1 = a->beta1, b2 = a->beta2, c1 = (float)(1.0 - (double)b1), c2 = (float)(1.0 - (double)b2), eps = a->eps;
  float clip = run->clip, decay = run->decay, step = run->step, root = run->root;
#pragma omp simd
  for (int64_t i = 0; i < count; i++) {
    float g = grad[i] * clip;
    float new_m = b1 * m[i] + c1 * g;
    float new_v = b2 * v[i] + c2 * g * g;
    float p = main[i] * decay - step * new_m / (sqrtf(new_v) * root + eps);
    m[i] = new_m;
    v[i] = new_v;
    main[i] = p;
    if (copy != COPY_NONE) mk_put(compute, dtype, i, p);
    if (clear) grad[i] = 0.0f;
  }
}

MK_INLINE void update_copy(const adamw_run *run, copy_kind copy, int64_t first, int64_t count) {
  if (run->a->clear_grad) {
    update_leaf(run, copy, true, first, count);
  } else {
    update_leaf(run, copy, false, first, count);
  }
}

MK_VECTOR static void update_range(const void *args, int64_t first, int64_t count) {
  const adamw_run *run = args;
  switch (run->copy) {
    case COPY_NONE:
      update_copy(run, COPY_NONE, first, count);
      break;
    case COPY_F32:
      update_copy(run, COPY_F32, first, count);
      break;
    case COPY_BF16:
      update_copy(run, COPY_BF16, first, count);
      break;
  }
}

static void clear_range(const void *args, int64_t first, int64_t count) {
  const adamw_run *run = args;
  memset((float *)run->a->grad.data + first, 0, (size_t)count * sizeof(float));
}

static copy_kind copy_of(const mk_adamw_args *a) {
  if (!mk_tensor_present(&a->compute) || a->compute.data == a->main.data) return COPY_NONE;
  return a->compute.dtype == MK_BF16 ? COPY_BF16 : COPY_F32;
}

mk_status mk_adamw_cpu(mk_stream *stream, const void *args) {
  const mk_adamw_args *a = args;
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_adamw, a->main.dtype));
  if (mk_tensor_present(&a->compute)) {
    MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_adamw, a->compute.dtype));
  }
  mk_adamw_factors f = mk_adamw_factors_of(a, a->state.data);
  adamw_run run = {.a = a,
                   .clip = (float)f.clip,
                   .decay = (float)f.decay,
                   .step = (float)f.step,
                   .root = (float)f.root,
                   .copy = copy_of(a)};
  int64_t count = mk_tensor_count(&a->main);
  if (!f.skip) mk_cpu_ranges(count, GRAIN, update_range, &run);
  if (f.skip && a->clear_grad) mk_cpu_ranges(count, GRAIN, clear_range, &run);
  return MK_OK;
}
