/* Where the tensors of a model live. Called twice per arena (see arena.h); the order decides the layout. */
#include "trainer/model/mxfp8.h"

typedef struct placer {
  mt_model *m;
  mk_arena *act, *work, *comm;
  mk_dtype c, f; /* compute and master dtype */
} placer;

static void put2(mk_arena *arena, mk_tensor *t, mk_dtype dtype, int64_t d0, int64_t d1) {
  *t = mk_tensor_2d(dtype, d0, d1);
  mk_arena_place(arena, t);
}

static void put1(mk_arena *arena, mk_tensor *t, mk_dtype dtype, int64_t d0) {
  *t = mk_tensor_1d(dtype, d0);
  mk_arena_place(arena, t);
}

static void place_attention(const placer *w, mt_attention *a) {
  const mt_config *c = w->m->cfg;
  int64_t t = w->m->tokens, width = (c->heads + 2 * c->kv_heads) * c->head_dim;
  if (c->norm != MT_NORM_REORDERED) {
    put2(w->act, &a->in, w->c, t, c->d_model);
    put1(w->act, &a->in_rstd, w->f, t);
  }
  put2(w->act, &a->qkv, w->c, t, width);
  put2(w->act, &a->qkr, w->c, t, width);
  put2(w->act, &a->qk_rstd, w->f, t, c->heads + c->kv_heads);
  put2(w->act, &a->o, w->c, t, c->heads * c->head_dim);
  put2(w->act, &a->lse, w->f, c->heads, t);
  put2(w->act, &a->out, w->c, t, c->d_model);
  if (c->norm != MT_NORM_PRE) put1(w->act, &a->out_rstd, w->f, t);
}

static void place_routed(const placer *w, mt_mlp *a) {
  const mt_config *c = w->m->cfg;
  int64_t t = w->m->tokens, n = w->m->ep->rows_max;
  put2(w->act, &a->logits, w->f, t, c->experts);
  put2(w->act, &a->scores, w->f, t, c->experts);
  put1(w->act, &a->lse, w->f, t);
  mt_ep_layer_place(w->m->ep, &a->ep, w->act, w->comm);
  put2(w->act, &a->up_gate, w->c, n, 2 * c->expert_hidden);
  if (mt_mxfp8_mlp(c)) {
    a->act_q = mk_mxfp8_shape(0, n, c->expert_hidden);
    mt_mxfp8_place(w->act, &a->act_q);
  } else {
    put2(w->act, &a->act, w->c, n, c->expert_hidden);
  }
}

