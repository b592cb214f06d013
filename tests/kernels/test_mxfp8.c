/* MXFP8 quantise and dequantise: conformance, the cases that libraries got wrong, every BF16 scale, every code, the
 * swizzled layout. Bytes of other systems: test_mxfp8_golden.c. */
#include <math.h>
#include <string.h>

#include "tests/support/check_main.h"
#include "tests/support/conformance.h"

enum { PLAIN, TURNED, ROWS, KINDS, RULES = 2, NAN_CODE = 0x7F, MANY = 32640 };

static mk_mxfp8 output(test_bench *b, int64_t groups, int64_t n, int64_t k) {
  mk_mxfp8 m = mk_mxfp8_shape(groups, n, k);
  return (mk_mxfp8){.q = test_output(b, "q", m.q), .scale = test_output(b, "scale", m.scale)};
}

/* dim: groups (0: a matrix), N, K. Values of many sizes, so that blocks differ and subnormal codes occur. */
static mk_status launch_quantize(test_bench *b, const conf_point *p) {
  int64_t groups = p->dim[0], n = p->dim[1], k = p->dim[2];
  int kind = p->variant / RULES;
  mk_tensor shape = groups > 0 ? mk_tensor_3d(p->dtype, groups, n, k) : mk_tensor_2d(p->dtype, n, k);
  static double values[MANY];
  for (int64_t i = 0; i < mk_tensor_count(&shape); i++)
    values[i] = ldexp(test_normal(7, 1, (uint64_t)i), (int)(i * 7 % 23) - 15);
  mk_mxfp8_quantize_args a = {
      .x = test_values(b, "x", TEST_IN, shape, values), .rule = p->variant % RULES, .transpose = kind == TURNED};
  a.out = output(b, groups, kind == TURNED ? k : n, kind == TURNED ? n : k);
  if (kind == ROWS && groups == 0) {
    const double valid = (double)(n / 2);
    a.rows = test_values(b, "rows", TEST_IN, mk_tensor_1d(MK_I32, 1), &valid);
  }
  return mk_mxfp8_quantize(b->stream, &a);
}

/* dim: N, K. Bytes are given; every finite code, scales around 1. */
static mk_status launch_dequantize(test_bench *b, const conf_point *p) {
  mk_mxfp8 m = mk_mxfp8_shape(0, p->dim[0], p->dim[1]);
  mk_mxfp8_dequantize_args a = {.y = test_output(b, "y", mk_tensor_2d(p->dtype, p->dim[0], p->dim[1]))};
  a.x.q = test_integers(b, "q", TEST_IN, m.q, 0, 126);
  a.x.scale = test_integers(b, "scale", TEST_IN, m.scale, 100, 150);
  if (p->variant == 1) {
    const double valid = (double)(p->dim[0] / 2);
    a.rows = test_values(b, "rows", TEST_IN, mk_tensor_1d(MK_I32, 1), &valid);
  }
  return mk_mxfp8_dequantize(b->stream, &a);
}

static const conf_case cases[] = {
    {.name = "mxfp8_quantize",
     .launch = launch_quantize,
     .shapes = {{0, 1, 1}, {0, 3, 31}, {0, 70, 33}, {0, 64, 128}, {2, 33, 70}, {3, 32, 64}, {0, 0, 32}, {0, 130, 200}},
     .n_shapes = 8,
     .variants = KINDS * RULES},
    {.name = "mxfp8_dequantize",
     .launch = launch_dequantize,
     .shapes = {{1, 1}, {3, 31}, {70, 33}, {64, 128}, {0, 32}},
     .n_shapes = 5,
     .variants = 2},
};

CONF_TEST(cases)

/* ---- one matrix on one device ---- */

typedef struct quantised {
  uint8_t q[MANY], scale[MANY];
  double back[MANY]; /* dequantised, as a matrix [n,k] also when transposed */
} quantised;

static const char *const devices[] = {"ref", "cpu"};

