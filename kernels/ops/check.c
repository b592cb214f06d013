/* See check.h. */
#include "kernels/ops/check.h"

#include <string.h>

static bool dims_match(const mk_tensor *t, int n_dims, const int64_t *want) {
  if (t->n_dims != n_dims) return false;
  for (int i = 0; i < n_dims; i++) {
    if (want[i] >= 0 && t->dim[i] != want[i]) return false;
    if (t->dim[i] < 0) return false;
  }
  return true;
}

static mk_status check_dtype(mk_stream *stream, const char *op, const char *name, const mk_tensor *t, unsigned dtypes) {
  MK_CHECK(stream->dev->ctx, (MK_ONE_OF(t->dtype) & dtypes) != 0 || !mk_tensor_present(t), MK_ERR_ARG,
           "%s: %s has dtype %s, which this op does not take", op, name, mk_dtype_name(t->dtype));
  return MK_OK;
}

static mk_status check_memory(mk_stream *stream, const char *op, const char *name, const mk_tensor *t) {
  bool simulated = strcmp(stream->dev->ops->name, "sim") == 0;
  MK_CHECK(stream->dev->ctx, t->data != NULL || simulated || mk_tensor_count(t) == 0, MK_ERR_ARG,
           "%s: %s has no memory", op, name);
  return MK_OK;
}

mk_status mk_check_tensor(mk_stream *stream, const char *op, const char *name, const mk_tensor *t, unsigned dtypes,
                          int n_dims, int64_t d0, int64_t d1, int64_t d2) {
  mk_context *ctx = stream->dev->ctx;
  int64_t want[MK_MAX_DIMS] = {d0, d1, d2, 1};
  char have[96], need[96];
  mk_tensor expected = {.dim = {d0, d1, d2, 1}, .n_dims = n_dims, .dtype = t->dtype};
  MK_TRY(ctx, check_dtype(stream, op, name, t, dtypes));
  MK_CHECK(ctx, dims_match(t, n_dims, want), MK_ERR_ARG, "%s: %s is %s, expected %s (-1: any)", op, name,
           mk_tensor_describe(t, have, sizeof have), mk_tensor_describe(&expected, need, sizeof need));
  return check_memory(stream, op, name, t);
}

mk_status mk_check_flat(mk_stream *stream, const char *op, const char *name, const mk_tensor *t, unsigned dtypes,
                        int64_t count) {
  mk_context *ctx = stream->dev->ctx;
  char have[96];
  MK_CHECK(ctx, mk_tensor_present(t), MK_ERR_ARG, "%s: %s is missing", op, name);
  MK_TRY(ctx, check_dtype(stream, op, name, t, dtypes));
  MK_CHECK(ctx, count < 0 || mk_tensor_count(t) == count, MK_ERR_ARG, "%s: %s is %s, expected %lld elements", op, name,
           mk_tensor_describe(t, have, sizeof have), (long long)count);
  return check_memory(stream, op, name, t);
}

mk_status mk_check_apart(mk_stream *stream, const char *op, const char *out_name, const mk_tensor *out,
                         const char *in_name, const mk_tensor *in) {
  uintptr_t a = (uintptr_t)out->data, b = (uintptr_t)in->data;
  bool apart = a == 0 || b == 0 || a + mk_tensor_bytes(out) <= b || b + mk_tensor_bytes(in) <= a;
  MK_CHECK(stream->dev->ctx, apart, MK_ERR_ARG, "%s: %s lies over %s; give it memory of its own", op, out_name,
           in_name);
  return MK_OK;
}
