/* Routed experts in MXFP8: forward and data gradients multiply quantised rows, weight gradients BF16 values read back
 * from what was saved (rows_q, act_q). Rows that arrive quantised are used as they come; others are quantised here, and
 * with mxfp8_ep rounded here where the transport itself carries BF16, so that every transport gives the same bits.
 * Where the experts weigh rows, the weights multiply what comes out of them: the hidden goes into the product
 * quantised. */
#include "trainer/model/mxfp8.h"
#include "trainer/model/recompute.h"

/* What one layer's calls share. */
typedef struct experts {
  mt_model *m;
  mk_stream *s;
  mt_mlp *a;
  const mt_param *up, *down;
  mk_tensor rows; /* i32 [1]: valid rows */
} experts;

static experts experts_of(mt_model *m, const mt_pass *p, mt_layer *l) {
  return (experts){.m = m,
                   .s = p->stream,
                   .a = &l->mlp,
                   .up = mt_params_find(&m->params, l->unit, MT_PARAM_EXPERT_UP_GATE),
                   .down = mt_params_find(&m->params, l->unit, MT_PARAM_EXPERT_DOWN),
                   .rows = mt_experts_rows(&l->mlp)};
}

static mk_status quantise(const experts *e, const mk_tensor *x, const mk_mxfp8 *out) {
  return mk_mxfp8_quantize(
      e->s, &(mk_mxfp8_quantize_args){.x = *x, .rows = e->rows, .out = *out, .rule = e->m->cfg->mxfp8_scale});
}

static mk_status read_back(const experts *e, const mk_mxfp8 *x, const mk_tensor *y) {
  return mk_mxfp8_dequantize(e->s, &(mk_mxfp8_dequantize_args){.x = *x, .rows = e->rows, .y = *y});
}

static mk_status multiply(const experts *e, const mk_mxfp8 *x, const mk_mxfp8 *w, const mk_tensor *y) {
  return mk_mxfp8_grouped(e->s, &(mk_mxfp8_grouped_args){.a = *x, .b = *w, .offsets = e->a->ep.offsets, .y = *y});
}

static mk_mxfp8 scratch_like(const experts *e, const mk_tensor *x) {
  return mt_mxfp8_scratch(e->m, 0, x->dim[0], x->dim[1]);
}

/* Rows that leave are rounded by the transport where it carries MXFP8, else here. */
static mk_status round_leaving(const experts *e, const mk_tensor *x) {
  const mt_ep *ep = e->m->ep;
  if (!ep->mxfp8_wire || mt_ep_arrives_mxfp8(ep)) return MK_OK;
  mk_mxfp8 x_q = scratch_like(e, x);
  MK_TRY(e->m->ctx, quantise(e, x, &x_q));
  return read_back(e, &x_q, x);
}

/* Where the down projection writes, and from there to where the experts write. */
static const mk_tensor *down_output(const experts *e) {
  return e->m->ep->ops->weighs_rows ? &e->a->down : mt_experts_output(e->m, e->a);
}

static mk_status weigh(const experts *e, const mk_tensor *out) {
  if (!e->m->ep->ops->weighs_rows) return MK_OK;
  return mk_row_scale_fwd(
      e->s, &(mk_row_scale_fwd_args){.x = e->a->down, .w = e->a->ep.row_weights, .rows = e->rows, .y = *out});
}

/* In place: from the gradient of the weighted rows to that of the down projection's output; and the weights'. */
static mk_status weigh_backward(const experts *e, const mk_tensor *dy) {
  return mk_row_scale_bwd(e->s, &(mk_row_scale_bwd_args){.dy = *dy,
                                                         .x = e->a->down,
                                                         .w = e->a->ep.row_weights,
                                                         .rows = e->rows,
                                                         .dx = *dy,
                                                         .dw = e->m->ep->row_dweights});
}