/* x [n,k] on `device`; transposed: blocks along n, out and back are [k,n]. */
static void quantise(const char *device, const double *x, int64_t n, int64_t k, int rule, bool transpose,
                     quantised *out) {
  const mk_device_config config = {.name = device, .threads = 2};
  test_bench b;
  test_bench_open(&b, &config, 1, false);
  int64_t rows = transpose ? k : n, cols = transpose ? n : k;
  mk_mxfp8_quantize_args a = {.x = test_values(&b, "x", TEST_IN, mk_tensor_2d(MK_F32, n, k), x),
                              .out = output(&b, 0, rows, cols),
                              .rule = rule,
                              .transpose = transpose};
  mk_mxfp8_dequantize_args back = {.x = a.out, .y = test_output(&b, "y", mk_tensor_2d(MK_F32, rows, cols))};
  test_ok(&b, mk_mxfp8_quantize(b.stream, &a), "quantize");
  test_ok(&b, mk_mxfp8_dequantize(b.stream, &back), "dequantize");
  test_read_bytes(&b, &a.out.q, out->q);
  test_read_bytes(&b, &a.out.scale, out->scale);
  test_read(&b, &back.y, out->back);
  test_bench_close(&b);
}

/* Scale bytes of blocks with one largest magnitude: failure case Q-01, and the values of the format's tables. */
START_TEST(scale_rules) {
  static const struct {
    double amax;
    int rceil, floor;
  } rows[] = {
      {0, 0, 0},       {1, 119, 119},   {1.75, 119, 119}, {1.7578125, 120, 119}, {150, 126, 126},
      {225, 127, 126}, {448, 127, 127}, {449, 128, 127},  {500, 128, 127},       {512, 128, 128},
  };
  enum { N = sizeof rows / sizeof rows[0], K = 5 };
  static quantised got;
  double x[N * K] = {0};
  for (int i = 0; i < N; i++)
    x[i * K + i % K] = i % 2 == 0 ? rows[i].amax : -rows[i].amax;
  for (int rule = 0; rule < RULES; rule++) {
    quantise(devices[_i], x, N, K, rule, false, &got);
    for (int i = 0; i < N; i++) {
      int want = rule == MK_MXFP8_RCEIL ? rows[i].rceil : rows[i].floor;
      ck_assert_msg(got.scale[i] == want, "%s: amax %g rule %d: scale byte %d, expected %d", devices[_i], rows[i].amax,
                    rule, got.scale[i], want);
    }
  }
}
END_TEST

/* Every positive finite BF16 number as the largest of its block: the smallest power of two that holds it. */
START_TEST(every_bf16_scale) {
  static quantised got;
  static double x[MANY];
  for (int i = 1; i < MANY; i++)
    x[i] = (double)mk_bf16_to_f32((mk_bf16)i);
  quantise(devices[_i], x, MANY, 1, MK_MXFP8_RCEIL, false, &got);
  for (int i = 1; i < MANY; i++) {
    int s = -127;
    while (448 * ldexp(1, s) < x[i])
      s++;
    ck_assert_msg(got.scale[i] == s + 127, "%s: bf16 bits %04x (%g): scale byte %d, expected %d", devices[_i], i, x[i],
                  got.scale[i], s + 127);
    ck_assert_int_ne(got.q[i], NAN_CODE);
  }
}
END_TEST

/* roundings below and around the smallest normal number under scale 1, which 448 in the block fixes. */
START_TEST(subnormal_codes) {
  static const struct {
    double x;
    int code;
  } rows[] = {
      {448, 0x7E},       {0x1p-9, 1},           {0x1p-10, 0},       {0.75 * 0x1p-9, 1},
      {1.5 * 0x1p-9, 2}, {2.5 * 0x1p-9, 2},     {0x1p-6, 8},        {7.5 * 0x1p-9, 8},
      {-0x1p-9, 0x81},   {-0.0, 0x80},          {1 + 0x1p-4, 0x38}, {1 + 3 * 0x1p-4, 0x3A},
      {-1e-30, 0x80},    {1.0001 * 0x1p-10, 1}, {440, 0x7E},
  };
  enum { N = sizeof rows / sizeof rows[0] };
  static quantised got;
  double x[N];
  for (int i = 0; i < N; i++)
    x[i] = rows[i].x;
  quantise(devices[_i], x, 1, N, MK_MXFP8_RCEIL, false, &got);
  ck_assert_int_eq(got.scale[0], 127);
  for (int i = 0; i < N; i++) {
    ck_assert_msg(got.q[i] == rows[i].code, "%s: %.9g: code %02x, expected %02x", devices[_i], x[i], got.q[i],
                  rows[i].code);
  }
}
END_TEST

