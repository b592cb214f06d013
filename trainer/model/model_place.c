/* Where the tensors of a model live. Called twice per arena (see arena.h); the order decides the layout. */
#include "kernels/base/min_max.h"
#include "trainer/model/mxfp8.h"
#include "trainer/model/recompute.h"

typedef struct placer {
  mt_model *m;
  mk_arena *act, *work, *comm;
  mk_dtype c, f;    /* compute and master dtype */
  unsigned parts;   /* parts of a layer (recompute.h) that are placed now */
  mt_layer kind[2]; /* what all MoE layers, and all dense layers, share */
} placer;

static void put2(mk_arena *arena, mk_tensor *t, mk_dtype dtype, int64_t d0, int64_t d1) {
  *t = mk_tensor_2d(dtype, d0, d1);
  mk_arena_place(arena, t);
}

static void put1(mk_arena *arena, mk_tensor *t, mk_dtype dtype, int64_t d0) {
  *t = mk_tensor_1d(dtype, d0);
  mk_arena_place(arena, t);
}

/* The same for a tensor of one part of a layer, if that part is placed now. */
static void part2(const placer *w, mt_part part, mk_tensor *t, mk_dtype dtype, int64_t d0, int64_t d1) {
  if ((w->parts & (unsigned)part) != 0) put2(w->act, t, dtype, d0, d1);
}

static void part1(const placer *w, mt_part part, mk_tensor *t, mk_dtype dtype, int64_t d0) {
  if ((w->parts & (unsigned)part) != 0) put1(w->act, t, dtype, d0);
}

static void place_attention(const placer *w, mt_attention *a) {
  const mt_config *c = w->m->cfg;
  int64_t t = w->m->tokens, width = (c->heads + 2 * c->kv_heads) * c->head_dim;
  if (mt_norm_before(c)) {
    part2(w, MT_PART_ATTN_IN, &a->in, w->c, t, c->d_model);
    part1(w, MT_PART_ATTN_IN, &a->in_rstd, w->f, t);
  }
  part2(w, MT_PART_QKV, &a->qkv, w->c, t, width);
  part2(w, MT_PART_QKR, &a->qkr, w->c, t, width);
  part2(w, MT_PART_QKR, &a->qk_rstd, w->f, t, c->heads + c->kv_heads);
  part2(w, MT_PART_ATTENTION, &a->o, w->c, t, c->heads * c->head_dim);
  part2(w, MT_PART_ATTENTION, &a->lse, w->f, c->heads, t);
  part2(w, MT_PART_ATTN_OUT, &a->out, w->c, t, c->d_model);
  if (mt_norm_after(c)) part1(w, MT_PART_X_MID, &a->out_rstd, w->f, t);
}

static void place_routed(const placer *w, mt_mlp *a) {
  const mt_config *c = w->m->cfg;
  int64_t t = w->m->tokens, n = w->m->ep->rows_max;
  part2(w, MT_PART_SCORES, &a->logits, w->f, t, c->experts);
  part2(w, MT_PART_SCORES, &a->scores, w->f, t, c->experts);
  part1(w, MT_PART_SCORES, &a->lse, w->f, t);
  if ((w->parts & MT_PART_ROUTES) != 0) mt_ep_layer_place(w->m->ep, &a->ep, w->act, w->comm);
  if ((w->parts & MT_PART_ROWS) != 0) mt_ep_rows_place(w->m->ep, &a->ep, w->act, w->comm);
  part2(w, MT_PART_UP_GATE, &a->up_gate, w->c, n, 2 * c->expert_hidden);
  if (!mt_mxfp8_mlp(c)) {
    part2(w, MT_PART_ACT, &a->act, w->c, n, c->expert_hidden);
  } else if ((w->parts & MT_PART_ACT) != 0) {
    a->act_q = mk_mxfp8_shape(0, n, c->expert_hidden);
    mt_mxfp8_place(w->act, &a->act_q);
  }
  if (mt_mxfp8_mlp(c) && w->m->ep->ops->weighs_rows) part2(w, MT_PART_DOWN, &a->down, w->c, n, c->d_model);
}

