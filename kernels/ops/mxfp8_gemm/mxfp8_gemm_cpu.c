/* GEMMs of MXFP8 operands on the CPU: blocks are read back to FP32, which is exact, inside the tiles of
 * kernels/device/cpu/gemm.h. This emulates the arithmetic, not the speed, of a processor that multiplies MXFP8. */
#include "kernels/device/cpu/gemm.h"
#include "kernels/ops/mxfp8_gemm/mxfp8_gemm.h"
#include "kernels/ops/op_decls.h"

static mk_gemm_call call_of(const mk_mxfp8 *a, const mk_mxfp8 *b, int64_t groups, const mk_tensor *y) {
  mk_gemm_call call = {.kind = MK_GEMM_FWD, .groups = groups, .n = y->dim[1], .k = a->q.dim[1]};
  call.a = a->q;
  call.a_scale = a->scale;
  call.b = b->q;
  call.b_scale = b->scale;
  call.c = *y;
  return call;
}

mk_status mk_mxfp8_linear_cpu(mk_stream *stream, const void *args) {
  const mk_mxfp8_linear_args *a = args;
  mk_gemm_call call = call_of(&a->a, &a->b, 1, &a->y);
  call.add = a->add;
  return mk_cpu_gemm_run(stream, MK_OP_mxfp8_linear, &call);
}

mk_status mk_mxfp8_grouped_cpu(mk_stream *stream, const void *args) {
  const mk_mxfp8_grouped_args *a = args;
  mk_gemm_call call = call_of(&a->a, &a->b, a->b.q.dim[0], &a->y);
  call.offsets = a->offsets;
  return mk_cpu_gemm_run(stream, MK_OP_mxfp8_grouped, &call);
}
