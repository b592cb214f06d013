/* See bench.h. */
#include "tests/support/bench.h"

#include <check.h>
#include <math.h>

#include "kernels/base/heap.h"
#include "kernels/base/rng.h"
#include "kernels/ops/ref_access.h"

enum { CANARY = 0x5a, POISON = 0xff };

void test_ok(test_bench *b, mk_status st, const char *what) {
  if (st != MK_OK) {
    ck_abort_msg("%s: %s: %s", what, mk_status_name(st), b->ctx.error.message);
  }
}

void test_bench_open(test_bench *b, const mk_device_config *config, uint64_t seed, bool wide) {
  *b = (test_bench){.seed = seed, .wide = wide};
  test_ok(b, mk_device_create(&b->ctx, config, &b->dev), config->name);
  test_ok(b, mk_stream_create(b->dev, "test", &b->stream), "stream");
}

static void check_canaries(test_bench *b, const test_tensor *entry) {
  unsigned char *host = NULL;
  mk_tensor all = mk_tensor_1d(MK_U8, (int64_t)entry->block_bytes);
  all.data = entry->block;
  test_ok(b, mk_heap_alloc(&b->ctx, entry->block_bytes, &host), "staging");
  test_ok(b, mk_copy_d2h(b->stream, host, &all), entry->name);
  test_ok(b, mk_stream_sync(b->stream, false), entry->name);
  for (size_t i = 0; i < entry->block_bytes; i++) {
    bool inside = i >= TEST_CANARY_BYTES && i < entry->block_bytes - TEST_CANARY_BYTES;
    if (!inside && host[i] != CANARY) {
      ck_abort_msg("%s: byte %lld outside the tensor was overwritten", entry->name, (long long)i - TEST_CANARY_BYTES);
    }
  }
  mk_heap_free(&b->ctx, host);
}

void test_bench_open_cpu(test_bench *b) {
  test_bench_open(b, &(mk_device_config){.name = "cpu", .threads = 1}, 1, false);
}

void test_bench_close(test_bench *b) {
  for (int i = 0; i < b->n_tensors; i++) {
    check_canaries(b, &b->tensors[i]);
    mk_device_free(b->dev, MK_MEM_WORKSPACE, b->tensors[i].block, b->tensors[i].block_bytes);
  }
  mk_stream_destroy(b->stream);
  ck_assert_uint_eq(b->dev->used_bytes[MK_MEM_WORKSPACE], 0);
  mk_device_destroy(b->dev);
  ck_assert_msg(b->ctx.heap_live == 0, "%lld heap blocks were not freed", b->ctx.heap_live);
}

/* Host image of a new tensor: canary | data | canary. */
static mk_tensor stage(test_bench *b, mk_tensor shape, unsigned char **image, size_t *bytes) {
  if (b->wide && (shape.dtype == MK_F32 || shape.dtype == MK_BF16)) shape.dtype = MK_F64;
  *bytes = mk_tensor_bytes(&shape) + 2 * TEST_CANARY_BYTES;
  test_ok(b, mk_heap_alloc(&b->ctx, *bytes, image), "staging");
  memset(*image, CANARY, *bytes);
  memset(*image + TEST_CANARY_BYTES, POISON, mk_tensor_bytes(&shape));
  shape.data = *image + TEST_CANARY_BYTES;
  return shape;
}

static mk_tensor upload(test_bench *b, const char *name, test_role role, mk_tensor staged, unsigned char *image,
                        size_t bytes) {
  ck_assert_int_lt(b->n_tensors, TEST_MAX_TENSORS);
  test_tensor *entry = &b->tensors[b->n_tensors++];
  mk_tensor all = mk_tensor_1d(MK_U8, (int64_t)bytes);
  test_ok(b, mk_device_alloc(b->dev, MK_MEM_WORKSPACE, bytes, &all.data), name);
  test_ok(b, mk_copy_h2d(b->stream, &all, image), name);
  test_ok(b, mk_stream_sync(b->stream, false), name);
  mk_heap_free(&b->ctx, image);
  staged.data = (char *)all.data + TEST_CANARY_BYTES;
  *entry = (test_tensor){.t = staged, .name = name, .role = role, .block = all.data, .block_bytes = bytes};
  return staged;
}

static uint32_t name_key(const char *name) {
  uint32_t key = 2166136261u; /* FNV-1a */
  for (; *name != '\0'; name++)
    key = (key ^ (unsigned char)*name) * 16777619u;
  return key;
}

double test_normal(uint64_t seed, uint32_t sub, uint64_t index) {
  mk_rng_block draw = mk_rng_draw(seed, MK_RNG_TEST, sub, index);
  double sum = 0;
  for (int i = 0; i < 4; i++)
    sum += mk_rng_unit(draw.word[i]);
  return (sum - 2.0) * 1.7320508075688772; /* the sum of four uniforms has variance 1/3 */
}

/* What `value` becomes when stored as `dtype`. */
static double rounded(mk_dtype dtype, double value) {
  if (dtype == MK_F32) return (float)value;
  if (dtype == MK_BF16) return mk_bf16_to_f32(mk_f32_to_bf16((float)value));
  return value;
}

