/* The attention branch: [norm] -> q,k,v projection -> QK-norm and RoPE -> causal GQA -> output projection -> [norm].
 *
 * In: the stream x [T,D] = l->x, or with pre-norm a stream and a branch whose sum becomes l->x here. Out: x_mid [T,D],
 * except that with pre-norm the MLP's norm adds the branch (attn.out) itself. */
#include "trainer/model/norm.h"
#include "trainer/model/recompute.h"

static mk_qk_shape shape_of(const mt_config *c) {
  return (mk_qk_shape){.heads = c->heads, .kv_heads = c->kv_heads, .head_dim = c->head_dim, .seq_len = c->seq_len};
}

static mk_tensor gain(const mt_model *m, int unit, mt_param_role role, bool gradient) {
  const mt_param *p = mt_params_find(&m->params, unit, role);
  if (p == NULL) return (mk_tensor){0};
  return gradient ? p->grad : p->w;
}

/* What the projection reads: N(x) [T,D], or the stream itself when reordered. */
static const mk_tensor *branch_input(const mt_layer *l) { return mk_tensor_present(&l->attn.in) ? &l->attn.in : &l->x; }

static mk_status qkr_forward(mt_model *m, const mt_pass *p, mt_layer *l) {
  const mt_config *c = m->cfg;
  mt_attention *a = &l->attn;
  return mk_qk_norm_rope_fwd(p->stream, &(mk_qk_norm_rope_fwd_args){.qkv = a->qkv,
                                                                    .q_gain = gain(m, l->unit, MT_PARAM_Q_NORM, false),
                                                                    .k_gain = gain(m, l->unit, MT_PARAM_K_NORM, false),
                                                                    .rope = m->rope,
                                                                    .out = a->qkr,
                                                                    .rstd = a->qk_rstd,
                                                                    .shape = shape_of(c),
                                                                    .norm = c->qk_norm,
                                                                    .eps = (float)c->norm_eps,
                                                                    .clip = (float)c->clip_qkv});
}

mk_status mt_attention_forward(mt_model *m, const mt_pass *p, mt_layer *l, const mk_tensor *x,
                               const mk_tensor *pending) {
  mk_context *ctx = m->ctx;
  mt_attention *a = &l->attn;
  const mt_config *c = m->cfg;
  if (mk_tensor_present(&a->in) && mt_makes(p, MT_PART_ATTN_IN)) {
    MK_TRY(ctx, mt_norm_in(m, p, l->unit, MT_PARAM_ATTN_IN_NORM, x, pending, &l->x, &a->in, &a->in_rstd));
  }
  if (mt_makes(p, MT_PART_QKV)) {
    MK_TRY(ctx, mt_linear_forward(m, p, l->unit, MT_PARAM_QKV, branch_input(l), &a->qkv));
  }
  if (mt_makes(p, MT_PART_QKR)) MK_TRY(ctx, qkr_forward(m, p, l));
  if (mt_makes(p, MT_PART_ATTENTION)) {
    MK_TRY(ctx, mk_attention_fwd(
                    p->stream,
                    &(mk_attention_fwd_args){
                        .qkv = a->qkr, .o = a->o, .lse = a->lse, .work = m->scratch.attn_work, .shape = shape_of(c)}));
  }
  if (mt_makes(p, MT_PART_ATTN_OUT)) {
    MK_TRY(ctx, mt_linear_forward(m, p, l->unit, MT_PARAM_ATTN_O, &a->o, &a->out));
  }
  if (c->norm == MT_NORM_PRE || !mt_makes(p, MT_PART_X_MID)) return MK_OK;
  return mt_norm_out(m, p, l->unit, MT_PARAM_ATTN_OUT_NORM, &a->out, &l->x, &l->x_mid, &a->out_rstd);
}

/* In: scratch.dx = d x_mid. Out: scratch.dx = d x. */
mk_status mt_attention_backward(mt_model *m, const mt_pass *p, mt_layer *l) {
  mk_context *ctx = m->ctx;
  mt_attention *a = &l->attn;
  mt_scratch *w = &m->scratch;
  const mt_config *c = m->cfg;
  const mk_tensor *d_out = &w->dx; /* pre: the branch's gradient is the stream's */
  if (c->norm != MT_NORM_PRE) {
    MK_TRY(ctx,
           mt_norm_backward(m, p, l->unit, MT_PARAM_ATTN_OUT_NORM, &a->out, &a->out_rstd, &w->dx, NULL, &w->d_branch));
    d_out = &w->d_branch;
  }
  MK_TRY(ctx, mt_linear_backward(m, p, l->unit, MT_PARAM_ATTN_O, &a->o, d_out, NULL, &w->d_o));
  MK_TRY(ctx, mk_attention_bwd(p->stream, &(mk_attention_bwd_args){.d_o = w->d_o,
                                                                   .qkv = a->qkr,
                                                                   .o = a->o,
                                                                   .lse = a->lse,
                                                                   .dqkv = w->dqkv,
                                                                   .work = w->attn_work,
                                                                   .shape = shape_of(c)}));
  MK_TRY(ctx,
         mk_qk_norm_rope_bwd(p->stream, &(mk_qk_norm_rope_bwd_args){.dout = w->dqkv,
                                                                    .qkv = a->qkv,
                                                                    .q_gain = gain(m, l->unit, MT_PARAM_Q_NORM, false),
                                                                    .k_gain = gain(m, l->unit, MT_PARAM_K_NORM, false),
                                                                    .rope = m->rope,
                                                                    .rstd = a->qk_rstd,
                                                                    .dqkv = w->dqkv,
                                                                    .dq_gain = gain(m, l->unit, MT_PARAM_Q_NORM, true),
                                                                    .dk_gain = gain(m, l->unit, MT_PARAM_K_NORM, true),
                                                                    .shape = shape_of(c),
                                                                    .norm = c->qk_norm,
                                                                    .eps = (float)c->norm_eps,
                                                                    .clip = (float)c->clip_qkv}));
  bool normed = mk_tensor_present(&a->in);
  MK_TRY(ctx, mt_linear_backward(m, p, l->unit, MT_PARAM_QKV, branch_input(l), &w->dqkv, normed ? NULL : &w->dx,
                                 normed ? &w->d_in : &w->dx));
  if (!normed) return mt_mlp_backward_join(m, p, l);
  return mt_norm_backward(m, p, l->unit, MT_PARAM_ATTN_IN_NORM, &l->x, &a->in_rstd, &w->d_in, &w->dx, &w->dx);
}