/* All 254 codes that are numbers survive the way there and back, both zeros included. */
START_TEST(codes_round_trip) {
  static quantised got;
  double x[256 * 2], value[256]; /* a code a row, and 448, which fixes the scale of its block */
  int count = 0;
  for (int code = 0; code < 256; code++) {
    int size = code & 0x7F;
    value[code] = size < 8 ? ldexp(size, -9) : ldexp(8 + (size & 7), (size >> 3) - 10);
    if (code >= 128) value[code] = -value[code];
  }
  for (int code = 0; code < 256; code++) {
    if ((code & 0x7F) == NAN_CODE) continue;
    x[count * 2] = value[code];
    x[count * 2 + 1] = 448;
    count++;
  }
  for (int rule = 0; rule < RULES; rule++) {
    quantise(devices[_i], x, count, 2, rule, false, &got);
    for (int i = 0, code = 0; code < 256; code++) {
      if ((code & 0x7F) == NAN_CODE) continue;
      ck_assert_msg(got.q[2 * i] == code, "%s: value %g: code %02x, expected %02x", devices[_i], x[2 * i], got.q[2 * i],
                    code);
      ck_assert(got.back[2 * i] == x[2 * i] && !signbit(got.back[2 * i]) == !signbit(x[2 * i]));
      i++;
    }
  }
}
END_TEST

/* under the floor rule large finite numbers saturate; neither rule makes a NaN of a finite number. */
START_TEST(finite_saturates) {
  static const double tops[] = {448, 464, 480, 511.99, 1e30, -1e30, 3.4028234e38, -480};
  enum { N = sizeof tops / sizeof tops[0] };
  static quantised got;
  for (int rule = 0; rule < RULES; rule++) {
    quantise(devices[_i], tops, N, 1, rule, false, &got);
    for (int i = 0; i < N; i++)
      ck_assert_msg((got.q[i] & 0x7F) != NAN_CODE, "%s: %g became NaN", devices[_i], tops[i]);
    if (rule != MK_MXFP8_FLOOR) continue;
    for (int i = 0; i < 4; i++) /* 448 to 512 have the scale 1 */
      ck_assert_msg(got.q[i] == 0x7E && got.scale[i] == 127, "%s: %g: code %02x, expected 7e", devices[_i], tops[i],
                    got.q[i]);
    ck_assert_int_eq(got.q[7], 0xFE);
  }
}
END_TEST

/* zeros come back as zeros with their signs; the smallest scale is exact both ways. */
START_TEST(zeros_and_smallest_scale) {
  enum { N = 6, K = 3 };
  static const double x[N * K] = {0,        0, 0,         -0.0,           -0.0,     -0.0, 0x1p-127, 0, 0x1p-127,
                                  0x1p-126, 0, -0x1p-126, 448 * 0x1p-127, 0x1p-127, 0,    1,        0, -1};
  static quantised got;
  for (int rule = 0; rule < RULES; rule++) {
    quantise(devices[_i], x, N, K, rule, false, &got);
    for (int i = 0; i < N * K; i++) {
      ck_assert_msg(got.back[i] == x[i] && !signbit(got.back[i]) == !signbit(x[i]), "%s: [%d] %g came back as %g",
                    devices[_i], i, x[i], got.back[i]);
    }
    for (int row = 0; row < 5; row++)
      ck_assert_int_eq(got.scale[row], 0);
  }
}
END_TEST

/* a block with something that is not a number is all NaN, its neighbours are not; the same along both axes. */
START_TEST(not_finite) {
  static const double bad[] = {INFINITY, -INFINITY, NAN};
  enum { N = 64, K = 64 };
  static quantised got;
  static double x[N * K];
  for (int what = 0; what < 3 * 2 * RULES; what++) {
    bool turned = what % 2 == 1;
    for (int i = 0; i < N * K; i++)
      x[i] = test_normal(3, 1, (uint64_t)i);
    x[5 * K + 40] = bad[what / 2 % 3];
    quantise(devices[_i], x, N, K, what / 6, turned, &got);
    for (int i = 0; i < N * K; i++) {
      int row = turned ? i % N : i / K, col = turned ? i / N : i % K; /* in x */
      bool hit = turned ? col == 40 && row < 32 : row == 5 && col >= 32;
      ck_assert_msg((got.q[i] == NAN_CODE) == hit && isnan(got.back[i]) == hit, "%s: x[%d,%d]%s: code %02x",
                    devices[_i], row, col, turned ? " transposed" : "", got.q[i]);
    }
  }
}
END_TEST

