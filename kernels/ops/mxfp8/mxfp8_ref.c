/* MXFP8, reference: the rules as they are written, in FP64, one element after the other. */
#include "kernels/ops/mxfp8/mxfp8.h"
#include "kernels/ops/mxfp8/mxfp8_values.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/ref_access.h"
#include "kernels/ops/valid_rows.h"

enum { LARGEST = 448, SMALLEST_EXPONENT = -127, LARGEST_EXPONENT = 127, NAN_SCALE = 255, NAN_ELEMENT = 0x7F };

/* Byte of the scale of a block whose largest magnitude is amax. */
static uint8_t scale_of(double amax, int32_t rule) {
  if (!isfinite(amax)) return NAN_SCALE;
  if (amax == 0) return 0;
  int exponent;
  frexp(amax, &exponent); /* amax in [2^(exponent-1), 2^exponent) */
  int s = exponent - 1 - 8;
  if (rule == MK_MXFP8_RCEIL && ldexp(LARGEST, s) < amax) s += 1;
  if (s < SMALLEST_EXPONENT) s = SMALLEST_EXPONENT;
  if (s > LARGEST_EXPONENT) s = LARGEST_EXPONENT;
  return (uint8_t)(s + 127);
}

/* x to the nearest E4M3 number, ties to even; the sign stays also on zero. */
static uint8_t element_of(double x) {
  uint8_t sign = signbit(x) ? 0x80 : 0;
  double size = fmin(fabs(x), LARGEST);
  int exponent = 0;
  if (size > 0) frexp(size, &exponent);
  int unit = exponent - 4 > -9 ? exponent - 4 : -9; /* exponent of the last of the four significant bits */
  double rounded = ldexp(nearbyint(ldexp(size, -unit)), unit);
  if (rounded < 0x1p-6) return sign | (uint8_t)ldexp(rounded, 9);
  frexp(rounded, &exponent);
  return sign | (uint8_t)((exponent + 6) << 3 | ((int)ldexp(rounded, 4 - exponent) & 7));
}

/* Element i of line `line` of one matrix [n,k]: lines are its rows, or its columns when transposed. */
static double line_get(const mk_mxfp8_quantize_args *a, int64_t first, int64_t k, int64_t line, int64_t i) {
  return mk_ref_get(&a->x, first + (a->transpose ? i * k + line : line * k + i));
}

static void quantize_line(const mk_mxfp8_quantize_args *a, int64_t first, int64_t k, int64_t line, int64_t length,
                          uint8_t *q, uint8_t *scale) {
  for (int64_t block = 0; block * MK_MXFP8_BLOCK < length; block++) {
    int64_t begin = block * MK_MXFP8_BLOCK, end = begin + MK_MXFP8_BLOCK < length ? begin + MK_MXFP8_BLOCK : length;
    double amax = 0;
    for (int64_t i = begin; i < end; i++) {
      double size = fabs(line_get(a, first, k, line, i));
      amax = isnan(size) || isnan(amax) ? NAN : fmax(amax, size);
    }
    scale[block] = scale_of(amax, a->rule);
    for (int64_t i = begin; i < end; i++) {
      q[i] = scale[block] == NAN_SCALE ? NAN_ELEMENT
                                       : element_of(ldexp(line_get(a, first, k, line, i), 127 - scale[block]));
    }
  }
}

mk_status mk_mxfp8_quantize_ref(mk_stream *stream, const void *args) {
  const mk_mxfp8_quantize_args *a = args;
  bool stack = a->x.n_dims == 3;
  int64_t groups = stack ? a->x.dim[0] : 1, n = a->x.dim[stack ? 1 : 0], k = a->x.dim[stack ? 2 : 1];
  int64_t lines = a->transpose ? k : mk_valid_rows(&a->rows, n), length = a->transpose ? n : k;
  (void)stream;
  for (int64_t g = 0; g < groups; g++) {
    for (int64_t line = 0; line < lines; line++) {
      int64_t row = g * (a->transpose ? k : n) + line;
      quantize_line(a, g * n * k, k, line, length, (uint8_t *)a->out.q.data + row * length,
                    (uint8_t *)a->out.scale.data + row * mk_mxfp8_blocks(length));
    }
  }
  return MK_OK;
}

mk_status mk_mxfp8_dequantize_ref(mk_stream *stream, const void *args) {
  const mk_mxfp8_dequantize_args *a = args;
  int64_t k = a->y.dim[1];
  (void)stream;
  for (int64_t row = 0; row < mk_valid_rows(&a->rows, a->y.dim[0]); row++) {
    for (int64_t col = 0; col < k; col++)
      mk_ref_set(&a->y, row * k + col, mk_mxfp8_value(&a->x, row, col, k));
  }
  return MK_OK;
}
