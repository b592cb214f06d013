/* Pipeline parallelism: the layers are cut into stages, microbatches follow one another through them.
 *
 * sharded     layers over p ranks, v chunks each (pp_layout.h); embedding with the first stage, head with the last
 * memory      parameters, gradients and optimizer state of the own layers; activations of `sets` chunks, where sets is
 *             the most that the schedule has live at once: gpipe m, 1f1b min(m, p-r), interleaved
 *             min(v*m, (v-1)*round + 2(p-1-r) + 1), v at most 2 ceil((2p+1)/3); and [T,D] at the borders
 * wire        a [T,D] for each microbatch and border of a stage with another rank, once forward, once backward
 * collectives send and recv, streams on `pp`, gradients on `pp_back`; the step's sums go over all ranks
 * timeline    1f1b, p=2 m=4, rank 0 and 1 (B twice as long):
 *               compute  F0 F1 .. .. B0  F2 B1  F3 B2  .. B3  | step
 *               pp          0  1           2      3
 *               pp_back             0       1      2       3
 *               compute  .. F0 B0  F1 B1  F2 B2  F3 B3        | step
 * invariants  actions are put on streams in one order that all ranks share, so that no stream waits for one that waits
 *             for it; a set or buffer is written again only after the event of its last reader; backward passes of a
 *             stage run in the order of microbatches, so that sums are those of one rank
 * paper       Huang et al. 2019, GPipe, arXiv 1811.06965; Narayanan et al. 2019, PipeDream, SOSP 2019 (1f1b);
 *             Narayanan et al. 2021, Megatron-LM, arXiv 2104.04473 (interleaved); Qi et al. 2024, Pipeline Parallelism
 *             with Controllable Memory, arXiv 2405.15362 (v); Olmo-core 3.0.0
 *             olmo_core/train/train_module/transformer/pipeline */
#include "trainer/parallel/pp.h"

#include "kernels/base/heap.h"

static mk_status create_buffers(mt_pp *pp) {
  for (int kind = 0; kind < MT_PP_KINDS; kind++) {
    const mt_pp_list *list = pp->step_list, *other = pp->evaluation_list;
    int received = list->received[kind] > other->received[kind] ? list->received[kind] : other->received[kind];
    pp->buffers[kind] = received + list->sent[kind];
    MK_TRY(pp->ctx, mk_heap_array(pp->ctx, (size_t)pp->buffers[kind], sizeof *pp->buffer[kind], &pp->buffer[kind]));
  }
  return MK_OK;
}

mk_status mt_pp_create(mk_context *ctx, const mt_config *cfg, const mt_mesh_plan *plan, mt_pp **out) {
  mk_status st = MK_OK;
  mt_pp *pp = NULL;
  mt_pp_shape shape = mt_pp_shape_of(cfg);
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *pp, &pp));
  pp->ctx = ctx;
  MK_TRY_GOTO(ctx, mt_pp_plan_make(ctx, &shape, &pp->step), out);
  MK_TRY_GOTO(ctx, mt_pp_forward_make(ctx, &shape, &pp->evaluation), out);
  pp->step_list = &pp->step.rank[plan->pp_rank];
  pp->evaluation_list = &pp->evaluation.rank[plan->pp_rank];
  MK_TRY_GOTO(ctx, create_buffers(pp), out);
  *out = pp;
  pp = NULL;
out:
  mt_pp_destroy(pp);
  return st;
}

mk_status mt_pp_start(mt_pp *pp, const mt_mesh *mesh, mk_stream *compute) {
  static const char *const names[MT_PP_KINDS] = {"pp", "pp_back"};
  mk_device *dev = compute->dev;
  pp->compute = compute;
  pp->comm[MT_PP_STREAMS] = mesh->pp;
  pp->comm[MT_PP_GRADIENTS] = mesh->pp_back;
  for (int kind = 0; kind < MT_PP_KINDS; kind++) {
    if (mesh->plan.pp > 1) MK_TRY(pp->ctx, mk_stream_create(dev, names[kind], &pp->stream[kind]));
    for (int i = 0; i < pp->buffers[kind]; i++) {
      MK_TRY(pp->ctx, mk_event_create(dev, &pp->buffer[kind][i].ready));
      MK_TRY(pp->ctx, mk_event_create(dev, &pp->buffer[kind][i].free));
    }
  }
  return MK_OK;
}

void mt_pp_destroy(mt_pp *pp) {
  if (pp == NULL) return;
  for (int kind = 0; kind < MT_PP_KINDS; kind++) {
    mk_stream_destroy(pp->stream[kind]);
    for (int i = 0; pp->buffer[kind] != NULL && i < pp->buffers[kind]; i++) {
      mk_event_destroy(pp->buffer[kind][i].free);
      mk_event_destroy(pp->buffer[kind][i].ready);
    }
    mk_heap_free(pp->ctx, pp->buffer[kind]);
  }
  mt_pp_plan_fini(&pp->evaluation);
  mt_pp_plan_fini(&pp->step);
  mk_heap_free(pp->ctx, pp);
}

int mt_pp_sets(const mt_pp *pp) { return pp->step_list->sets; }

