/* Linear layers, reference. Nothing is packed: the reference kernels read w. */
#include "kernels/ops/linear/gemm_ref.h"
#include "kernels/ops/linear/linear.h"
#include "kernels/ops/op_decls.h"

mk_status mk_linear_pack_ref(mk_stream *stream, const void *args) {
  (void)stream;
  (void)args;
  return MK_OK;
}

mk_status mk_linear_fwd_ref(mk_stream *stream, const void *args) {
  const mk_linear_fwd_args *a = args;
  (void)stream;
  mk_gemm_ref_fwd(&a->x, &a->w, 0, &a->y, 0, a->x.dim[0]);
  return MK_OK;
}

mk_status mk_linear_dgrad_ref(mk_stream *stream, const void *args) {
  const mk_linear_dgrad_args *a = args;
  (void)stream;
  mk_gemm_ref_dgrad(&a->dy, &a->w, 0, &a->add, &a->dx, 0, a->dy.dim[0]);
  return MK_OK;
}

mk_status mk_linear_wgrad_ref(mk_stream *stream, const void *args) {
  const mk_linear_wgrad_args *a = args;
  (void)stream;
  mk_gemm_ref_wgrad(&a->dy, &a->x, &a->dw, 0, 0, a->dy.dim[0], a->overwrite != 0);
  return MK_OK;
}
