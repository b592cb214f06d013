/* Sums in rank order: exact integers in every dtype, order, rounding, NaN, aliasing; and the shared-memory check. */
#include <math.h>
#include <string.h>

#include "tests/support/check_main.h"
#include "trainer/comm/reduce.h"
#include "trainer/comm/shm.h"

enum { RANKS = 5, MAX_N = 2500 };

static int value(int rank, int64_t i) { return (int)((rank * 7 + i * 3) % 11) - 5; }

static void put(mk_dtype dtype, void *data, int64_t i, double x) {
  switch (dtype) {
    case MK_F32:
      ((float *)data)[i] = (float)x;
      break;
    case MK_F64:
      ((double *)data)[i] = x;
      break;
    case MK_I32:
      ((int32_t *)data)[i] = (int32_t)x;
      break;
    case MK_I64:
      ((int64_t *)data)[i] = (int64_t)x;
      break;
    default:
      ((mk_bf16 *)data)[i] = mk_f32_to_bf16((float)x);
      break;
  }
}

static double get(mk_dtype dtype, const void *data, int64_t i) {
  switch (dtype) {
    case MK_F32:
      return ((const float *)data)[i];
    case MK_F64:
      return ((const double *)data)[i];
    case MK_I32:
      return ((const int32_t *)data)[i];
    case MK_I64:
      return (double)((const int64_t *)data)[i];
    default:
      return mk_bf16_to_f32(((const mk_bf16 *)data)[i]);
  }
}

static const mk_dtype dtypes[] = {MK_F32, MK_BF16, MK_F64, MK_I32, MK_I64};
static const int64_t counts[] = {0, 1, 1023, 1024, 1025, MAX_N};

/* `into` = the source that is also the output; -1 = none. */
static void check_exact(mk_dtype dtype, mt_reduce op, int n_ranks, int64_t n, int into) {
  static double memory[RANKS + 1][MAX_N];
  const void *source[RANKS];
  for (int r = 0; r < n_ranks; r++) {
    for (int64_t i = 0; i < n; i++)
      put(dtype, memory[r], i, value(r, i));
    source[r] = memory[r];
  }
  void *out = into >= 0 ? memory[into] : memory[RANKS];
  mt_reduce_ranks(dtype, op, source, n_ranks, out, n);
  for (int64_t i = 0; i < n; i++) {
    double want = value(0, i);
    for (int r = 1; r < n_ranks; r++)
      want = op == MT_SUM ? want + value(r, i) : fmax(want, value(r, i));
    ck_assert_msg(get(dtype, out, i) == want, "%s op %d ranks %d n %lld into %d index %lld: %g, expected %g",
                  mk_dtype_name(dtype), (int)op, n_ranks, (long long)n, into, (long long)i, get(dtype, out, i), want);
  }
}

START_TEST(integers_are_exact) {
  for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
    for (int ranks = 1; ranks <= RANKS; ranks++) {
      for (int into = -1; into < ranks; into++) {
        check_exact(dtypes[_i], MT_SUM, ranks, counts[c], into);
        check_exact(dtypes[_i], MT_MAX, ranks, counts[c], into);
      }
    }
  }
}
END_TEST

/* (1e8 + 3) + -1e8 = 0 but 1e8 + (3 + -1e8) = 0 or 8 in FP32: the order shows. */
START_TEST(order_is_rank_order) {
  float a = 1e8f, b = 3.0f, c = -1e8f, out = 0;
  const void *abc[] = {&a, &b, &c}, *acb[] = {&a, &c, &b};
  mt_reduce_ranks(MK_F32, MT_SUM, abc, 3, &out, 1);
  ck_assert_float_eq(out, 0.0f);
  mt_reduce_ranks(MK_F32, MT_SUM, acb, 3, &out, 1);
  ck_assert_float_eq(out, 3.0f);
}
END_TEST

/* 256 + 1 + 1 = 258 with one rounding; rounding every sum gives 256 (257 is a tie to even). */
START_TEST(bf16_rounds_once) {
  mk_bf16 big = mk_f32_to_bf16(256), one = mk_f32_to_bf16(1), out = 0;
  const void *source[] = {&big, &one, &one};
  mt_reduce_ranks(MK_BF16, MT_SUM, source, 3, &out, 1);
  ck_assert_float_eq(mk_bf16_to_f32(out), 258.0f);
}
END_TEST

START_TEST(max_keeps_nan) {
  float nan_first[2] = {NAN, 1}, nan_second[2] = {1, NAN}, out[2];
  const void *source[] = {nan_first, nan_second};
  mt_reduce_ranks(MK_F32, MT_MAX, source, 2, out, 2);
  ck_assert(isnan(out[0]) && isnan(out[1]));
}
END_TEST

START_TEST(shared_memory_shortage_is_explained) {
  mk_context ctx = {0};
  ck_assert_int_eq(mt_shm_check(&ctx, "window", 100, 100), MK_OK);
  ck_assert_int_eq(mt_shm_check(&ctx, "window", 8388608, 4096), MK_ERR_MEMORY);
  ck_assert_ptr_nonnull(strstr(ctx.error.message, "4096 bytes free but 8388608 are needed"));
  ck_assert_ptr_nonnull(strstr(ctx.error.message, "--shm-size"));
  ck_assert_uint_gt(mt_shm_free_bytes(), 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("reduce");
  TCase *tc = tcase_create("ranks");
  tcase_add_loop_test(tc, integers_are_exact, 0, (int)(sizeof dtypes / sizeof dtypes[0]));
  tcase_add_test(tc, order_is_rank_order);
  tcase_add_test(tc, bf16_rounds_once);
  tcase_add_test(tc, max_keeps_nan);
  tcase_add_test(tc, shared_memory_shortage_is_explained);
  suite_add_tcase(suite, tc);
  return test_main(suite);
}