static void place_mlp(const placer *w, mt_mlp *a, bool dense) {
  const mt_config *c = w->m->cfg;
  int64_t t = w->m->tokens, hidden = dense ? c->dense_hidden : c->shared_hidden;
  if (c->norm != MT_NORM_REORDERED) {
    put2(w->act, &a->in, w->c, t, c->d_model);
    put1(w->act, &a->in_rstd, w->f, t);
  }
  if (!dense) place_routed(w, a);
  if (hidden > 0) {
    put2(w->act, &a->shared_up_gate, w->c, t, 2 * hidden);
    put2(w->act, &a->shared_act, w->c, t, hidden);
  }
  put2(w->act, &a->out, w->c, t, c->d_model);
  if (c->norm != MT_NORM_PRE) put1(w->act, &a->out_rstd, w->f, t);
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static bool is_dense(const mt_layer *l) { return l->moe < 0; }

/* First layer of a kind in set 0, or NULL where the rank has none. */
static mt_layer *first_of_kind(const mt_model *m, bool dense) {
  for (int i = 0; i < m->n_layers; i++) {
    if (is_dense(&m->layers[i]) == dense) return &m->layers[i];
  }
  return NULL;
}

static bool has_kind(const mt_model *m, bool dense) { return first_of_kind(m, dense) != NULL; }

static void place_scratch(const placer *w) {
  mt_model *m = w->m;
  const mt_config *c = m->cfg;
  mt_scratch *s = &m->scratch;
  int64_t t = m->tokens, n = m->moe_chunk > 0 ? m->ep->rows_max : 0;
  int64_t shared = larger(has_kind(m, true) ? c->dense_hidden : 0, m->moe_chunk > 0 ? c->shared_hidden : 0);
  mk_qk_shape shape = {.heads = c->heads, .kv_heads = c->kv_heads, .head_dim = c->head_dim, .seq_len = c->seq_len};
  put2(w->work, &s->dx, w->c, t, c->d_model);
  put2(w->work, &s->d_branch, w->c, t, c->d_model);
  put2(w->work, &s->d_in, w->c, t, c->d_model);
  put2(w->work, &s->dqkv, w->c, t, (c->heads + 2 * c->kv_heads) * c->head_dim);
  put2(w->work, &s->d_o, w->c, t, c->heads * c->head_dim);
  put1(w->work, &s->attn_work, MK_U8, (int64_t)mk_attention_work_bytes(m->dev, t, &shape));
  put2(w->work, &s->d_act, w->c, n, c->expert_hidden);
  put2(w->work, &s->d_up_gate, w->c, n, 2 * c->expert_hidden);
  if (mk_tensor_present(&m->ep->expert_out)) { /* peers read and write them */
    s->expert_out = m->ep->expert_out;
    s->expert_d_out = m->ep->expert_d_out;
  } else {
    put2(w->work, &s->expert_out, w->c, n, c->d_model);
    put2(w->work, &s->expert_d_out, w->c, n, c->d_model);
  }
  put2(w->work, &s->d_shared_act, w->c, t, shared);
  put2(w->work, &s->d_shared_up_gate, w->c, t, 2 * shared);
  put2(w->work, &s->shared_out, w->c, t, c->d_model);
  put2(w->work, &s->dlogits, w->f, t, c->experts);
  put2(w->work, &s->dweights, w->f, t, c->top_k);
  mt_mxfp8_place_scratch(m, w->work);
}

static int64_t head_chunk(const mt_config *c) {
  enum { LARGEST_LOGITS = 1 << 22 }; /* elements of a chunk that still fit the outer caches */
  int64_t chunk = c->head_chunk > 0 ? c->head_chunk : LARGEST_LOGITS / c->vocab / 64 * 64;
  if (chunk < 64) chunk = 64;
  return chunk < c->rank_tokens ? chunk : c->rank_tokens;
}

static void place_head(const placer *w) {
  mt_model *m = w->m;
  mt_head *h = &m->head;
  if (!m->predicts) return;
  h->chunk = head_chunk(m->cfg);
  put2(w->act, &h->stream, w->c, m->tokens, m->cfg->d_model);
  put2(w->act, &h->normed, w->c, m->tokens, m->cfg->d_model);
  put1(w->act, &h->rstd, w->f, m->tokens);
  put2(w->work, &h->d_normed, w->c, m->tokens, m->cfg->d_model);
  put2(w->work, &h->logits, w->c, h->chunk, m->cfg->vocab);
  put2(w->work, &h->losses, w->f, 2, h->chunk);
}

static mk_tensor balance_tensor(const mt_model *m, mk_dtype dtype) {
  const mt_config *c = m->cfg;
  int64_t groups = c->lb_granularity == MT_LB_INSTANCE ? m->tokens / c->seq_len : 1;
  return mk_tensor_3d(dtype, m->moe_chunk, groups, c->experts);
}

static void place_step(const placer *w) {
  mt_model *m = w->m;
  const mt_config *c = m->cfg;
  put2(w->work, &m->rope, w->f, c->seq_len, c->head_dim);
  put1(w->work, &m->state, MK_U8, (int64_t)sizeof(mk_step_state));
  put1(w->work, &m->eval_sums, MK_F64, MK_SUM_COUNT);
  m->lb_coef = balance_tensor(m, w->f);
  mk_arena_place(w->work, &m->lb_coef);
  put2(w->work, &m->step_counts, MK_I64, m->moe_layers, c->experts);
}

/* The same tensors as another layer of the same kind; what the host keeps for the exchange stays the layer's own. */
static void share_layer(mt_layer *l, const mt_layer *from) {
  mt_ep_layer host = l->mlp.ep;
  l->x_mid = from->x_mid;
  l->attn = from->attn;
  l->mlp = from->mlp;
  l->mlp.ep.send_rows = host.send_rows;
  l->mlp.ep.recv_rows = host.recv_rows;
  l->mlp.ep.n_recv = host.n_recv;
}

/* With full recompute only a layer's stream outlives its forward pass: layers of one kind share the rest, in all sets.
 */
static void place_layer(const placer *w, mt_layer *l) {
  mt_layer *first = first_of_kind(w->m, is_dense(l));
  if (w->m->cfg->recompute == MT_RECOMPUTE_FULL && l != first) {
    share_layer(l, first);
    return;
  }
  put2(w->act, &l->x_mid, w->c, w->m->tokens, w->m->cfg->d_model);
  place_attention(w, &l->attn);
  place_mlp(w, &l->mlp, is_dense(l));
}

/* The stream into a chunk is what the stage before has sent; only the first stage makes its own. */
static void place_chunk(const placer *w, mt_set *set, const mt_chunk *chunk) {
  mt_model *m = w->m;
  const mt_config *c = m->cfg;
  if (chunk->stage.embeds) {
    put1(w->act, &set->ids, MK_I32, m->tokens);
    if (c->embed_norm) {
      put2(w->act, &set->embedding.raw, w->c, m->tokens, c->d_model);
      put1(w->act, &set->embedding.rstd, w->f, m->tokens);
    }
  }
  for (int i = 0; i < (int)chunk->stage.layers; i++) {
    mt_layer *l = &set->layer[chunk->first + i];
    if (i > 0 || chunk->stage.embeds) put2(w->act, &l->x, w->c, m->tokens, c->d_model);
    if (c->recompute != MT_RECOMPUTE_FULL) place_layer(w, l);
  }
  if (!chunk->stage.predicts) return;
  put1(w->act, &set->labels, MK_I32, m->tokens);
  if (m->sets > 1) put2(w->act, &set->d_stream, w->c, m->tokens, c->d_model);
}

/* Chunks take turns in a set: each starts where the set starts, and the set ends where the longest does. */
static void place_set(const placer *w, mt_set *set) {
  mt_model *m = w->m;
  size_t act = mk_arena_mark(w->act), comm = mk_arena_mark(w->comm), act_end = act, comm_end = comm;
  for (int i = 0; i < m->chunks; i++) {
    mk_arena_reset(w->act, act);
    mk_arena_reset(w->comm, comm);
    place_chunk(w, set, &m->chunk[i]);
    act_end = mk_arena_mark(w->act) > act_end ? mk_arena_mark(w->act) : act_end;
    comm_end = mk_arena_mark(w->comm) > comm_end ? mk_arena_mark(w->comm) : comm_end;
  }
  mk_arena_reset(w->act, act_end);
  mk_arena_reset(w->comm, comm_end);
  set->counts = balance_tensor(m, MK_I32);
  set->score_sum = balance_tensor(m, w->f);
  mk_arena_place(w->work, &set->counts);
  mk_arena_place(w->work, &set->score_sum);
}

void mt_model_place(mt_model *m, mk_arena *arenas) {
  placer w = {.m = m,
              .act = &arenas[MK_MEM_ACTIVATIONS],
              .work = &arenas[MK_MEM_WORKSPACE],
              .comm = &arenas[MK_MEM_COMM],
              .c = mt_compute_dtype(m->cfg),
              .f = mt_master_dtype(m->cfg)};
  mt_params_place(&m->params, m->dev, m->cfg, arenas);
  if (m->cfg->recompute == MT_RECOMPUTE_FULL) {
    for (int i = 0; i < m->sets * m->n_layers; i++)
      place_layer(&w, &m->layers[i]);
  }
  for (int i = 0; i < m->sets; i++)
    place_set(&w, &m->set[i]);
  mt_ep_place(m->ep, w.comm);
  place_scratch(&w);
  place_head(&w);
  place_step(&w);
}
