/* MXFP8 weights, scratch and linear layers. See mxfp8.h. */
#include "trainer/model/mxfp8.h"

#include "kernels/base/min_max.h"

static mk_status quantise(const mt_model *m, mk_stream *s, const mk_tensor *x, const mk_mxfp8 *out, bool transpose) {
  return mk_mxfp8_quantize(
      s, &(mk_mxfp8_quantize_args){.x = *x, .out = *out, .rule = m->cfg->mxfp8_scale, .transpose = transpose});
}

mk_status mt_mxfp8_pack(mt_model *m, mk_stream *stream, const mt_param *p) {
  if (!mk_tensor_present(&p->w_q.q) || mt_param_cut(&m->params, p)) return MK_OK;
  MK_TRY(m->ctx, quantise(m, stream, &p->w, &p->w_q, false));
  return quantise(m, stream, &p->w, &p->w_t_q, true);
}

mk_status mt_mxfp8_needed(mt_model *m, mk_stream *stream, int unit, mt_use use) {
  bool backward = use == MT_USE_BACKWARD, again = m->cfg->recompute != MT_RECOMPUTE_NONE;
  for (int role = 0; role < MT_PARAM_ROLE_COUNT; role++) {
    const mt_param *p = mt_params_find(&m->params, unit, (mt_param_role)role);
    if (p == NULL || !mk_tensor_present(&p->w_q.q) || !mt_param_cut(&m->params, p)) continue;
    if (!backward || again) MK_TRY(m->ctx, quantise(m, stream, &p->w, &p->w_q, false));
    if (backward) MK_TRY(m->ctx, quantise(m, stream, &p->w, &p->w_t_q, true));
  }
  return MK_OK;
}

/* ---- scratch ---- */

mk_mxfp8 mt_mxfp8_scratch(const mt_model *m, int i, int64_t n, int64_t k) {
  int64_t blocks = mk_mxfp8_blocks(k);
  mk_tensor q = mk_tensor_slice(&m->scratch.mx[i], 0, n * k);
  mk_tensor scale = mk_tensor_slice(&m->scratch.mx[i], n * k, n * blocks);
  return (mk_mxfp8){.q = mk_tensor_as_2d(&q, n, k), .scale = mk_tensor_as_2d(&scale, n, blocks)};
}

void mt_mxfp8_place_scratch(mt_model *m, mk_arena *work, int64_t hidden, int64_t rows) {
  const mt_config *c = m->cfg;
  int64_t t = m->tokens, first = 0, second = 0, values = 0;
  if (mt_mxfp8_attention(c)) {
    int64_t in = mk_max(c->d_model, c->heads * c->head_dim);
    int64_t out = mk_max(c->d_model, (c->heads + 2 * c->kv_heads) * c->head_dim);
    first = mk_max(mk_mxfp8_bytes(t, mk_max(in, out)), mk_mxfp8_bytes(out, t));
    second = mk_mxfp8_bytes(in, t);
  }
  if (mt_mxfp8_mlp(c)) {
    first = mk_max(first, mk_mxfp8_bytes(t, mk_max(c->d_model, 2 * hidden)));
    first = mk_max(first, mk_mxfp8_bytes(rows, mk_max(c->d_model, 2 * c->expert_hidden)));
    values = hidden > 0 ? t * mk_max(c->d_model, hidden) : 0;
  }
  m->scratch.mx[0] = first > 0 ? mk_tensor_1d(MK_U8, first) : (mk_tensor){0};
  m->scratch.mx[1] = second > 0 ? mk_tensor_1d(MK_U8, second) : (mk_tensor){0};
  m->scratch.mx_values = values > 0 ? mk_tensor_1d(mt_compute_dtype(c), values) : (mk_tensor){0};
  mk_arena_place(work, &m->scratch.mx[0]);
  mk_arena_place(work, &m->scratch.mx[1]);
  mk_arena_place(work, &m->scratch.mx_values);
}

/* ---- linear layers ---- */

mk_status mt_mxfp8_linear_forward(mt_model *m, const mt_pass *p, const mt_param *w, const mk_tensor *x,
                                  const mk_tensor *y) {
  mk_mxfp8 x_q = mt_mxfp8_scratch(m, 0, x->dim[0], x->dim[1]);
  MK_TRY(m->ctx, quantise(m, p->stream, x, &x_q, false));
  return mk_mxfp8_linear(p->stream, &(mk_mxfp8_linear_args){.a = x_q, .b = w->w_q, .y = *y});
}

/* dW (+)= dY^T x with both along the tokens. */
static mk_status wgrad_tokens(mt_model *m, const mt_pass *p, const mt_param *w, const mk_tensor *x,
                              const mk_tensor *dy) {
  mk_tensor none = {0};
  mk_mxfp8 dy_t = mt_mxfp8_scratch(m, 0, dy->dim[1], dy->dim[0]), x_t = mt_mxfp8_scratch(m, 1, x->dim[1], x->dim[0]);
  MK_TRY(m->ctx, quantise(m, p->stream, dy, &dy_t, true));
  MK_TRY(m->ctx, quantise(m, p->stream, x, &x_t, true));
  return mk_mxfp8_linear(
      p->stream, &(mk_mxfp8_linear_args){.a = dy_t, .b = x_t, .add = p->fresh[0] ? none : w->grad, .y = w->grad});
}

/* dW (+)= dY^T x in BF16, x as the forward pass multiplied it. */
static mk_status wgrad_values(mt_model *m, const mt_pass *p, const mt_param *w, const mk_tensor *x,
                              const mk_tensor *dy) {
  mk_mxfp8 x_q = mt_mxfp8_scratch(m, 0, x->dim[0], x->dim[1]);
  mk_tensor values = mk_tensor_slice(&m->scratch.mx_values, 0, mk_tensor_count(x));
  values = mk_tensor_as_2d(&values, x->dim[0], x->dim[1]);
  MK_TRY(m->ctx, quantise(m, p->stream, x, &x_q, false));
  MK_TRY(m->ctx, mk_mxfp8_dequantize(p->stream, &(mk_mxfp8_dequantize_args){.x = x_q, .y = values}));
  return mk_linear_wgrad(p->stream,
                         &(mk_linear_wgrad_args){.dy = *dy, .x = values, .dw = w->grad, .overwrite = p->fresh[0]});
}

mk_status mt_mxfp8_linear_backward(mt_model *m, const mt_pass *p, const mt_param *w, const mk_tensor *x,
                                   const mk_tensor *dy, const mk_tensor *add, const mk_tensor *dx) {
  bool attention = w->role == MT_PARAM_QKV || w->role == MT_PARAM_ATTN_O;
  MK_TRY(m->ctx, attention ? wgrad_tokens(m, p, w, x, dy) : wgrad_values(m, p, w, x, dy));
  mk_mxfp8 dy_q = mt_mxfp8_scratch(m, 0, dy->dim[0], dy->dim[1]);
  MK_TRY(m->ctx, quantise(m, p->stream, dy, &dy_q, false));
  return mk_mxfp8_linear(p->stream, &(mk_mxfp8_linear_args){.a = dy_q, .b = w->w_t_q, .add = *add, .y = *dx});
}
