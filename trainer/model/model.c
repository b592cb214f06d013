/* The model as a whole: building the layers, packing, and a microbatch's way there and back through a chunk. */
#include "trainer/model/mxfp8.h"
#include "trainer/model/recompute.h"

#include "kernels/base/heap.h"

/* Chunks of this rank and how many layers they have together. */
static mk_status create_chunks(mt_model *m, const mt_mesh_plan *plan) {
  mt_pp_shape shape = mt_pp_shape_of(m->cfg);
  shape.ranks = plan->pp;
  m->chunks = shape.chunks;
  MK_TRY(m->ctx, mk_heap_array(m->ctx, (size_t)m->chunks, sizeof *m->chunk, &m->chunk));
  for (int i = 0; i < m->chunks; i++) {
    mt_chunk *c = &m->chunk[i];
    c->stage = mt_pp_stage_make(&shape, m->cfg->layers, mt_pp_stage_at(&shape, plan->pp_rank, i));
    c->first = m->n_layers;
    for (int64_t l = 0; l < c->stage.layers; l++)
      c->moe_layers += c->stage.first_layer + l >= m->cfg->dense_layers;
    m->n_layers += (int)c->stage.layers;
    if (c->moe_layers > m->moe_chunk) m->moe_chunk = c->moe_layers;
    m->embeds = m->embeds || c->stage.embeds;
    m->predicts = m->predicts || c->stage.predicts;
  }
  return MK_OK;
}

static mk_status create_set(mt_model *m, mt_set *set) {
  for (int c = 0; c < m->chunks; c++) {
    const mt_chunk *chunk = &m->chunk[c];
    int moe = 0;
    for (int i = 0; i < (int)chunk->stage.layers; i++) {
      mt_layer *l = &set->layer[chunk->first + i];
      int place = (int)chunk->stage.first_layer + i;
      l->unit = place + 1;
      bool routed = place >= (int)m->cfg->dense_layers;
      l->moe = routed ? place - (int)m->cfg->dense_layers : -1;
      l->moe_in_chunk = routed ? moe++ : -1;
      if (routed) MK_TRY(m->ctx, mt_ep_layer_create(m->ep, &l->mlp.ep));
    }
  }
  return MK_OK;
}

static mk_status create_sets(mt_model *m, int sets) {
  MK_TRY(m->ctx, mk_heap_array(m->ctx, (size_t)sets, sizeof *m->set, &m->set));
  MK_TRY(m->ctx, mk_heap_array(m->ctx, (size_t)sets * (size_t)m->n_layers, sizeof *m->layers, &m->layers));
  m->sets = sets;
  for (int i = 0; i < sets; i++) {
    m->set[i].layer = m->layers + (ptrdiff_t)i * m->n_layers;
    MK_TRY(m->ctx, create_set(m, &m->set[i]));
  }
  return MK_OK;
}

mk_status mt_model_create(mk_context *ctx, mk_device *dev, const mt_config *cfg, const mt_mesh_plan *plan, mt_ep *ep,
                          int sets, mt_model **out) {
  mk_status st = MK_OK;
  mt_model *m = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *m, &m));
  *m = (mt_model){.ctx = ctx,
                  .dev = dev,
                  .cfg = cfg,
                  .ep = ep,
                  .tokens = cfg->rank_tokens,
                  .moe_layers = (int)mt_config_moe_layers(cfg)};
  MK_TRY_GOTO(ctx, mt_params_create(ctx, cfg, plan, &m->params), out);
  MK_TRY_GOTO(ctx, create_chunks(m, plan), out);
  MK_TRY_GOTO(ctx, create_sets(m, sets), out);
  *out = m;
  m = NULL;
out:
  mt_model_destroy(m);
  return st;
}

void mt_model_destroy(mt_model *m) {
  if (m == NULL) return;
  for (int64_t i = 0; m->layers != NULL && i < (int64_t)m->sets * m->n_layers; i++)
    mt_ep_layer_destroy(m->ep, &m->layers[i].mlp.ep);
  mk_heap_free(m->ctx, m->layers);
  mk_heap_free(m->ctx, m->set);
  mk_heap_free(m->ctx, m->chunk);
  mt_params_fini(&m->params);
  mk_heap_free(m->ctx, m);
}

mk_status mt_model_pack(mt_model *m, mk_stream *stream) {
  for (int i = 0; i < m->params.count; i++) {
    const mt_param *p = &m->params.item[i];
    MK_TRY(m->ctx, mt_mxfp8_pack(m, stream, p));
    if (!mk_tensor_present(&p->packed)) continue;
    MK_TRY(m->ctx, mk_linear_pack(stream, &(mk_linear_pack_args){.w = p->w, .packed = p->packed}));
  }
  return MK_OK;
}

/* The layers of the pass's chunk. */
static mt_layer *layers_of(const mt_model *m, const mt_pass *p) { return p->set->layer + m->chunk[p->chunk].first; }

/* Where layer i of a chunk hands its stream to: the next layer, the head, or the next stage. */
static mk_tensor stream_after(const mt_model *m, const mt_pass *p, int64_t i) {
  const mt_pp_stage *stage = &m->chunk[p->chunk].stage;
  if (i + 1 < stage->layers) return layers_of(m, p)[i + 1].x;
  return stage->predicts ? m->head.stream : p->x_out;
}

/* A chunk's last branch joins the stream here, where no norm of this rank does it. */
static mk_status hand_on(const mt_pass *p, const mk_tensor *stream, const mk_tensor *pending) {
  if (!mk_tensor_present(pending)) return MK_OK;
  return mk_add(p->stream, &(mk_add_args){.a = *stream, .b = *pending, .y = p->x_out});
}

