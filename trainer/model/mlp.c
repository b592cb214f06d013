/* The MLP branch: [norm] -> router, routed experts and shared expert (or the dense MLP) -> sum -> [norm].
 * The out norm is applied to the sum of routed and shared, not to each (Olmo-core 3.0.0 olmo_core/nn/ddp/block.py). */
#include "trainer/model/norm.h"
#include "trainer/model/recompute.h"

static const mk_tensor *branch_input(const mt_layer *l) {
  return mk_tensor_present(&l->mlp.in) ? &l->mlp.in : &l->x_mid;
}

static bool has_shared(const mt_layer *l) { return mk_tensor_present(&l->mlp.shared_act); }

/* y [T,D] = down(swiglu(up_gate(x))) of the shared expert or the dense MLP. */
static mk_status shared_forward(mt_model *m, const mt_pass *p, mt_layer *l, const mk_tensor *x, const mk_tensor *y) {
  mk_context *ctx = m->ctx;
  mt_mlp *a = &l->mlp;
  if (mt_makes(p, MT_PART_SHARED_UP_GATE)) {
    MK_TRY(ctx, mt_linear_forward(m, p, l->unit, MT_PARAM_SHARED_UP_GATE, x, &a->shared_up_gate));
  }
  if (mt_makes(p, MT_PART_SHARED_ACT)) {
    MK_TRY(ctx, mk_swiglu_fwd(p->stream, &(mk_swiglu_fwd_args){.x = a->shared_up_gate, .y = a->shared_act}));
  }
  if (!mt_makes(p, MT_PART_MLP_OUT)) return MK_OK;
  return mt_linear_forward(m, p, l->unit, MT_PARAM_SHARED_DOWN, &a->shared_act, y);
}

/* dx [T,D] = (add) + gradient through the shared expert or the dense MLP. */
static mk_status shared_backward(mt_model *m, const mt_pass *p, mt_layer *l, const mk_tensor *x, const mk_tensor *dy,
                                 const mk_tensor *add, const mk_tensor *dx) {
  mk_context *ctx = m->ctx;
  mt_mlp *a = &l->mlp;
  mt_scratch *w = &m->scratch;
  int64_t t = m->tokens, f = a->shared_act.dim[1];
  mk_tensor d_act = mk_tensor_as_2d(&w->d_shared_act, t, f);
  mk_tensor d_up_gate = mk_tensor_as_2d(&w->d_shared_up_gate, t, 2 * f);
  MK_TRY(ctx, mt_linear_backward(m, p, l->unit, MT_PARAM_SHARED_DOWN, &a->shared_act, dy, NULL, &d_act));
  MK_TRY(ctx, mk_swiglu_bwd(p->stream, &(mk_swiglu_bwd_args){.dy = d_act, .x = a->shared_up_gate, .dx = d_up_gate}));
  return mt_linear_backward(m, p, l->unit, MT_PARAM_SHARED_UP_GATE, x, &d_up_gate, add, dx);
}

static bool hybrid(const mt_model *m, const mt_layer *l) { return m->cfg->norm == MT_NORM_HYBRID && l->moe >= 0; }

/* a.out = routed(x) + (shared). */
static mk_status experts_forward(mt_model *m, const mt_pass *p, mt_layer *l, const mk_tensor *x,
                                 const mk_tensor *shared) {
  mk_context *ctx = m->ctx;
  mt_mlp *a = &l->mlp;
  MK_TRY(ctx, mt_router_forward(m, p, l, x));
  mk_tensor sums = mt_pass_sums(m, p);
  if (mt_makes(p, MT_PART_ROWS)) {
    MK_TRY(ctx, m->ep->ops->dispatch(m->ep, p->stream, &a->ep, x, &sums, p->train));
  }
  MK_TRY(ctx, mt_experts_forward(m, p, l));
  if (!mt_makes(p, MT_PART_MLP_OUT)) return MK_OK;
  if (!mt_makes(p, MT_PART_DOWN)) return mt_ep_weigh(p->stream, &a->ep, &a->ep.returned, shared, &a->out);
  return m->ep->ops->combine(m->ep, p->stream, &a->ep, mt_experts_output(m, a), shared, &a->out);
}

