/* Linear layers on the CPU: one group of kernels/device/cpu/gemm.h. */
#include "kernels/device/cpu/gemm.h"
#include "kernels/ops/linear/linear.h"
#include "kernels/ops/op_decls.h"

mk_status mk_linear_pack_cpu(mk_stream *stream, const void *args) {
  const mk_linear_pack_args *a = args;
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_linear_pack, a->w.dtype));
  return mk_cpu_gemm_pack(stream, &a->w, &a->packed);
}

mk_status mk_linear_fwd_cpu(mk_stream *stream, const void *args) {
  const mk_linear_fwd_args *a = args;
  mk_gemm_call call = {.kind = MK_GEMM_FWD, .groups = 1, .n = a->w.dim[0], .k = a->w.dim[1]};
  call.a = a->x;
  call.b = a->w;
  call.packed = a->packed;
  call.c = a->y;
  return mk_cpu_gemm_run(stream, MK_OP_linear_fwd, &call);
}

mk_status mk_linear_dgrad_cpu(mk_stream *stream, const void *args) {
  const mk_linear_dgrad_args *a = args;
  mk_gemm_call call = {.kind = MK_GEMM_DGRAD, .groups = 1, .n = a->w.dim[0], .k = a->w.dim[1]};
  call.a = a->dy;
  call.b = a->w;
  call.packed = a->packed;
  call.add = a->add;
  call.c = a->dx;
  return mk_cpu_gemm_run(stream, MK_OP_linear_dgrad, &call);
}

mk_status mk_linear_wgrad_cpu(mk_stream *stream, const void *args) {
  const mk_linear_wgrad_args *a = args;
  mk_gemm_call call = {.kind = MK_GEMM_WGRAD, .groups = 1, .n = a->dw.dim[0], .k = a->dw.dim[1]};
  call.a = a->dy;
  call.b = a->x;
  call.c = a->dw;
  call.overwrite = a->overwrite != 0;
  return mk_cpu_gemm_run(stream, MK_OP_linear_wgrad, &call);
}
