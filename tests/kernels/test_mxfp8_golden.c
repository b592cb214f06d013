/* MXFP8 against stored vectors (tests/golden/data/m1-mxfp8, made by tests/golden/make/make_m1-mxfp8.py): scale bytes,
 * element bytes and values of 128 blocks by exact rational arithmetic, under both rules, as rows and as columns; and
 * the single casts of gfloat. Blocks that are not finite have scale byte 255 and 0x7F throughout there as well. */
#include <math.h>

#include "tests/support/bench.h"
#include "tests/support/check_main.h"
#include "tests/support/files.h"
#include "trainer/checkpoint/safetensors.h"

enum { BLOCKS = 128, K = 32, CASTS = 322 };

typedef struct golden {
  mk_context ctx;
  mt_st_reader *file;
} golden;

static void open_golden(golden *g) {
  *g = (golden){0};
  test_must(&g->ctx, mt_st_reader_create(&g->ctx, GOLDEN_DATA "/m1-mxfp8/golden.safetensors", &g->file), "open");
}

static void get(golden *g, const char *name, mk_dtype as, int64_t count, void *out) {
  const mt_st_tensor *t = mt_st_reader_find(g->file, name);
  ck_assert_msg(t != NULL && t->count == count, "%s is missing or of another size", name);
  test_must(&g->ctx, mt_st_reader_get(g->file, t, 0, count, as, out), name);
}

static const char *const rules[] = {[MK_MXFP8_RCEIL] = "rceil", [MK_MXFP8_FLOOR] = "floor"};

typedef struct bytes {
  uint8_t scale[BLOCKS], q[BLOCKS * K];
  float back[BLOCKS * K];
} bytes;

/* Blocks as rows of [128,32], or as columns of [32,128] with a transposed output. */
static void quantise(const char *device, const float *x, int rule, bool columns, bytes *out) {
  const mk_device_config config = {.name = device, .threads = 2};
  static float turned[BLOCKS * K];
  test_bench b;
  for (int i = 0; i < BLOCKS * K; i++)
    turned[i % K * BLOCKS + i / K] = x[i];
  test_bench_open(&b, &config, 1, false);
  mk_mxfp8 shape = mk_mxfp8_shape(0, BLOCKS, K);
  mk_tensor form = columns ? mk_tensor_2d(MK_F32, K, BLOCKS) : mk_tensor_2d(MK_F32, BLOCKS, K);
  mk_mxfp8_quantize_args a = {.x = test_bytes(&b, "x", TEST_IN, form, columns ? turned : x),
                              .out = {test_output(&b, "q", shape.q), test_output(&b, "scale", shape.scale)},
                              .rule = rule,
                              .transpose = columns};
  mk_mxfp8_dequantize_args back = {.x = a.out, .y = test_output(&b, "y", mk_tensor_2d(MK_F32, BLOCKS, K))};
  test_ok(&b, mk_mxfp8_quantize(b.stream, &a), "quantize");
  test_ok(&b, mk_mxfp8_dequantize(b.stream, &back), "dequantize");
  test_read_bytes(&b, &a.out.q, out->q);
  test_read_bytes(&b, &a.out.scale, out->scale);
  test_read_bytes(&b, &back.y, out->back);
  test_bench_close(&b);
}

/* _i: device (2) x rule (2) x orientation (2). */
START_TEST(blocks) {
  static const char *const devices[] = {"ref", "cpu"};
  static float x[BLOCKS * K];
  static bytes want, got;
  const char *device = devices[_i & 1];
  int rule = _i >> 1 & 1, columns = _i >> 2;
  char name[64];
  golden g;
  open_golden(&g);
  get(&g, "input", MK_F32, BLOCKS * K, x);
  snprintf(name, sizeof name, "exact_%s/scale", rules[rule]);
  get(&g, name, MK_U8, BLOCKS, want.scale);
  snprintf(name, sizeof name, "exact_%s/q", rules[rule]);
  get(&g, name, MK_U8, BLOCKS * K, want.q);
  snprintf(name, sizeof name, "exact_%s/dequant", rules[rule]);
  get(&g, name, MK_F32, BLOCKS * K, want.back);
  mt_st_reader_destroy(g.file);
  quantise(device, x, rule, columns == 1, &got);
  for (int row = 0; row < BLOCKS; row++) {
    ck_assert_msg(got.scale[row] == want.scale[row], "%s %s block %d: scale byte %d, expected %d", device, rules[rule],
                  row, got.scale[row], want.scale[row]);
  }
  for (int i = 0; i < BLOCKS * K; i++) {
    ck_assert_msg(got.q[i] == want.q[i], "%s %s block %d element %d (%.9g): byte %02x, expected %02x", device,
                  rules[rule], i / K, i % K, (double)x[i], got.q[i], want.q[i]);
    ck_assert_msg(got.back[i] == want.back[i] || (isnan(got.back[i]) && isnan(want.back[i])),
                  "%s %s block %d element %d: value %.9g, expected %.9g", device, rules[rule], i / K, i % K,
                  (double)got.back[i], (double)want.back[i]);
  }
}
END_TEST

/* Single casts of numbers up to 448 go through a block with 448 in it, whose scale is 1. */
START_TEST(casts) {
  static const char *const devices[] = {"ref", "cpu"};
  static float value[CASTS];
  static uint8_t want[CASTS];
  golden g;
  open_golden(&g);
  get(&g, "cast/input", MK_F32, CASTS, value);
  get(&g, "cast/gfloat_sat", MK_U8, CASTS, want);
  mt_st_reader_destroy(g.file);
  int checked = 0;
  for (int first = 0; first < CASTS; first += BLOCKS) {
    static float x[BLOCKS * K];
    static bytes got;
    for (int row = 0; row < BLOCKS; row++) {
      float v = first + row < CASTS ? value[first + row] : 0;
      for (int i = 0; i < K; i++)
        x[row * K + i] = i == 0 && fabsf(v) <= 448 ? v : 448;
    }
    quantise(devices[_i], x, MK_MXFP8_RCEIL, false, &got);
    for (int row = 0; row < BLOCKS && first + row < CASTS; row++) {
      float v = value[first + row];
      if (!(fabsf(v) <= 448)) continue;
      ck_assert_msg(got.q[row * K] == want[first + row], "%s: %.9g: byte %02x, expected %02x", devices[_i], (double)v,
                    got.q[row * K], want[first + row]);
      checked++;
    }
  }
  ck_assert_int_gt(checked, 300);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("mxfp8_golden");
  TCase *tcase = tcase_create("mxfp8_golden");
  tcase_add_loop_test(tcase, blocks, 0, 8);
  tcase_add_loop_test(tcase, casts, 0, 2);
  suite_add_tcase(suite, tcase);
  return test_main(suite);
}
