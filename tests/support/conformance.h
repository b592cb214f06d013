/* Conformance of ops: every kernel of a device against the reference kernel in FP64 on the same input values.
 *
 * A case is a function that makes its tensors on a bench and launches the op once. The driver runs it for each dtype,
 * shape and variant: on `ref` with FP64 tensors for the expected values, then on cpu with 2, 1 and 3 threads, with
 * guarded memory, and on cpu_async. Outputs must meet the error bound, and all cpu runs must give the same bits.
 * With MOEMARK_TEST_DEVICE in the environment that device is tested instead, twice, with CK_FORK=no where it is a GPU.
 */
#ifndef TESTS_SUPPORT_CONFORMANCE_H
#define TESTS_SUPPORT_CONFORMANCE_H

#include "tests/support/bench.h"

enum { TEST_MAX_SHAPES = 16 };

/* NMSE of one rounding to nearest. F32: what a single element can reach, (half an ulp of the significand's lowest
 * value)^2. BF16: what many elements may reach; normal draws give 2.3e-6, truncated 9e-6, rounded twice 4.7e-6. Where
 * BF16 takes part, a bound is CONF_FEW_FACTOR times as wide for outputs of at most CONF_FEW elements: it is again a
 * single element's rounding that counts. */
#define CONF_ROUND_BF16 4e-6
#define CONF_ROUND_F32 3.6e-15
#define CONF_FEW_FACTOR 4
enum { CONF_FEW = 1000 };

typedef struct conf_point {
  mk_dtype dtype; /* storage dtype of this run; the bench widens it on ref */
  int64_t dim[4]; /* meaning belongs to the case */
  int variant;    /* 0 .. variants-1: optional tensors, aliasing, modes */
} conf_point;

typedef struct conf_case {
  const char *name;
  mk_status (*launch)(test_bench *b, const conf_point *p);
  int64_t shapes[TEST_MAX_SHAPES][4];
  int n_shapes;
  int variants;    /* 0 means 1 */
  unsigned dtypes; /* MK_ONE_OF bits; 0 means f32 and bf16 */
  double nmse_f32; /* bounds on sum (got-want)^2 / sum want^2 of every floating output; integers must be equal */
  double nmse_bf16;
  bool threads_matter; /* the header allows results that depend on the number of threads */
  bool both_kernels;   /* also run with the widened and the native GEMM, each against the bound */
} conf_case;

/* Runs one case over all its points; ends the test with op, shape, dtype, seed, index, expected and got. */
void conf_check(const conf_case *c);

/* In a test file: one Check loop test over a table of cases (CONF_TEST), and its registration. */
#define CONF_TEST(cases) \
  START_TEST(conformance) { conf_check(&(cases)[_i]); } \
  END_TEST
#define CONF_ADD(tcase, cases) tcase_add_loop_test((tcase), conformance, 0, (int)(sizeof(cases) / sizeof((cases)[0])))

#endif
