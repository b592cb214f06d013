/* Element access in FP64 for the reference kernels, which run in any dtype. */
#ifndef KERNELS_OPS_REF_ACCESS_H
#define KERNELS_OPS_REF_ACCESS_H

#include <math.h>

#include "kernels/base/tensor.h"

/* Element i of the flattened tensor as a double. */
static inline double mk_ref_get(const mk_tensor *t, int64_t i) {
  switch (t->dtype) {
    case MK_F32:
      return ((const float *)t->data)[i];
    case MK_BF16:
      return mk_bf16_to_f32(((const mk_bf16 *)t->data)[i]);
    case MK_F64:
      return ((const double *)t->data)[i];
    case MK_I32:
      return ((const int32_t *)t->data)[i];
    case MK_I64:
      return (double)((const int64_t *)t->data)[i];
    default:
      return ((const uint8_t *)t->data)[i];
  }
}

/* Stores `value` rounded to the tensor's dtype (BF16 through FP32). */
static inline void mk_ref_set(const mk_tensor *t, int64_t i, double value) {
  switch (t->dtype) {
    case MK_F32:
      ((float *)t->data)[i] = (float)value;
      break;
    case MK_BF16:
      ((mk_bf16 *)t->data)[i] = mk_f32_to_bf16((float)value);
      break;
    case MK_F64:
      ((double *)t->data)[i] = value;
      break;
    case MK_I32:
      ((int32_t *)t->data)[i] = (int32_t)value;
      break;
    case MK_I64:
      ((int64_t *)t->data)[i] = (int64_t)value;
      break;
    default:
      ((uint8_t *)t->data)[i] = (uint8_t)value;
      break;
  }
}

static inline void mk_ref_add(const mk_tensor *t, int64_t i, double value) {
  mk_ref_set(t, i, mk_ref_get(t, i) + value);
}

/* log of the sum of exponentials of elements [first, first + n). NaN and +inf give NaN, a row of -inf gives -inf. */
static inline double mk_ref_log_sum_exp(const mk_tensor *t, int64_t first, int64_t n) {
  double max = -INFINITY, sum = 0;
  for (int64_t i = first; i < first + n; i++)
    max = fmax(max, mk_ref_get(t, i));
  double shift = max == -INFINITY ? 0 : max;
  for (int64_t i = first; i < first + n; i++)
    sum += exp(mk_ref_get(t, i) - shift);
  return shift + log(sum);
}

#endif
