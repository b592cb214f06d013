/* Byte counts for the work functions: what an op must move at least once between memory and processor. */
#ifndef KERNELS_OPS_WORK_H
#define KERNELS_OPS_WORK_H

#include "kernels/device/device.h"

/* Bytes of a whole tensor; 0 when absent. */
static inline double mk_work_bytes(const mk_tensor *t) { return (double)mk_tensor_bytes(t); }

/* Bytes of the first `rows` rows of a tensor; all of them with rows < 0. */
static inline double mk_work_row_bytes(const mk_tensor *t, int64_t rows) {
  double bytes = mk_work_bytes(t);
  return rows < 0 || t->dim[0] == 0 ? bytes : bytes / (double)t->dim[0] * (double)rows;
}

/* The rows that an op works on: `rows`, or the tensor's static bound with rows < 0. */
static inline double mk_work_rows(const mk_tensor *t, int64_t rows) { return (double)(rows < 0 ? t->dim[0] : rows); }

#endif