static mk_status routed_forward(mt_model *m, const mt_pass *p, mt_layer *l, const mk_tensor *x) {
  mk_tensor shared = {0};
  if (has_shared(l)) {
    shared = m->scratch.shared_out;
    MK_TRY(m->ctx, shared_forward(m, p, l, x, &shared));
  }
  return experts_forward(m, p, l, x, &shared);
}

/* The experts read the block's input; the shared expert is a branch of its own
 * (Olmo-core 3.0.0 olmo_core/nn/transformer/block.py, moe_hybrid_reordered_norm). */
static mk_status hybrid_forward(mt_model *m, const mt_pass *p, mt_layer *l, const mk_tensor *x_out) {
  mk_context *ctx = m->ctx;
  mt_mlp *a = &l->mlp;
  mk_tensor none = {0};
  const mk_tensor *stream = &l->x_mid;
  if (has_shared(l)) {
    MK_TRY(ctx, shared_forward(m, p, l, &l->x_mid, &a->ff_out));
    if (mt_makes(p, MT_PART_X_OUT)) {
      MK_TRY(ctx, mt_norm_out(m, p, l->unit, MT_PARAM_FF_OUT_NORM, &a->ff_out, &l->x_mid, x_out, &a->ff_rstd));
    }
    stream = x_out;
  }
  MK_TRY(ctx, experts_forward(m, p, l, &l->x, &none));
  if (!mt_makes(p, MT_PART_X_OUT)) return MK_OK;
  return mt_norm_out(m, p, l->unit, MT_PARAM_MLP_OUT_NORM, &a->out, stream, x_out, &a->out_rstd);
}

/* In: the stream and, with pre-norm, the attention branch still to be added. Out: x_out is where the next part finds
 * the stream; *pending is the branch that it has to add (absent unless pre-norm). */
mk_status mt_mlp_forward(mt_model *m, const mt_pass *p, mt_layer *l, mk_tensor *x_out, mk_tensor *pending) {
  mk_context *ctx = m->ctx;
  mt_mlp *a = &l->mlp;
  bool pre = m->cfg->norm == MT_NORM_PRE;
  *pending = (mk_tensor){0};
  if (hybrid(m, l)) return hybrid_forward(m, p, l, x_out);
  if (mk_tensor_present(&a->in) && mt_makes(p, MT_PART_MLP_IN)) {
    MK_TRY(ctx, mt_norm_in(m, p, l->unit, MT_PARAM_MLP_IN_NORM, pre ? &l->x : &l->x_mid, pre ? &l->attn.out : NULL,
                           &l->x_mid, &a->in, &a->in_rstd));
  }
  if (l->moe < 0) {
    MK_TRY(ctx, shared_forward(m, p, l, branch_input(l), &a->out));
  } else {
    MK_TRY(ctx, routed_forward(m, p, l, branch_input(l)));
  }
  if (pre) {
    *pending = a->out;
    *x_out = l->x_mid;
    return MK_OK;
  }
  if (!mt_makes(p, MT_PART_X_OUT)) return MK_OK;
  return mt_norm_out(m, p, l->unit, MT_PARAM_MLP_OUT_NORM, &a->out, &l->x_mid, x_out, &a->out_rstd);
}

/* dx [T,D] = (add) + gradient through the routed experts, without the router's. */
static mk_status experts_backward(mt_model *m, const mt_pass *p, mt_layer *l, const mk_tensor *dy, const mk_tensor *add,
                                  mk_tensor *dx) {
  mk_context *ctx = m->ctx;
  mt_mlp *a = &l->mlp;
  mt_scratch *w = &m->scratch;
  MK_TRY(ctx, m->ep->ops->combine_backward(m->ep, p->stream, &a->ep, dy, &w->expert_d_out, &w->dweights));
  MK_TRY(ctx, mt_experts_backward(m, p, l));
  return m->ep->ops->dispatch_backward(m->ep, p->stream, &a->ep, &w->expert_out, add, dx, &w->dweights);
}

