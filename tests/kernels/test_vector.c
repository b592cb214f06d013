/* The vector helpers: mk_expf against exp in FP64 over the whole range, as the compiler vectorises it. */
#include "kernels/device/cpu/vector.h"

#include "kernels/base/rng.h"
#include "tests/support/check_main.h"

enum { BLOCK = 4096 };

MK_VECTOR static void exp_all(const float *x, float *y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++)
    y[i] = mk_expf(x[i]);
}

/* Distance in units in the last place of `want` rounded to FP32 (of the smallest normal's below it: subnormals). */
static double ulps(float got, double want) {
  float next = nextafterf((float)want, INFINITY);
  double ulp = (double)next - (double)(float)want;
  return fabs((double)got - want) / (ulp > 0 ? ulp : 0x1p-149);
}

static void check_block(const float *x, int64_t count, double *worst) {
  float y[BLOCK];
  exp_all(x, y, count);
  for (int64_t i = 0; i < count; i++) {
    double want = exp((double)x[i]);
    if ((double)(float)want > 3.4028234e38 || want > 3.4028235e38) {
      ck_assert_msg(isinf(y[i]) || ulps(y[i], want) <= 2, "exp(%a): got %a", x[i], y[i]);
      continue;
    }
    double error = ulps(y[i], want);
    ck_assert_msg(error <= 2, "exp(%a): got %a, expected %a: %.2f ulp", x[i], y[i], want, error);
    *worst = fmax(*worst, error);
  }
}

/* Every 997th float between -104 and 88.8, both signs: 2.2 million points. */
START_TEST(exp_within_two_ulp) {
  float x[BLOCK];
  double worst = 0;
  int64_t fill = 0;
  for (uint32_t bits = 0; bits < 0x42d00000u; bits += 997) {
    float value = mk_bits_to_f32(bits);
    x[fill++] = -value;
    if (value < 88.8f) x[fill++] = value;
    if (fill < BLOCK - 2) continue;
    check_block(x, fill, &worst);
    fill = 0;
  }
  check_block(x, fill, &worst);
  ck_assert_msg(worst > 0.4, "no rounding at all (%g ulp) cannot be", worst);
}
END_TEST

START_TEST(exp_special_values) {
  const float x[] = {0.0f,     -0.0f,   INFINITY, -INFINITY, NAN,    88.7228f,
                     88.7229f, 1000.0f, -103.9f,  -104.1f,   -1e30f, 1e30f};
  float y[12];
  exp_all(x, y, 12);
  ck_assert(y[0] == 1 && y[1] == 1);
  ck_assert(isinf(y[2]) && y[3] == 0 && isnan(y[4]));
  ck_assert(isfinite(y[5]) && isinf(y[6]) && isinf(y[7]));
  ck_assert(y[8] == 0x1p-149f && y[9] == 0 && y[10] == 0 && isinf(y[11]));
}
END_TEST

START_TEST(sigmoid_saturates) {
  ck_assert(mk_sigmoidf(0.0f) == 0.5f);
  ck_assert(mk_sigmoidf(200.0f) == 1.0f && mk_sigmoidf(-200.0f) == 0.0f);
  ck_assert(isnan(mk_sigmoidf(NAN)));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("vector");
  TCase *tcase = test_case(suite, "vector", 60);
  tcase_add_test(tcase, exp_within_two_ulp);
  tcase_add_test(tcase, exp_special_values);
  tcase_add_test(tcase, sigmoid_saturates);
  return test_main(suite);
}