mk_status mt_mxfp8_experts_forward(mt_model *m, const mt_pass *p, mt_layer *l) {
  mk_context *ctx = m->ctx;
  experts e = experts_of(m, p, l);
  mt_mlp *a = &l->mlp;
  const mk_tensor *act = &m->scratch.d_act, *out = mt_experts_output(m, a);
  if (!mt_ep_arrives_mxfp8(m->ep) && mt_makes(p, MT_PART_ROWS)) {
    MK_TRY(ctx, quantise(&e, mt_ep_rows(m->ep, &a->ep), &a->ep.rows_q));
  }
  if (mt_makes(p, MT_PART_UP_GATE)) MK_TRY(ctx, multiply(&e, &a->ep.rows_q, &e.up->w_q, &a->up_gate));
  if (mt_makes(p, MT_PART_ACT)) {
    MK_TRY(ctx, mk_swiglu_fwd(p->stream, &(mk_swiglu_fwd_args){.x = a->up_gate, .rows = e.rows, .y = *act}));
    MK_TRY(ctx, quantise(&e, act, &a->act_q));
  }
  if (!mt_makes(p, MT_PART_DOWN)) return MK_OK;
  MK_TRY(ctx, multiply(&e, &a->act_q, &e.down->w_q, down_output(&e)));
  MK_TRY(ctx, weigh(&e, out));
  return round_leaving(&e, out);
}

static mk_status wgrad(const experts *e, const mt_pass *p, const mk_tensor *dy, const mk_tensor *x, const mt_param *w) {
  return mk_grouped_gemm_wgrad(
      e->s, &(mk_grouped_gemm_wgrad_args){
                .dy = *dy, .x = *x, .offsets = e->a->ep.offsets, .dw = w->grad, .overwrite = p->fresh[1]});
}

/* The output's gradient along D: as it arrived, or quantised here; expert_d_out holds the values either way. */
static mk_status take_gradient(const experts *e, mk_mxfp8 *dy_q) {
  const mt_ep *ep = e->m->ep;
  const mk_tensor *dy = &e->m->scratch.expert_d_out;
  if (mt_ep_arrives_mxfp8(ep)) {
    *dy_q = ep->d_out_q;
    return read_back(e, dy_q, dy);
  }
  *dy_q = scratch_like(e, dy);
  if (ep->mxfp8_wire || !ep->ops->weighs_rows) MK_TRY(e->m->ctx, quantise(e, dy, dy_q));
  if (ep->mxfp8_wire) MK_TRY(e->m->ctx, read_back(e, dy_q, dy));
  if (!ep->ops->weighs_rows) return MK_OK;
  MK_TRY(e->m->ctx, weigh_backward(e, dy));
  return quantise(e, dy, dy_q);
}

mk_status mt_mxfp8_experts_backward(mt_model *m, const mt_pass *p, mt_layer *l) {
  mk_context *ctx = m->ctx;
  experts e = experts_of(m, p, l);
  mt_mlp *a = &l->mlp;
  mt_scratch *w = &m->scratch;
  mk_mxfp8 dy_q;
  MK_TRY(ctx, take_gradient(&e, &dy_q));
  MK_TRY(ctx, read_back(&e, &a->act_q, &w->d_act));
  MK_TRY(ctx, wgrad(&e, p, &w->expert_d_out, &w->d_act, e.down));
  MK_TRY(ctx, multiply(&e, &dy_q, &e.down->w_t_q, &w->d_act));
  MK_TRY(ctx, mk_swiglu_bwd(p->stream, &(mk_swiglu_bwd_args){
                                           .dy = w->d_act, .x = a->up_gate, .rows = e.rows, .dx = w->d_up_gate}));
  MK_TRY(ctx, read_back(&e, &a->ep.rows_q, &w->expert_d_out)); /* its gradient is spent */
  MK_TRY(ctx, wgrad(&e, p, &w->d_up_gate, &w->expert_d_out, e.up));
  mk_mxfp8 d_up_q = scratch_like(&e, &w->d_up_gate);
  MK_TRY(ctx, quantise(&e, &w->d_up_gate, &d_up_q));
  MK_TRY(ctx, multiply(&e, &d_up_q, &e.up->w_t_q, &w->expert_out));
  return round_leaving(&e, &w->expert_out);
}
