/* Routed experts on the rows that the exchange delivered: up|gate -> SwiGLU -> down, all local experts in one call.
 * Weight gradients come before the data gradient, so that backends may let it overwrite the rows. */
#include "trainer/model/mxfp8.h"
#include "trainer/model/recompute.h"

mk_tensor mt_experts_rows(const mt_mlp *a) {
  int64_t last = a->ep.offsets.dim[0] - 1; /* offsets[L] = number of rows */
  return mk_tensor_slice(&a->ep.offsets, last, 1);
}

/* Where the experts write: straight into `returned` where nothing has to travel back. */
const mk_tensor *mt_experts_output(const mt_model *m, const mt_mlp *a) {
  return m->ep->ops->in_place ? &a->ep.returned : &m->scratch.expert_out;
}

/* What the down projection reads: SwiGLU's output, or, where rows carry weights, its product with them, made in
 * scratch.d_act: it costs less to make again than to keep. */
static mk_status hidden(mt_model *m, const mt_pass *p, const mt_mlp *a, mk_tensor *out) {
  *out = a->act;
  if (!m->ep->ops->weighs_rows) return MK_OK;
  *out = m->scratch.d_act;
  return mk_row_scale_fwd(
      p->stream, &(mk_row_scale_fwd_args){.x = a->act, .w = a->ep.row_weights, .rows = mt_experts_rows(a), .y = *out});
}

/* In and out: scratch.d_act, from the gradient of the weighted hidden to that of SwiGLU's output; and the gradient of
 * the weights, for the transport. */
static mk_status hidden_backward(mt_model *m, const mt_pass *p, const mt_mlp *a) {
  const mk_tensor *d_act = &m->scratch.d_act;
  if (!m->ep->ops->weighs_rows) return MK_OK;
  return mk_row_scale_bwd(p->stream, &(mk_row_scale_bwd_args){.dy = *d_act,
                                                              .x = a->act,
                                                              .w = a->ep.row_weights,
                                                              .rows = mt_experts_rows(a),
                                                              .dx = *d_act,
                                                              .dw = m->ep->row_dweights});
}

mk_status mt_experts_forward(mt_model *m, const mt_pass *p, mt_layer *l) {
  if (mt_mxfp8_mlp(m->cfg)) return mt_mxfp8_experts_forward(m, p, l);
  mk_context *ctx = m->ctx;
  mt_mlp *a = &l->mlp;
  const mt_param *up = mt_params_find(&m->params, l->unit, MT_PARAM_EXPERT_UP_GATE);
  const mt_param *down = mt_params_find(&m->params, l->unit, MT_PARAM_EXPERT_DOWN);
  mk_tensor x;
  if (mt_makes(p, MT_PART_UP_GATE)) {
    MK_TRY(ctx, mk_grouped_gemm_fwd(
                    p->stream,
                    &(mk_grouped_gemm_fwd_args){
                        .x = a->ep.rows, .w = up->w, .packed = up->packed, .offsets = a->ep.offsets, .y = a->up_gate}));
  }
  if (mt_makes(p, MT_PART_ACT)) {
    MK_TRY(ctx,
           mk_swiglu_fwd(p->stream, &(mk_swiglu_fwd_args){.x = a->up_gate, .rows = mt_experts_rows(a), .y = a->act}));
  }
  if (!mt_makes(p, MT_PART_DOWN)) return MK_OK;
  MK_TRY(ctx, hidden(m, p, a, &x));
  return mk_grouped_gemm_fwd(
      p->stream,
      &(mk_grouped_gemm_fwd_args){
          .x = x, .w = down->w, .packed = down->packed, .offsets = a->ep.offsets, .y = *mt_experts_output(m, a)});
}

/* In: scratch.expert_d_out [N,D]. Out: scratch.expert_out [N,D] = gradient of the rows. */
mk_status mt_experts_backward(mt_model *m, const mt_pass *p, mt_layer *l) {
  if (mt_mxfp8_mlp(m->cfg)) return mt_mxfp8_experts_backward(m, p, l);
  mk_context *ctx = m->ctx;
  mt_mlp *a = &l->mlp;
  mt_scratch *w = &m->scratch;
  mk_stream *s = p->stream;
  const mt_param *up = mt_params_find(&m->params, l->unit, MT_PARAM_EXPERT_UP_GATE);
  const mt_param *down = mt_params_find(&m->params, l->unit, MT_PARAM_EXPERT_DOWN);
  mk_tensor x;
  MK_TRY(ctx, hidden(m, p, a, &x));
  MK_TRY(
      ctx,
      mk_grouped_gemm_wgrad(
          s, &(mk_grouped_gemm_wgrad_args){
                 .dy = w->expert_d_out, .x = x, .offsets = a->ep.offsets, .dw = down->grad, .overwrite = p->fresh[1]}));
  MK_TRY(ctx, mk_grouped_gemm_dgrad(s, &(mk_grouped_gemm_dgrad_args){.dy = w->expert_d_out,
                                                                     .w = down->w,
                                                                     .packed = down->packed,
                                                                     .offsets = a->ep.offsets,
                                                                     .dx = w->d_act}));
  MK_TRY(ctx, hidden_backward(m, p, a));
  MK_TRY(ctx, mk_swiglu_bwd(s, &(mk_swiglu_bwd_args){
                                   .dy = w->d_act, .x = a->up_gate, .rows = mt_experts_rows(a), .dx = w->d_up_gate}));
  MK_TRY(ctx, mk_grouped_gemm_wgrad(s, &(mk_grouped_gemm_wgrad_args){.dy = w->d_up_gate,
                                                                     .x = a->ep.rows,
                                                                     .offsets = a->ep.offsets,
                                                                     .dw = up->grad,
                                                                     .overwrite = p->fresh[1]}));
  return mk_grouped_gemm_dgrad(
      s, &(mk_grouped_gemm_dgrad_args){
             .dy = w->d_up_gate, .w = up->w, .packed = up->packed, .offsets = a->ep.offsets, .dx = w->expert_out});
}
