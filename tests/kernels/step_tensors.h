/* The step's device tensors for tests of ops that read the divisor and add to the sums. */
#ifndef TESTS_KERNELS_STEP_TENSORS_H
#define TESTS_KERNELS_STEP_TENSORS_H

#include "tests/support/bench.h"

static inline mk_tensor step_state(test_bench *b, int64_t step, double divisor) {
  mk_step_state state = {.step = step, .loss_divisor = divisor};
  return test_bytes(b, "state", TEST_IN, mk_tensor_1d(MK_U8, sizeof state), &state);
}

/* Sums that start at zero. */
static inline mk_tensor step_sums(test_bench *b) {
  return test_constant(b, "sums", TEST_INOUT, mk_tensor_1d(MK_F64, MK_SUM_COUNT), 0.0);
}

static inline double step_sum(test_bench *b, const mk_tensor *sums, mk_step_sum which) {
  double values[MK_SUM_COUNT];
  test_read(b, sums, values);
  return values[which];
}

/* The devices on which the named cases run. */
static inline mk_device_config case_device(int i) {
  return (mk_device_config){.name = i == 0 ? "cpu" : "ref", .threads = 2};
}

enum { CASE_DEVICES = 2 };

#endif
