/* Constants and initial weights. A value depends on (seed, parameter, global element), never on the layout. */
#include "kernels/base/heap.h"
#include "trainer/model/model.h"

static bool is_gain(const mt_param *p) { return p->n_dims == 1; }

/* The id counts parameters in canonical order; unit * roles + role stays the same when a neighbour is switched off. */
static uint32_t param_id(const mt_param *p) {
  enum { DRAWN_ROLES = 17 }; /* fixed: a later role changes no draw; those beyond are gains, which draw nothing */
  return (uint32_t)(p->unit * DRAWN_ROLES + (int)p->role);
}

/* Own shard of main from the seed; the compute copy of the whole local parameter the same way. */
static mk_status init_param(mt_model *m, mk_stream *stream, mt_param *p) {
  const mt_config *c = m->cfg;
  mk_param_init_args args = {.seed = (uint64_t)c->seed,
                             .param = param_id(p),
                             .std = is_gain(p) ? 0.0f : (float)c->init_std,
                             .value = 1.0f,
                             .round_bf16 = c->init_bf16};
  if (p->shard_count == 0) return MK_OK;
  if (p->main.dtype != p->own_w.dtype) { /* else main is a view of w */
    args.main = p->main;
    args.first = p->first + p->shard_first;
    MK_TRY(m->ctx, mk_param_init(stream, &args));
  }
  bool whole = mk_tensor_present(&p->w); /* else the unit is cut: its shard */
  args.main = whole ? mk_tensor_slice(&p->w, 0, p->count) : p->own_w;
  args.first = whole ? p->first : p->first + p->shard_first;
  return mk_param_init(stream, &args);
}

static mk_status init_rope(mt_model *m, mk_stream *stream) {
  const mt_config *c = m->cfg;
  mk_context *ctx = m->ctx;
  mk_status st = MK_OK;
  size_t count = (size_t)(c->seq_len * c->head_dim);
  double *table = NULL;
  float *narrow = NULL;
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, count, sizeof *table, &table), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, count, sizeof *narrow, &narrow), out);
  mk_rope_table(table, c->seq_len, c->head_dim, c->rope_theta);
  for (size_t i = 0; i < count; i++)
    narrow[i] = (float)table[i];
  const void *source = m->rope.dtype == MK_F64 ? (const void *)table : (const void *)narrow;
  MK_TRY_GOTO(ctx, mk_copy_h2d(stream, &m->rope, source), out);
  MK_TRY_GOTO(ctx, mk_stream_sync(stream, false), out);
out:
  mk_heap_free(ctx, narrow);
  mk_heap_free(ctx, table);
  return st;
}

mk_status mt_model_init(mt_model *m, mk_stream *stream) {
  MK_TRY(m->ctx, init_rope(m, stream));
  for (int i = 0; i < m->params.count; i++)
    MK_TRY(m->ctx, init_param(m, stream, &m->params.item[i]));
  return mt_model_pack(m, stream);
}
