/* A tensor: a dense row-major block of device memory with its shape. It borrows its memory (an arena owns it).
 * `data` is touched only by op backends, copies and comm backends; in simulation it is NULL. */
#ifndef KERNELS_BASE_TENSOR_H
#define KERNELS_BASE_TENSOR_H

#include "kernels/base/dtype.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MK_MAX_DIMS = 4 };

typedef struct mk_tensor {
  void *data;               /* device address; NULL when absent, empty or simulated */
  int64_t dim[MK_MAX_DIMS]; /* unused dims are 1 */
  int n_dims;               /* 0 = the tensor is absent */
  mk_dtype dtype;
  void *meta; /* device-private (simulation: expert counts); NULL elsewhere */
} mk_tensor;

/* Shape without memory; dims beyond n_dims are ignored. */
mk_tensor mk_tensor_1d(mk_dtype dtype, int64_t d0);
mk_tensor mk_tensor_2d(mk_dtype dtype, int64_t d0, int64_t d1);
mk_tensor mk_tensor_3d(mk_dtype dtype, int64_t d0, int64_t d1, int64_t d2);

/* Number of elements, and bytes. 0 for an absent tensor. */
int64_t mk_tensor_count(const mk_tensor *t);
size_t mk_tensor_bytes(const mk_tensor *t);

static inline bool mk_tensor_present(const mk_tensor *t) { return t->n_dims > 0; }

/* Rows [row, row + rows) of the first dimension, sharing memory. */
mk_tensor mk_tensor_rows(const mk_tensor *t, int64_t row, int64_t rows);

/* Elements [first, first + count) of the flattened tensor as a 1-d tensor, sharing memory. */
mk_tensor mk_tensor_slice(const mk_tensor *t, int64_t first, int64_t count);

/* The same memory under another 2-d shape of equal count. */
mk_tensor mk_tensor_as_2d(const mk_tensor *t, int64_t d0, int64_t d1);

/* Bytes from `base` to the tensor's memory, both inside one block. */
int64_t mk_tensor_offset_bytes(const mk_tensor *t, const void *base);

/* True when both have the same dtype and dims. */
bool mk_tensor_same_shape(const mk_tensor *a, const mk_tensor *b);

/* Writes e.g. "bf16[2048,512]" into text (at most `bytes`); returns text. */
const char *mk_tensor_describe(const mk_tensor *t, char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