mk_tensor test_random(test_bench *b, const char *name, test_role role, mk_tensor shape, double mean, double std) {
  unsigned char *image;
  size_t bytes;
  mk_tensor t = stage(b, shape, &image, &bytes);
  for (int64_t i = 0; i < mk_tensor_count(&t); i++) {
    double draw = test_normal(b->seed, name_key(name), (uint64_t)i);
    mk_ref_set(&t, i, rounded(shape.dtype, mean + std * draw));
  }
  return upload(b, name, role, t, image, bytes);
}

mk_tensor test_integers(test_bench *b, const char *name, test_role role, mk_tensor shape, int64_t low, int64_t high) {
  unsigned char *image;
  size_t bytes;
  mk_tensor t = stage(b, shape, &image, &bytes);
  for (int64_t i = 0; i < mk_tensor_count(&t); i++) {
    mk_rng_block draw = mk_rng_draw(b->seed, MK_RNG_TEST, name_key(name), (uint64_t)i);
    mk_ref_set(&t, i, (double)(low + (int64_t)(draw.word[0] % (uint64_t)(high - low + 1))));
  }
  return upload(b, name, role, t, image, bytes);
}

mk_tensor test_values(test_bench *b, const char *name, test_role role, mk_tensor shape, const double *values) {
  unsigned char *image;
  size_t bytes;
  mk_tensor t = stage(b, shape, &image, &bytes);
  for (int64_t i = 0; i < mk_tensor_count(&t); i++)
    mk_ref_set(&t, i, rounded(shape.dtype, values[i]));
  return upload(b, name, role, t, image, bytes);
}

mk_tensor test_constant(test_bench *b, const char *name, test_role role, mk_tensor shape, double value) {
  return test_random(b, name, role, shape, value, 0.0);
}

mk_tensor test_bytes(test_bench *b, const char *name, test_role role, mk_tensor shape, const void *source) {
  unsigned char *image;
  size_t bytes;
  mk_tensor t = stage(b, shape, &image, &bytes);
  memcpy(t.data, source, mk_tensor_bytes(&t));
  return upload(b, name, role, t, image, bytes);
}

mk_tensor test_output(test_bench *b, const char *name, mk_tensor shape) {
  unsigned char *image;
  size_t bytes;
  mk_tensor t = stage(b, shape, &image, &bytes);
  return upload(b, name, TEST_OUT, t, image, bytes);
}

mk_tensor test_output_from(test_bench *b, const char *name, bool in_place, const mk_tensor *from) {
  if (!in_place) return test_output(b, name, *from);
  test_set_role(b, from, TEST_INOUT);
  return *from;
}

void test_set_role(test_bench *b, const mk_tensor *t, test_role role) {
  for (int i = 0; i < b->n_tensors; i++) {
    if (b->tensors[i].t.data == t->data) b->tensors[i].role = role;
  }
}

void test_poison_rows(test_bench *b, const mk_tensor *t, int64_t row) {
  mk_tensor tail = mk_tensor_rows(t, row, t->dim[0] - row), host = tail;
  test_ok(b, mk_heap_alloc(&b->ctx, mk_tensor_bytes(&tail), &host.data), "staging");
  memset(host.data, POISON, mk_tensor_bytes(&tail));
  bool floating = t->dtype == MK_F32 || t->dtype == MK_BF16 || t->dtype == MK_F64;
  for (int64_t i = 0; i < mk_tensor_count(&tail) && floating; i++)
    mk_ref_set(&host, i, (double)NAN);
  test_ok(b, mk_copy_h2d(b->stream, &tail, host.data), "poison");
  test_ok(b, mk_stream_sync(b->stream, false), "poison");
  mk_heap_free(&b->ctx, host.data);
}

bool test_is_untouched(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits >> 45 == 0x7ffff; /* sign, exponent and the 7 bits that BF16 keeps: all ones */
}

void test_read_bytes(test_bench *b, const mk_tensor *t, void *out) {
  test_ok(b, mk_copy_d2h(b->stream, out, t), "read");
  test_ok(b, mk_stream_sync(b->stream, false), "read");
}

void test_read(test_bench *b, const mk_tensor *t, double *out) {
  mk_tensor host = *t;
  test_ok(b, mk_heap_alloc(&b->ctx, mk_tensor_bytes(t), &host.data), "staging");
  test_read_bytes(b, t, host.data);
  for (int64_t i = 0; i < mk_tensor_count(t); i++)
    out[i] = mk_ref_get(&host, i);
  mk_heap_free(&b->ctx, host.data);
}

void test_write_one(test_bench *b, const mk_tensor *t, int64_t index, double value) {
  double storage;
  mk_tensor host = {.data = &storage, .dim = {1, 1, 1, 1}, .n_dims = 1, .dtype = t->dtype};
  mk_ref_set(&host, 0, value);
  mk_tensor one = mk_tensor_slice(t, index, 1);
  test_ok(b, mk_copy_h2d(b->stream, &one, &storage), "write");
  test_ok(b, mk_stream_sync(b->stream, false), "write");
}