static void place_mlp(const placer *w, mt_mlp *a, bool dense) {
  const mt_config *c = w->m->cfg;
  int64_t t = w->m->tokens, hidden = dense ? c->dense_hidden : c->shared_hidden;
  if (mt_norm_before(c)) {
    part2(w, MT_PART_MLP_IN, &a->in, w->c, t, c->d_model);
    part1(w, MT_PART_MLP_IN, &a->in_rstd, w->f, t);
  }
  if (!dense) place_routed(w, a);
  if (hidden > 0) {
    part2(w, MT_PART_SHARED_UP_GATE, &a->shared_up_gate, w->c, t, 2 * hidden);
    part2(w, MT_PART_SHARED_ACT, &a->shared_act, w->c, t, hidden);
    if (c->norm == MT_NORM_HYBRID && !dense) {
      part2(w, MT_PART_MLP_OUT, &a->ff_out, w->c, t, c->d_model);
      part1(w, MT_PART_X_OUT, &a->ff_rstd, w->f, t);
    }
  }
  part2(w, MT_PART_MLP_OUT, &a->out, w->c, t, c->d_model);
  if (mt_norm_after(c)) part1(w, MT_PART_X_OUT, &a->out_rstd, w->f, t);
}

static bool is_dense(const mt_layer *l) { return l->moe < 0; }

/* First layer of a kind, or NULL where the rank has none. */
static const mt_layer *first_of_kind(const mt_model *m, bool dense) {
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
  int64_t shared = mk_max(has_kind(m, true) ? c->dense_hidden : 0, m->moe_chunk > 0 ? c->shared_hidden : 0);
  mk_qk_shape shape = {.heads = c->heads, .kv_heads = c->kv_heads, .head_dim = c->head_dim, .seq_len = c->seq_len};
  put2(w->work, &s->dx, w->c, t, c->d_model);
  put2(w->work, &s->d_branch, w->c, t, c->d_model);
  put2(w->work, &s->d_in, w->c, t, c->d_model);
  if (c->norm == MT_NORM_HYBRID) put2(w->work, &s->d_moe, w->c, t, c->d_model);
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
  mt_mxfp8_place_scratch(m, w->work, shared, n);
}

int64_t mt_head_chunk(const mt_config *c) {
  enum { LARGEST_LOGITS = 1 << 22 }; /* elements of a chunk that still fit the outer caches */
  int64_t chunk = c->head_chunk > 0 ? c->head_chunk : LARGEST_LOGITS / c->vocab / 64 * 64;
  if (chunk < 64) chunk = 64;
  return chunk < c->rank_tokens ? chunk : c->rank_tokens;
}

static void place_head(const placer *w) {
  mt_model *m = w->m;
  mt_head *h = &m->head;
  if (!m->predicts) return;
  h->chunk = mt_head_chunk(m->cfg);
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

static void place_parts(placer *w, mt_layer *l, unsigned parts) {
  w->parts = parts;
  part2(w, MT_PART_X_MID, &l->x_mid, w->c, w->m->tokens, w->m->cfg->d_model);
  place_attention(w, &l->attn);
  place_mlp(w, &l->mlp, is_dense(l));
}

/* What layers of a kind share, in all sets (recompute.h). */
static void place_shared(placer *w) {
  for (int dense = 0; dense < 2; dense++) {
    const mt_layer *first = first_of_kind(w->m, dense != 0);
    if (first == NULL) continue;
    w->kind[dense].moe = first->moe;
    place_parts(w, &w->kind[dense], mt_parts_shared(w->m->cfg, dense != 0));
  }
}

/* The shared tensors, and a layer's own behind them; what the host keeps for the exchange is always its own. */
static void place_layer(placer *w, mt_layer *l) {
  const mt_layer *shared = &w->kind[is_dense(l)];
  mt_ep_layer host = l->mlp.ep;
  l->x_mid = shared->x_mid;
  l->attn = shared->attn;
  l->mlp = shared->mlp;
  l->mlp.ep.send_rows = host.send_rows;
  l->mlp.ep.recv_rows = host.recv_rows;
  l->mlp.ep.n_recv = host.n_recv;
  place_parts(w, l, MT_PARTS_ALL & ~mt_parts_shared(w->m->cfg, is_dense(l)));
}

/* The stream into a chunk is what the stage before has sent; only the first stage makes its own. */
static void place_chunk(placer *w, mt_set *set, const mt_chunk *chunk) {
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
    place_layer(w, l);
  }
  if (chunk->stage.predicts) put1(w->act, &set->labels, MK_I32, m->tokens);
}

/* Chunks take turns in a set: each starts where the set starts, and the set ends where the longest does. */
static void place_set(placer *w, mt_set *set) {
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
  place_shared(&w);
  for (int i = 0; i < m->sets; i++)
    place_set(&w, &m->set[i]);
  mt_ep_place(m->ep, w.comm);
  place_scratch(&w);
  place_head(&w);
  place_step(&w);
}
