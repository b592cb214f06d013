/* Linear layers on the GPU: each is one product of cuBLASLt with FP32 sums; the addend and the accumulation are its
 * second term, so no pass over the output is added. */
#include "kernels/device/cuda/cuda_blas.h"
#include "kernels/ops/linear/linear.h"
#include "kernels/ops/op_decls.h"

static mk_cuda_operand operand(const mk_tensor *t, bool reduce_first) {
  mk_cuda_operand out = {t->data, t->dtype, t->dim[1], reduce_first};
  return out;
}

static mk_status product(mk_stream *stream, mk_op_id op, const mk_cuda_operand &left, const mk_cuda_operand &right,
                         int64_t reduce, const void *add, const mk_tensor *out) {
  mk_context *ctx = stream->dev->ctx;
  MK_TRY(ctx, mk_cuda_check_float(stream, op, left.dtype));
  MK_TRY(ctx, mk_cuda_check_float(stream, op, right.dtype));
  MK_TRY(ctx, mk_cuda_check_float(stream, op, out->dtype));
  mk_cuda_gemm g = {out->dim[0], out->dim[1], reduce, left, right, add, out->data, out->dtype, out->dim[1]};
  MK_TRY(ctx, mk_cuda_gemm_run(stream, &g));
  return MK_OK;
}

/* Never launched: mk_gemm_pack_bytes is 0 on this device. */
mk_status mk_linear_pack_cuda(mk_stream *stream, const void *args) {
  (void)stream;
  (void)args;
  return MK_OK;
}

/* y[t,n] = sum_k x[t,k] w[n,k] */
mk_status mk_linear_fwd_cuda(mk_stream *stream, const void *args) {
  const mk_linear_fwd_args *a = static_cast<const mk_linear_fwd_args *>(args);
  return product(stream, MK_OP_linear_fwd, operand(&a->x, false), operand(&a->w, false), a->x.dim[1], nullptr, &a->y);
}

/* dx[t,k] = sum_n dy[t,n] w[n,k] (+ add[t,k]) */
mk_status mk_linear_dgrad_cuda(mk_stream *stream, const void *args) {
  const mk_linear_dgrad_args *a = static_cast<const mk_linear_dgrad_args *>(args);
  const void *add = mk_tensor_present(&a->add) ? a->add.data : nullptr;
  return product(stream, MK_OP_linear_dgrad, operand(&a->dy, false), operand(&a->w, true), a->dy.dim[1], add, &a->dx);
}

/* dw[n,k] (+)= sum_t dy[t,n] x[t,k] */
mk_status mk_linear_wgrad_cuda(mk_stream *stream, const void *args) {
  const mk_linear_wgrad_args *a = static_cast<const mk_linear_wgrad_args *>(args);
  const void *add = a->overwrite != 0 ? nullptr : a->dw.data;
  return product(stream, MK_OP_linear_wgrad, operand(&a->dy, true), operand(&a->x, true), a->dy.dim[0], add, &a->dw);
}