/* one large entry spoils the block that is summed over, no other. Under 2^20 a one is lost. */
START_TEST(blocks_along_the_sum) {
  enum { N = 96, K = 64 };
  static quantised got;
  static double x[N * K];
  for (int i = 0; i < N * K; i++)
    x[i] = i == 0 ? 0x1p20 : 1;
  for (int turned = 0; turned < 2; turned++) {
    quantise(devices[_i], x, N, K, MK_MXFP8_RCEIL, turned == 1, &got);
    for (int i = 0; i < N * K; i++) {
      int row = turned ? i % N : i / K, col = turned ? i / N : i % K;
      bool lost = (turned ? col == 0 && row < 32 : row == 0 && col < 32) && i != 0;
      ck_assert_msg(got.back[i] == (lost ? 0 : x[row * K + col]), "%s: x[%d,%d]%s came back as %g", devices[_i], row,
                    col, turned ? " transposed" : "", got.back[i]);
    }
  }
}
END_TEST

START_TEST(swizzle) {
  static const int64_t rows[][4] = {/* row, block, blocks, place */
                                    {0, 0, 4, 0},   {1, 0, 4, 16},     {32, 0, 4, 4},   {127, 3, 4, 511},
                                    {0, 4, 8, 512}, {128, 0, 8, 1024}, {33, 5, 6, 533}, {128, 0, 1, 512}};
  enum { N = 300, BLOCKS = 7, PLACES = 3 * 2 * 512 };
  static bool taken[PLACES];
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    ck_assert_int_eq(mk_mxfp8_swizzled(rows[i][0], rows[i][1], rows[i][2]), rows[i][3]);
  for (int row = 0; row < N; row++) {
    for (int block = 0; block < BLOCKS; block++) {
      int64_t place = mk_mxfp8_swizzled(row, block, BLOCKS);
      ck_assert(place >= 0 && place < PLACES && !taken[place]);
      taken[place] = true;
    }
  }
}
END_TEST

START_TEST(refused) {
  const mk_device_config config = {.name = "cpu"};
  test_bench b;
  test_bench_open(&b, &config, 1, false);
  mk_mxfp8_quantize_args good = {.x = test_random(&b, "x", TEST_IN, mk_tensor_2d(MK_F32, 4, 40), 0, 1),
                                 .out = output(&b, 0, 4, 40)};
  const double four = 4;
  mk_tensor rows = test_values(&b, "rows", TEST_IN, mk_tensor_1d(MK_I32, 1), &four);
  mk_mxfp8_quantize_args bad[] = {good, good, good, good};
  bad[0].out.scale.dim[1] = 1; /* 40 columns have two blocks */
  bad[1].transpose = 1;        /* the output is not [40,4] */
  bad[2].rule = 2;
  bad[3].rows = rows;
  bad[3].transpose = 1;
  test_ok(&b, mk_mxfp8_quantize(b.stream, &good), "quantize");
  for (int i = 0; i < 4; i++) {
    mk_error_clear(&b.ctx);
    ck_assert_msg(mk_mxfp8_quantize(b.stream, &bad[i]) == MK_ERR_ARG, "bad call %d was taken", i);
  }
  mk_error_clear(&b.ctx);
  test_bench_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("mxfp8");
  TCase *tcase = test_case(suite, "mxfp8", 300);
  CONF_ADD(tcase, cases);
  tcase_add_loop_test(tcase, scale_rules, 0, 2);
  tcase_add_loop_test(tcase, every_bf16_scale, 0, 2);
  tcase_add_loop_test(tcase, subnormal_codes, 0, 2);
  tcase_add_loop_test(tcase, codes_round_trip, 0, 2);
  tcase_add_loop_test(tcase, finite_saturates, 0, 2);
  tcase_add_loop_test(tcase, zeros_and_smallest_scale, 0, 2);
  tcase_add_loop_test(tcase, not_finite, 0, 2);
  tcase_add_loop_test(tcase, blocks_along_the_sum, 0, 2);
  tcase_add_test(tcase, swizzle);
  tcase_add_test(tcase, refused);
  return test_main(suite);
}
