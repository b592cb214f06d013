/* A device with one stream and named tensors, for tests of ops. Every tensor lies between canaries, inputs are drawn
 * from the counter generator, outputs start as NaN bytes. Failures of the fixture itself end the test (ck_abort_msg).
 * Data goes in and out through copies, so that the same tests serve guarded, asynchronous and other devices. */
#ifndef TESTS_SUPPORT_BENCH_H
#define TESTS_SUPPORT_BENCH_H

#include "kernels/ops/ops.h"

enum { TEST_MAX_TENSORS = 48, TEST_CANARY_BYTES = 64 };

typedef enum test_role { TEST_IN, TEST_OUT, TEST_INOUT } test_role;

typedef struct test_tensor {
  mk_tensor t;
  const char *name;
  test_role role;
  void *block; /* canary | data | canary */
  size_t block_bytes;
} test_tensor;

typedef struct test_bench {
  mk_context ctx;
  mk_device *dev;
  mk_stream *stream;
  uint64_t seed;
  bool wide; /* f32 and bf16 tensors are made f64; values are still rounded to the dtype asked for */
  test_tensor tensors[TEST_MAX_TENSORS];
  int n_tensors;
} test_bench;

/* Opens the device of `config`; close checks canaries and that no heap block is left. */
void test_bench_open(test_bench *b, const mk_device_config *config, uint64_t seed, bool wide);
void test_bench_open_cpu(test_bench *b); /* cpu with one thread */
void test_bench_close(test_bench *b);

/* New tensors with the shape and dtype of `shape`. The draw depends on seed, name and element only. */
mk_tensor test_random(test_bench *b, const char *name, test_role role, mk_tensor shape, double mean, double std);
mk_tensor test_integers(test_bench *b, const char *name, test_role role, mk_tensor shape, int64_t low, int64_t high);
mk_tensor test_values(test_bench *b, const char *name, test_role role, mk_tensor shape, const double *values);
mk_tensor test_constant(test_bench *b, const char *name, test_role role, mk_tensor shape, double value);
mk_tensor test_bytes(test_bench *b, const char *name, test_role role, mk_tensor shape, const void *bytes);
mk_tensor test_output(test_bench *b, const char *name, mk_tensor shape);
/* In place: the input `from` itself, which the op overwrites; otherwise an output of its shape. */
mk_tensor test_output_from(test_bench *b, const char *name, bool in_place, const mk_tensor *from);

/* The tensor again under another role: an input that the op overwrites in place, for comparison. */
void test_set_role(test_bench *b, const mk_tensor *t, test_role role);

/* Overwrites rows [row, ...) with NaN (integers with ones): rows that an op must not read. The NaN is the positive one,
 * so that a result made from it differs from an output's initial bytes. */
void test_poison_rows(test_bench *b, const mk_tensor *t, int64_t row);

/* True for an element of test_output that nothing has been written to (all bits ones). */
bool test_is_untouched(double value);

/* Element values as doubles; `out` holds mk_tensor_count(t). Waits for the stream first. */
void test_read(test_bench *b, const mk_tensor *t, double *out);
void test_read_bytes(test_bench *b, const mk_tensor *t, void *out);
void test_write_one(test_bench *b, const mk_tensor *t, int64_t index, double value);

/* Ends the test unless st is MK_OK; prints the context's message. */
void test_ok(test_bench *b, mk_status st, const char *what);

/* Deterministic draw, about normal (0, 1). */
double test_normal(uint64_t seed, uint32_t sub, uint64_t index);

#endif
