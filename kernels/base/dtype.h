/* Element types. BF16 is a rule about values: 8-bit exponent, 7-bit mantissa, round to nearest even. */
#ifndef KERNELS_BASE_DTYPE_H
#define KERNELS_BASE_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum mk_dtype { MK_F32, MK_BF16, MK_F64, MK_I32, MK_I64, MK_U8, MK_DTYPE_COUNT } mk_dtype;

typedef uint16_t mk_bf16;

static inline size_t mk_dtype_bytes(mk_dtype dtype) {
  switch (dtype) {
    case MK_F64:
    case MK_I64:
      return 8;
    case MK_F32:
    case MK_I32:
      return 4;
    case MK_BF16:
      return 2;
    default:
      return 1;
  }
}

static inline const char *mk_dtype_name(mk_dtype dtype) {
  switch (dtype) {
    case MK_F32:
      return "f32";
    case MK_BF16:
      return "bf16";
    case MK_F64:
      return "f64";
    case MK_I32:
      return "i32";
    case MK_I64:
      return "i64";
    case MK_U8:
      return "u8";
    default:
      return "?";
  }
}

static inline float mk_bf16_to_f32(mk_bf16 value) {
  uint32_t bits = (uint32_t)value << 16;
  float out;
  memcpy(&out, &bits, sizeof out);
  return out;
}

/* Round to nearest even; NaN stays NaN (quiet). Branch-free so that loops vectorise. */
static inline mk_bf16 mk_f32_to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  return (mk_bf16)((value != value ? bits | 0x400000u : rounded) >> 16);
}

#endif
