/* Grouped GEMM on the CPU: all groups in one parallel region of kernels/device/cpu/gemm.h. */
#include "kernels/device/cpu/gemm.h"
#include "kernels/ops/grouped_gemm/grouped_gemm.h"
#include "kernels/ops/op_decls.h"

mk_status mk_grouped_gemm_fwd_cpu(mk_stream *stream, const void *args) {
  const mk_grouped_gemm_fwd_args *a = args;
  mk_gemm_call call = {.kind = MK_GEMM_FWD, .groups = a->w.dim[0], .n = a->w.dim[1], .k = a->w.dim[2]};
  call.a = a->x;
  call.b = a->w;
  call.offsets = a->offsets;
  call.c = a->y;
  return mk_cpu_gemm_run(stream, MK_OP_grouped_gemm_fwd, &call);
}

mk_status mk_grouped_gemm_dgrad_cpu(mk_stream *stream, const void *args) {
  const mk_grouped_gemm_dgrad_args *a = args;
  mk_gemm_call call = {.kind = MK_GEMM_DGRAD, .groups = a->w.dim[0], .n = a->w.dim[1], .k = a->w.dim[2]};
  call.a = a->dy;
  call.b = a->w;
  call.offsets = a->offsets;
  call.c = a->dx;
  return mk_cpu_gemm_run(stream, MK_OP_grouped_gemm_dgrad, &call);
}

mk_status mk_grouped_gemm_wgrad_cpu(mk_stream *stream, const void *args) {
  const mk_grouped_gemm_wgrad_args *a = args;
  mk_gemm_call call = {.kind = MK_GEMM_WGRAD, .groups = a->dw.dim[0], .n = a->dw.dim[1], .k = a->dw.dim[2]};
  call.a = a->dy;
  call.b = a->x;
  call.offsets = a->offsets;
  call.c = a->dw;
  call.overwrite = a->overwrite != 0;
  return mk_cpu_gemm_run(stream, MK_OP_grouped_gemm_wgrad, &call);
}
