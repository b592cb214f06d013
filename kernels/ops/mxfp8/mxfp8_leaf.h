/* MXFP8 in bits, for the fast CPU kernels: branch-free, so that loops vectorise. */
#ifndef KERNELS_OPS_MXFP8_MXFP8_LEAF_H
#define KERNELS_OPS_MXFP8_MXFP8_LEAF_H

#include "kernels/device/cpu/vector.h"
#include "kernels/ops/mxfp8/mxfp8.h"

enum { MK_MXFP8_NAN_SCALE = 255, MK_MXFP8_NAN = 0x7F };

MK_INLINE uint32_t mk_f32_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* Scale byte from the bits of the largest magnitude; 448 = 1.75 * 2^8. Subnormals fall below byte 0 and are clamped. */
MK_INLINE uint32_t mk_mxfp8_scale_byte(uint32_t amax, bool rceil) {
  int32_t byte = (int32_t)(amax >> 23) - 8 + (rceil && (amax & 0x7fffffu) > 0x600000u ? 1 : 0);
  byte = byte < 0 ? 0 : byte;
  return amax >= 0x7f800000u ? MK_MXFP8_NAN_SCALE : (uint32_t)byte;
}

/* 2^(127 - byte), what elements are multiplied with; bytes of finite blocks end at 247. */
MK_INLINE float mk_mxfp8_inverse(uint32_t byte) { return mk_bits_to_f32((254u - (byte > 253 ? 253 : byte)) << 23); }

/* 2^(byte - 127); NaN for 255. */
MK_INLINE float mk_mxfp8_scale(uint8_t byte) {
  uint32_t bits = byte == 0 ? 0x400000u : byte == MK_MXFP8_NAN_SCALE ? 0x7fc00000u : (uint32_t)byte << 23;
  return mk_bits_to_f32(bits);
}

/* To nearest even, saturating. Below 2^-6, the smallest normal number, adding 2^14 leaves the value in units of 2^-9 in
 * the low bits; eight of them are the code of 2^-6. */
MK_INLINE uint32_t mk_mxfp8_encode(float value) {
  uint32_t bits = mk_f32_bits(value), sign = bits >> 24 & 0x80u, size = bits & 0x7fffffffu;
  size = size > 0x43e00000u ? 0x43e00000u : size;                         /* 448 */
  uint32_t normal = ((size + 0x7ffffu + (size >> 20 & 1u)) >> 20) - 960u; /* bias 127 -> 7, three bits kept */
  uint32_t subnormal = mk_f32_bits(mk_bits_to_f32(size) + 16384.0f) - 0x46800000u;
  return sign | (size < 0x3c800000u ? subnormal : normal);
}

MK_INLINE float mk_mxfp8_decode(uint32_t code) {
  uint32_t size = code & 0x7fu;
  float normal = mk_bits_to_f32((size << 20) + (120u << 23));
  float value = size < 8 ? (float)(int32_t)size * 0x1p-9f : normal;
  value = size == 0x7f ? mk_bits_to_f32(0x7fc00000u) : value;
  return mk_bits_to_f32(mk_f32_bits(value) | (code & 0x80u) << 24);
}

#endif
