/* The three GEMMs of one group in FP64, element by element, for the reference kernels of linear and grouped_gemm. Rows
 * [begin, end) of the row buffers; the group's weights start at element `w_first` of w or dw. */
#ifndef KERNELS_OPS_LINEAR_GEMM_REF_H
#define KERNELS_OPS_LINEAR_GEMM_REF_H

#include "kernels/ops/ref_access.h"

/* y = x w^T. */
static inline void mk_gemm_ref_fwd(const mk_tensor *x, const mk_tensor *w, int64_t w_first, const mk_tensor *y,
                                   int64_t begin, int64_t end) {
  int64_t k = x->dim[1], n = y->dim[1];
  for (int64_t row = begin; row < end; row++) {
    for (int64_t i = 0; i < n; i++) {
      double sum = 0;
      for (int64_t j = 0; j < k; j++)
        sum += mk_ref_get(x, row * k + j) * mk_ref_get(w, w_first + i * k + j);
      mk_ref_set(y, row * n + i, sum);
    }
  }
}

/* dx = dy w (+ add). */
static inline void mk_gemm_ref_dgrad(const mk_tensor *dy, const mk_tensor *w, int64_t w_first, const mk_tensor *add,
                                     const mk_tensor *dx, int64_t begin, int64_t end) {
  int64_t n = dy->dim[1], k = dx->dim[1];
  for (int64_t row = begin; row < end; row++) {
    for (int64_t j = 0; j < k; j++) {
      double sum = add != NULL && mk_tensor_present(add) ? mk_ref_get(add, row * k + j) : 0;
      for (int64_t i = 0; i < n; i++)
        sum += mk_ref_get(dy, row * n + i) * mk_ref_get(w, w_first + i * k + j);
      mk_ref_set(dx, row * k + j, sum);
    }
  }
}

/* dw = (overwrite ? 0 : dw) + dy^T x. */
static inline void mk_gemm_ref_wgrad(const mk_tensor *dy, const mk_tensor *x, const mk_tensor *dw, int64_t w_first,
                                     int64_t begin, int64_t end, bool overwrite) {
  int64_t n = dy->dim[1], k = x->dim[1];
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < k; j++) {
      double sum = overwrite ? 0 : mk_ref_get(dw, w_first + i * k + j);
      for (int64_t row = begin; row < end; row++)
        sum += mk_ref_get(dy, row * n + i) * mk_ref_get(x, row * k + j);
      mk_ref_set(dw, w_first + i * k + j, sum);
    }
  }
}

#endif
