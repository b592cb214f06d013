/* Linear layers on the CPU: one group of kernels/device/cpu/gemm.h. */
#include "kernels/device/cpu/gemm.h"
#include "kernels/ops/linear/linear.h"
#include "kernels/ops/op_decls.h"

/* mk_gemm_pack_bytes is 0 on this device, so that nothing is launched. */
mk_status mk_linear_pack_cpu(mk_stream *stream, const void *args) {
  (void)args;
  return MK_FAIL(stream->dev->ctx, MK_ERR_UNSUPPORTED, "linear_pack: the cpu device takes weights as they are");
}

mk_status mk_linear_fwd_cpu(mk_stream *stream, const void *args) {
  const mk_linear_fwd_args *a = args;
  mk_gemm_call call = {.kind = MK_GEMM_FWD, .groups = 1, .n = a->w.dim[0], .k = a->w.dim[1]};
  call.a = a->x;
  call.b = a->w;
  call.c = a->y;
  return mk_cpu_gemm_run(stream, MK_OP_linear_fwd, &call);
}

mk_status mk_linear_dgrad_cpu(mk_stream *stream, const void *args) {
  const mk_linear_dgrad_args *a = args;
  mk_gemm_call call = {.kind = MK_GEMM_DGRAD, .groups = 1, .n = a->w.dim[0], .k = a->w.dim[1]};
  call.a = a->dy;
  call.b = a->w;
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
