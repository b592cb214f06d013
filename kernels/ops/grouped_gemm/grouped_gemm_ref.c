/* Grouped GEMM, reference: group after group. */
#include "kernels/ops/grouped_gemm/grouped_gemm.h"
#include "kernels/ops/linear/gemm_ref.h"
#include "kernels/ops/op_decls.h"

static int64_t begin_of(const mk_tensor *offsets, int64_t group) { return ((const int32_t *)offsets->data)[group]; }

mk_status mk_grouped_gemm_fwd_ref(mk_stream *stream, const void *args) {
  const mk_grouped_gemm_fwd_args *a = args;
  (void)stream;
  for (int64_t e = 0; e < a->w.dim[0]; e++) {
    mk_gemm_ref_fwd(&a->x, &a->w, e * a->w.dim[1] * a->w.dim[2], &a->y, begin_of(&a->offsets, e),
                    begin_of(&a->offsets, e + 1));
  }
  return MK_OK;
}

mk_status mk_grouped_gemm_dgrad_ref(mk_stream *stream, const void *args) {
  const mk_grouped_gemm_dgrad_args *a = args;
  (void)stream;
  for (int64_t e = 0; e < a->w.dim[0]; e++) {
    mk_gemm_ref_dgrad(&a->dy, &a->w, e * a->w.dim[1] * a->w.dim[2], NULL, &a->dx, begin_of(&a->offsets, e),
                      begin_of(&a->offsets, e + 1));
  }
  return MK_OK;
}

mk_status mk_grouped_gemm_wgrad_ref(mk_stream *stream, const void *args) {
  const mk_grouped_gemm_wgrad_args *a = args;
  (void)stream;
  for (int64_t e = 0; e < a->dw.dim[0]; e++) {
    mk_gemm_ref_wgrad(&a->dy, &a->x, &a->dw, e * a->dw.dim[1] * a->dw.dim[2], begin_of(&a->offsets, e),
                      begin_of(&a->offsets, e + 1), a->overwrite != 0);
  }
  return MK_OK;
}