static mk_status routed_backward(mt_model *m, const mt_pass *p, mt_layer *l, const mk_tensor *dy, const mk_tensor *add,
                                 mk_tensor *dx) {
  const mk_tensor *x = branch_input(l);
  MK_TRY(m->ctx, experts_backward(m, p, l, dy, add, dx));
  if (has_shared(l)) MK_TRY(m->ctx, shared_backward(m, p, l, x, dy, dx, dx));
  return mt_router_backward(m, p, l, x, dx, true);
}

/* d_in holds the gradient of the stream: exchange the buffers instead of copying. */
static void take_d_in(mt_scratch *w) {
  mk_tensor swap = w->dx;
  w->dx = w->d_in;
  w->d_in = swap;
}

/* In: scratch.dx, d_branch = gradient of a.out. The experts' part goes to d_moe, which joins at the block's input. */
static mk_status hybrid_backward(mt_model *m, const mt_pass *p, mt_layer *l) {
  mk_context *ctx = m->ctx;
  mt_mlp *a = &l->mlp;
  mt_scratch *w = &m->scratch;
  mk_tensor none = {0};
  MK_TRY(ctx, experts_backward(m, p, l, &w->d_branch, &none, &w->d_moe));
  MK_TRY(ctx, mt_router_backward(m, p, l, &l->x, &w->d_moe, true));
  if (!has_shared(l)) return MK_OK;
  MK_TRY(ctx,
         mt_norm_backward(m, p, l->unit, MT_PARAM_FF_OUT_NORM, &a->ff_out, &a->ff_rstd, &w->dx, NULL, &w->d_branch));
  MK_TRY(ctx, shared_backward(m, p, l, &l->x_mid, &w->d_branch, &w->dx, &w->d_in));
  take_d_in(w);
  return MK_OK;
}

/* After the attention's backward pass scratch.dx is the gradient of the block's input but for what the experts read. */
mk_status mt_mlp_backward_join(mt_model *m, const mt_pass *p, mt_layer *l) {
  mt_scratch *w = &m->scratch;
  return hybrid(m, l) ? mk_add(p->stream, &(mk_add_args){.a = w->dx, .b = w->d_moe, .y = w->dx}) : MK_OK;
}

/* In: scratch.dx = gradient of the layer's output stream. Out: scratch.dx = d x_mid. */
mk_status mt_mlp_backward(mt_model *m, const mt_pass *p, mt_layer *l) {
  mk_context *ctx = m->ctx;
  mt_mlp *a = &l->mlp;
  mt_scratch *w = &m->scratch;
  const mk_tensor *dy = &w->dx;
  mk_tensor none = {0};
  if (m->cfg->norm != MT_NORM_PRE) {
    MK_TRY(ctx,
           mt_norm_backward(m, p, l->unit, MT_PARAM_MLP_OUT_NORM, &a->out, &a->out_rstd, &w->dx, NULL, &w->d_branch));
    dy = &w->d_branch;
  }
  if (hybrid(m, l)) return hybrid_backward(m, p, l);
  bool normed = mk_tensor_present(&a->in);
  const mk_tensor *add = normed ? &none : &w->dx; /* without an in norm the stream's gradient joins here */
  if (l->moe < 0) {
    MK_TRY(ctx, shared_backward(m, p, l, branch_input(l), dy, add, &w->d_in));
  } else {
    MK_TRY(ctx, routed_backward(m, p, l, dy, add, &w->d_in));
  }
  if (normed) {
    return mt_norm_backward(m, p, l->unit, MT_PARAM_MLP_IN_NORM, &l->x_mid, &a->in_rstd, &w->d_in, &w->dx, &w->dx);
  }
  take_d_in(w);
  return MK_OK;
}
