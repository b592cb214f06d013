/* The model as a whole: building the layers, initial values, packing, and a microbatch's way there and back. */
#include "trainer/model/model.h"

#include "kernels/base/heap.h"

static mk_status create_layers(mt_model *m) {
  MK_TRY(m->ctx, mk_heap_array(m->ctx, (size_t)m->cfg->layers, sizeof *m->layer, &m->layer));
  for (int i = 0; i < m->cfg->layers; i++) {
    mt_layer *l = &m->layer[i];
    l->unit = i + 1;
    l->moe = i < m->cfg->dense_layers ? -1 : m->moe_layers++;
    if (l->moe >= 0) MK_TRY(m->ctx, mt_ep_layer_create(m->ep, &l->mlp.ep));
  }
  return MK_OK;
}

mk_status mt_model_create(mk_context *ctx, mk_device *dev, const mt_config *cfg, const mt_mesh_plan *plan, mt_ep *ep,
                          mt_model **out) {
  mk_status st = MK_OK;
  mt_model *m = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *m, &m));
  *m = (mt_model){.ctx = ctx, .dev = dev, .cfg = cfg, .ep = ep, .tokens = cfg->rank_tokens};
  MK_TRY_GOTO(ctx, mt_params_create(ctx, cfg, plan, &m->params), out);
  MK_TRY_GOTO(ctx, create_layers(m), out);
  *out = m;
  m = NULL;
out:
  mt_model_destroy(m);
  return st;
}

void mt_model_destroy(mt_model *m) {
  if (m == NULL) return;
  for (int i = 0; m->layer != NULL && i < m->cfg->layers; i++)
    mt_ep_layer_destroy(m->ep, &m->layer[i].mlp.ep);
  mk_heap_free(m->ctx, m->layer);
  mt_params_fini(&m->params);
  mk_heap_free(m->ctx, m);
}

mk_status mt_model_pack(mt_model *m, mk_stream *stream) {
  for (int i = 0; i < m->params.count; i++) {
    const mt_param *p = &m->params.item[i];
    if (!mk_tensor_present(&p->packed)) continue;
    MK_TRY(m->ctx, mk_linear_pack(stream, &(mk_linear_pack_args){.w = p->w, .packed = p->packed}));
  }
  return MK_OK;
}

/* Where layer i hands its stream to: the next layer, or the head. */
static mk_tensor *stream_after(mt_model *m, int i) {
  return i + 1 < m->cfg->layers ? &m->layer[i + 1].x : &m->head.stream;
}

static mk_status forward(mt_model *m, const mt_pass *p) {
  mk_context *ctx = m->ctx;
  mk_tensor pending = {0};
  mk_tensor stream = m->layer[0].x;
  MK_TRY(ctx, mt_embedding_forward(m, p, &m->layer[0].x));
  for (int i = 0; i < m->cfg->layers; i++) {
    mt_layer *l = &m->layer[i];
    MK_TRY(ctx, mt_attention_forward(m, p, l, &stream, &pending));
    stream = *stream_after(m, i);
    MK_TRY(ctx, mt_mlp_forward(m, p, l, &stream, &pending));
  }
  return mt_head_forward_backward(m, p, &stream, &pending);
}

static mk_status balance_loss(mt_model *m, const mt_pass *p) {
  if (m->moe_layers == 0) return MK_OK;
  const mt_config *c = m->cfg;
  return mk_load_balance_loss(p->stream, &(mk_load_balance_loss_args){.counts = m->counts,
                                                                      .score_sum = m->score_sum,
                                                                      .state = m->state,
                                                                      .coef = m->lb_coef,
                                                                      .sums = m->sums,
                                                                      .def = c->lb_def,
                                                                      .tokens = m->tokens,
                                                                      .top_k = c->top_k,
                                                                      .microbatches = p->microbatches,
                                                                      .weight = (float)c->lb_weight});
}

static mk_status unit_done(const mt_pass *p, int unit) {
  return p->unit_done == NULL ? MK_OK : p->unit_done(p->user, unit);
}

/* Recompute: the layer's activations once more from its stream. Random routing draws the same numbers again, because
 * they are keyed by token; rows travel again (Chen et al. 2016, arXiv 1604.06174). */
static mk_status replay_layer(mt_model *m, const mt_pass *p, int i) {
  mt_layer *l = &m->layer[i];
  mt_pass replay = *p;
  replay.replay = true;
  mk_tensor pending = {0}, stream = *stream_after(m, i);
  MK_TRY(m->ctx, mt_attention_forward(m, &replay, l, &l->x, &pending));
  return mt_mlp_forward(m, &replay, l, &stream, &pending);
}

static mk_status backward(mt_model *m, const mt_pass *p) {
  mk_context *ctx = m->ctx;
  MK_TRY(ctx, balance_loss(m, p));
  MK_TRY(ctx, unit_done(p, m->params.units - 1));
  for (int i = (int)m->cfg->layers - 1; i >= 0; i--) {
    mt_layer *l = &m->layer[i];
    if (m->cfg->recompute == MT_RECOMPUTE_FULL) MK_TRY(ctx, replay_layer(m, p, i));
    MK_TRY(ctx, mt_mlp_backward(m, p, l));
    MK_TRY(ctx, mt_attention_backward(m, p, l));
    MK_TRY(ctx, unit_done(p, l->unit));
  }
  MK_TRY(ctx, mt_embedding_backward(m, p, &m->scratch.dx));
  return unit_done(p, 0);
}

mk_status mt_model_run(mt_model *m, const mt_pass *pass) {
  MK_TRY(m->ctx, forward(m, pass));
  return pass->train ? backward(m, pass) : MK_OK;
}