void mt_pp_place(mt_pp *pp, const mt_config *cfg, mk_arena *comm) {
  for (int kind = 0; kind < MT_PP_KINDS; kind++) {
    for (int i = 0; i < pp->buffers[kind]; i++) {
      mk_tensor *t = &pp->buffer[kind][i].t;
      *t = mk_tensor_2d(mt_compute_dtype(cfg), cfg->rank_tokens, cfg->d_model);
      mk_arena_place(comm, t);
    }
  }
}

static mt_pp_buffer *buffer_of(mt_pp *pp, int kind, int place) { return place < 0 ? NULL : &pp->buffer[kind][place]; }

static mk_status forward(mt_pp *pp, mt_model *model, const mt_pp_action *a, mt_pass *pass) {
  mk_context *ctx = pp->ctx;
  bool predicts = model->chunk[a->chunk].stage.predicts;
  mt_pp_buffer *in = buffer_of(pp, MT_PP_STREAMS, a->in);
  mt_pp_buffer *out = buffer_of(pp, predicts ? MT_PP_GRADIENTS : MT_PP_STREAMS, a->out);
  if (in != NULL) {
    MK_TRY(ctx, mk_stream_wait(pp->compute, in->ready));
    pass->x_in = in->t;
  }
  if (out != NULL) {
    MK_TRY(ctx, mk_stream_wait(pp->compute, out->free));
    *(predicts ? &pass->d_head : &pass->x_out) = out->t;
  }
  MK_TRY(ctx, mt_model_forward(model, pass));
  if (out != NULL) MK_TRY(ctx, mk_event_record(out->ready, pp->compute));
  return in == NULL || pass->train ? MK_OK : mk_event_record(in->free, pp->compute);
}

/* A buffer and the model's scratch change places, so that nothing is copied. */
static void exchange(mt_model *model, mt_pp_buffer *buffer) {
  mk_tensor swap = model->scratch.dx;
  model->scratch.dx = buffer->t;
  buffer->t = swap;
}

static mk_status backward(mt_pp *pp, mt_model *model, const mt_pp_action *a, const mt_pass *pass) {
  mk_context *ctx = pp->ctx;
  mt_pp_buffer *in = buffer_of(pp, MT_PP_GRADIENTS, a->in), *out = buffer_of(pp, MT_PP_GRADIENTS, a->out);
  mt_pp_buffer *input = buffer_of(pp, MT_PP_STREAMS, a->input);
  if (out != NULL) {
    MK_TRY(ctx, mk_stream_wait(pp->compute, out->ready));
    exchange(model, out);
    MK_TRY(ctx, mk_event_record(out->free, pp->compute));
  }
  MK_TRY(ctx, mt_model_backward(model, pass));
  if (in != NULL) {
    MK_TRY(ctx, mk_stream_wait(pp->compute, in->free));
    exchange(model, in);
    MK_TRY(ctx, mk_event_record(in->ready, pp->compute));
  }
  return input == NULL ? MK_OK : mk_event_record(input->free, pp->compute);
}

static mk_status transfer(mt_pp *pp, const mt_pp_action *a) {
  mk_context *ctx = pp->ctx;
  int kind = a->backward ? MT_PP_GRADIENTS : MT_PP_STREAMS;
  mt_pp_buffer *buffer = buffer_of(pp, kind, a->in);
  mk_stream *s = pp->stream[kind];
  bool send = a->op == MT_PP_SEND;
  MK_TRY(ctx, mk_stream_wait(s, send ? buffer->ready : buffer->free));
  MK_TRY(ctx, send ? mt_comm_send(pp->comm[kind], &buffer->t, a->peer, s)
                   : mt_comm_recv(pp->comm[kind], &buffer->t, a->peer, s));
  return mk_event_record(send ? buffer->free : buffer->ready, s);
}

mk_status mt_pp_run(mt_pp *pp, mt_model *model, const mt_pp_action *action, const mt_pass *pass) {
  if (action->op == MT_PP_STEP) return MK_OK;
  if (action->op != MT_PP_COMPUTE) return transfer(pp, action);
  mt_pass own = *pass;
  own.stream = pp->compute;
  own.chunk = action->chunk;
  own.set = &model->set[action->set];
  return action->backward ? backward(pp, model, action, &own) : forward(pp, model, action, &own);
}

/* Borders of this rank's stages with other ranks: towards the next stage, and towards the one before. */
static int64_t borders(const mt_config *cfg, int pp_rank) {
  mt_pp_shape shape = mt_pp_shape_of(cfg);
  int64_t count = 0;
  for (int chunk = 0; chunk < shape.chunks; chunk++) {
    int stage = mt_pp_stage_at(&shape, pp_rank, chunk);
    count += stage + 1 < mt_pp_stages(&shape) && mt_pp_rank_of(&shape, stage + 1) != pp_rank;
    count += stage > 0 && mt_pp_rank_of(&shape, stage - 1) != pp_rank;
  }
  return count;
}

int64_t mt_pp_wire_bytes(const mt_config *cfg, int pp_rank) {
  return borders(cfg, pp_rank) * mt_config_microbatches(cfg) * cfg->rank_tokens * cfg->d_model *
         (int64_t)mk_dtype_bytes(mt_compute_dtype(cfg));
}