static mk_status unit_needed(const mt_pass *p, int unit, mt_use use) {
  return p->unit_needed == NULL ? MK_OK : p->unit_needed(p->user, unit, use);
}

static mk_status layer_needed(mt_model *m, const mt_pass *p, int unit, mt_use use) {
  MK_TRY(m->ctx, unit_needed(p, unit, use));
  return mt_mxfp8_needed(m, p->stream, unit, use);
}

static mk_status unit_released(const mt_pass *p, int unit) {
  return p->unit_released == NULL ? MK_OK : p->unit_released(p->user, unit);
}

static mk_status unit_done(const mt_pass *p, int unit) {
  return p->unit_done == NULL ? MK_OK : p->unit_done(p->user, unit);
}

static mk_status embed(mt_model *m, const mt_pass *p, mk_tensor *x) {
  MK_TRY(m->ctx, unit_needed(p, 0, MT_USE_FORWARD));
  MK_TRY(m->ctx, mt_embedding_forward(m, p, x));
  return unit_released(p, 0);
}

/* The head's gradients are complete with its forward pass: in a pipeline other passes come before the backward one. */
static mk_status predict(mt_model *m, const mt_pass *p, const mk_tensor *stream, const mk_tensor *pending) {
  int head = m->params.units - 1;
  MK_TRY(m->ctx, unit_needed(p, head, p->train ? MT_USE_BOTH : MT_USE_FORWARD));
  MK_TRY(m->ctx, mt_head_forward_backward(m, p, stream, pending));
  return p->train ? unit_done(p, head) : unit_released(p, head);
}

mk_status mt_model_forward(mt_model *m, const mt_pass *p) {
  mk_context *ctx = m->ctx;
  const mt_pp_stage *stage = &m->chunk[p->chunk].stage;
  mt_layer *layer = layers_of(m, p);
  mk_tensor pending = {0};
  if (!stage->embeds) layer[0].x = p->x_in;
  mk_tensor stream = layer[0].x;
  if (stage->embeds) MK_TRY(ctx, embed(m, p, &layer[0].x));
  for (int64_t i = 0; i < stage->layers; i++) {
    MK_TRY(ctx, layer_needed(m, p, layer[i].unit, MT_USE_FORWARD));
    MK_TRY(ctx, mt_attention_forward(m, p, &layer[i], &stream, &pending));
    stream = stream_after(m, p, i);
    MK_TRY(ctx, mt_mlp_forward(m, p, &layer[i], &stream, &pending));
    MK_TRY(ctx, unit_released(p, layer[i].unit));
  }
  return stage->predicts ? predict(m, p, &stream, &pending) : hand_on(p, &stream, &pending);
}

static mk_status balance_loss(mt_model *m, const mt_pass *p) {
  const mt_config *c = m->cfg;
  int moe = m->chunk[p->chunk].moe_layers;
  if (moe == 0) return MK_OK;
  return mk_load_balance_loss(p->stream,
                              &(mk_load_balance_loss_args){.counts = mk_tensor_rows(&p->set->counts, 0, moe),
                                                           .score_sum = mk_tensor_rows(&p->set->score_sum, 0, moe),
                                                           .state = m->state,
                                                           .coef = mk_tensor_rows(&m->lb_coef, 0, moe),
                                                           .sums = m->sums,
                                                           .def = c->lb_def,
                                                           .tokens = m->tokens,
                                                           .top_k = c->top_k,
                                                           .microbatches = p->microbatches,
                                                           .weight = (float)c->lb_weight});
}

/* Recompute: the layer's activations that were not kept (recompute.h), once more from its stream. Random routing draws
 * the same numbers, because they are keyed by token. What the layer hands on is in use elsewhere already: it goes into
 * scratch. */
static mk_status replay_layer(mt_model *m, const mt_pass *p, mt_layer *l) {
  mt_pass replay = *p;
  replay.replay = true;
  replay.parts = mt_parts_again(m->cfg, l->moe < 0);
  if (replay.parts == 0) return MK_OK;
  mk_tensor pending = {0}, stream = m->scratch.d_branch;
  MK_TRY(m->ctx, mt_attention_forward(m, &replay, l, &l->x, &pending));
  return mt_mlp_forward(m, &replay, l, &stream, &pending);
}

mk_status mt_model_backward(mt_model *m, const mt_pass *p) {
  mk_context *ctx = m->ctx;
  const mt_pp_stage *stage = &m->chunk[p->chunk].stage;
  mt_layer *layer = layers_of(m, p);
  MK_TRY(ctx, balance_loss(m, p));
  for (int64_t i = stage->layers - 1; i >= 0; i--) {
    MK_TRY(ctx, layer_needed(m, p, layer[i].unit, MT_USE_BACKWARD));
    MK_TRY(ctx, replay_layer(m, p, &layer[i]));
    MK_TRY(ctx, mt_mlp_backward(m, p, &layer[i]));
    MK_TRY(ctx, mt_attention_backward(m, p, &layer[i]));
    MK_TRY(ctx, unit_done(p, layer[i].unit));
  }
  if (!stage->embeds) return MK_OK;
  MK_TRY(ctx, unit_needed(p, 0, MT_USE_BACKWARD));
  MK_TRY(ctx, mt_embedding_backward(m, p, &m->scratch.dx));
  return unit_done(p, 0);
}
