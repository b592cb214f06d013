/* Leaf-loop helpers for the fast CPU kernels: dtype-generic loads and stores, and a vectorisable exponential.
 *
 * A leaf is written once with the dtype as a parameter, marked MK_INLINE, and called with constant dtypes from one
 * MK_VECTOR function, which the compiler clones for x86-64-v4 (AVX-512), v3 (AVX2) and the baseline; the loader picks
 * the clone for the processor:
 *
 *   MK_INLINE void add_leaf(const mk_add_args *a, mk_dtype dtype, int64_t first, int64_t count) {
 *   #pragma omp simd
 *     for (int64_t i = first; i < first + count; i++)
 *       mk_put(a->y.data, dtype, i, mk_get(a->a.data, dtype, i) + mk_get(a->b.data, dtype, i));
 *   }
 *   MK_VECTOR static void add_range(const void *args, int64_t first, int64_t count) {
 *     const mk_add_args *a = args;
 *     if (a->y.dtype == MK_BF16) add_leaf(a, MK_BF16, first, count);
 *     else add_leaf(a, MK_F32, first, count);
 *   }
 *
 * `#pragma omp simd` states that iterations are independent, so that exact aliasing (in place) still vectorises. */
#ifndef KERNELS_DEVICE_CPU_VECTOR_H
#define KERNELS_DEVICE_CPU_VECTOR_H

#include <math.h>

#include "kernels/base/dtype.h"

#define MK_VECTOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define MK_INLINE static inline __attribute__((always_inline))

/* Element i of a row of f32 or bf16 as float; `dtype` is a constant where it is called. */
MK_INLINE float mk_get(const void *row, mk_dtype dtype, int64_t i) {
  return dtype == MK_BF16 ? mk_bf16_to_f32(((const mk_bf16 *)row)[i]) : ((const float *)row)[i];
}

MK_INLINE void mk_put(void *row, mk_dtype dtype, int64_t i, float value) {
  if (dtype == MK_BF16) {
    ((mk_bf16 *)row)[i] = mk_f32_to_bf16(value);
  } else {
    ((float *)row)[i] = value;
  }
}

/* `value` as it reads back after a store in dtype. */
MK_INLINE float mk_round_to(mk_dtype dtype, float value) {
  return dtype == MK_BF16 ? mk_bf16_to_f32(mk_f32_to_bf16(value)) : value;
}

/* Address of element `first` of a row. */
MK_INLINE void *mk_at(const void *data, mk_dtype dtype, int64_t first) {
  return (char *)data + (size_t)first * (dtype == MK_BF16 ? sizeof(mk_bf16) : sizeof(float));
}

MK_INLINE float mk_bits_to_f32(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* e^x with at most 2 ulp of error over the whole range, subnormal results included; inf, 0 and NaN as expf gives them.
 * Branch-free: x = n ln2 + r with |r| <= ln2/2 (Cody and Waite, two-part ln2), e^r by the Cephes degree-5 polynomial
 * around 1 + r, then two scalings by 2^(n/2) so that neither overflows before the result does. */
MK_INLINE float mk_expf(float x) {
  float clamped = x < -104.0f ? -104.0f : x; /* e^-104 rounds to 0, e^89 to inf; NaN passes both */
  clamped = clamped > 89.0f ? 89.0f : clamped;
  const float magic = 0x1.8p23f; /* adding it rounds to an integer in the low mantissa bits */
  float shifted = clamped * 0x1.715476p+0f + magic;
  uint32_t shifted_bits;
  memcpy(&shifted_bits, &shifted, sizeof shifted_bits);
  int32_t n = (int32_t)(shifted_bits - 0x4b400000u);
  float whole = shifted - magic;
  float r = clamped - whole * 0x1.62e400p-1f;
  r = r - whole * 0x1.7f7d1cp-20f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  int32_t half = n >> 1;
  float scale_a = mk_bits_to_f32((uint32_t)(half + 127) << 23);
  float scale_b = mk_bits_to_f32((uint32_t)(n - half + 127) << 23);
  return p * scale_a * scale_b;
}

/* 1 / (1 + e^-x). */
MK_INLINE float mk_sigmoidf(float x) { return 1.0f / (1.0f + mk_expf(-x)); }

#endif
