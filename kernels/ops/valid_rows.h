/* The number of valid rows of a capacity buffer, for the backends that read host-addressable device memory. */
#ifndef KERNELS_OPS_VALID_ROWS_H
#define KERNELS_OPS_VALID_ROWS_H

#include "kernels/base/tensor.h"

/* rows[0] kept inside [0, bound]; `bound` when the tensor is absent. */
static inline int64_t mk_valid_rows(const mk_tensor *rows, int64_t bound) {
  if (!mk_tensor_present(rows)) return bound;
  int64_t valid = *(const int32_t *)rows->data;
  return valid < 0 ? 0 : valid > bound ? bound : valid;
}

#endif
