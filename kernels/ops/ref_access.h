/* Element access in FP64 for the reference kernels, which run in any dtype. */
#ifndef KERNELS_OPS_REF_ACCESS_H
#define KERNELS_OPS_REF_ACCESS_H

#include "kernels/base/tensor.h"

/* Element i of the flattened tensor as a double. */
static inline double mk_ref_get(const mk_tensor *t, int64_t i) {
  switch (t->dtype) {
    case MK_F32: return ((const float *)t->data)[i];
    case MK_BF16: return mk_bf16_to_f32(((const mk_bf16 *)t->data)[i]);
    case MK_F64: return ((const double *)t->data)[i];
    case MK_I32: return ((const int32_t *)t->data)[i];
    case MK_I64: return (double)((const int64_t *)t->data)[i];
    default: return ((const uint8_t *)t->data)[i];
  }
}

/* Stores `value` rounded to the tensor's dtype (BF16 through FP32). */
static inline void mk_ref_set(const mk_tensor *t, int64_t i, double value) {
  switch (t->dtype) {
    case MK_F32: ((float *)t->data)[i] = (float)value; break;
    case MK_BF16: ((mk_bf16 *)t->data)[i] = mk_f32_to_bf16((float)value); break;
    case MK_F64: ((double *)t->data)[i] = value; break;
    case MK_I32: ((int32_t *)t->data)[i] = (int32_t)value; break;
    case MK_I64: ((int64_t *)t->data)[i] = (int64_t)value; break;
    default: ((uint8_t *)t->data)[i] = (uint8_t)value; break;
  }
}

static inline void mk_ref_add(const mk_tensor *t, int64_t i, double value) {
  mk_ref_set(t, i, mk_ref_get(t, i) + value);
}

#endif
