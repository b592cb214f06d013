/* Shapes and views. */
#include "kernels/base/tensor.h"

#include <stdio.h>

static mk_tensor shape(mk_dtype dtype, int n_dims, int64_t d0, int64_t d1, int64_t d2) {
  return (mk_tensor){.dim = {d0, d1, d2, 1}, .n_dims = n_dims, .dtype = dtype};
}

mk_tensor mk_tensor_1d(mk_dtype dtype, int64_t d0) { return shape(dtype, 1, d0, 1, 1); }
mk_tensor mk_tensor_2d(mk_dtype dtype, int64_t d0, int64_t d1) { return shape(dtype, 2, d0, d1, 1); }
mk_tensor mk_tensor_3d(mk_dtype dtype, int64_t d0, int64_t d1, int64_t d2) { return shape(dtype, 3, d0, d1, d2); }

int64_t mk_tensor_count(const mk_tensor *t) {
  if (t->n_dims == 0) return 0;
  int64_t count = 1;
  for (int i = 0; i < t->n_dims; i++)
    count *= t->dim[i];
  return count;
}

size_t mk_tensor_bytes(const mk_tensor *t) { return (size_t)mk_tensor_count(t) * mk_dtype_bytes(t->dtype); }

static mk_tensor offset_view(const mk_tensor *t, int64_t first) {
  mk_tensor view = *t;
  if (view.data != NULL) view.data = (char *)view.data + (size_t)first * mk_dtype_bytes(t->dtype);
  return view;
}

mk_tensor mk_tensor_rows(const mk_tensor *t, int64_t row, int64_t rows) {
  int64_t row_count = t->dim[0] > 0 ? mk_tensor_count(t) / t->dim[0] : 0;
  mk_tensor view = offset_view(t, row * row_count);
  view.dim[0] = rows;
  return view;
}

mk_tensor mk_tensor_slice(const mk_tensor *t, int64_t first, int64_t count) {
  mk_tensor view = offset_view(t, first);
  mk_tensor flat = mk_tensor_1d(t->dtype, count);
  flat.data = view.data;
  return flat;
}

mk_tensor mk_tensor_as_2d(const mk_tensor *t, int64_t d0, int64_t d1) {
  mk_tensor view = mk_tensor_2d(t->dtype, d0, d1);
  view.data = t->data;
  view.meta = t->meta;
  return view;
}

int64_t mk_tensor_offset_bytes(const mk_tensor *t, const void *base) {
  return (int64_t)((const char *)t->data - (const char *)base);
}

bool mk_tensor_same_shape(const mk_tensor *a, const mk_tensor *b) {
  if (a->dtype != b->dtype || a->n_dims != b->n_dims) return false;
  for (int i = 0; i < a->n_dims; i++) {
    if (a->dim[i] != b->dim[i]) return false;
  }
  return true;
}

const char *mk_tensor_describe(const mk_tensor *t, char *text, size_t bytes) {
  int used = snprintf(text, bytes, "%s[", mk_dtype_name(t->dtype));
  for (int i = 0; i < t->n_dims && used > 0 && (size_t)used < bytes; i++) {
    used += snprintf(text + used, bytes - (size_t)used, i == 0 ? "%lld" : ",%lld", (long long)t->dim[i]);
  }
  if (used > 0 && (size_t)used < bytes) snprintf(text + used, bytes - (size_t)used, "]");
  return text;
}
