/* From the order of passes to timeline, transfers, sets and buffers. See pp_schedule.h. */
#include "trainer/parallel/pp_schedule.h"

#include <stdlib.h>

#include "kernels/base/heap.h"

enum { FORWARD_SLOTS = 1, BACKWARD_SLOTS = 2, SEND_BUFFERS = 2 };

static const int64_t NEVER = INT64_MAX;

/* The ideal timeline, and what is being built on it. */
typedef struct builder {
  mk_context *ctx;
  const mt_pp_shape *shape;
  const mt_pp_pass *order; /* [p, passes] */
  int64_t passes;          /* of a rank */
  bool forward_only;
  int64_t *end[2]; /* [stages, m] slot in which a forward, a backward has ended; -1 = not yet */
  mt_pp_plan *plan;
  int *set;       /* [v, m] of the rank in work */
  int *taken[2];  /* [v, m] buffer of streams, of gradients */
  int64_t *until; /* [most places] slot from which a place is free again */
} builder;

/* ---- which shapes ---- */

mk_status mt_pp_check(mk_context *ctx, const mt_pp_shape *s) {
  int64_t m = s->microbatches, rounds = mt_pp_rounds(s);
  bool one = s->schedule == MT_PP_GPIPE || s->schedule == MT_PP_1F1B;
  MK_CHECK(ctx, s->ranks >= 1 && s->chunks >= 1 && m >= 1, MK_ERR_CONFIG,
           "a pipeline of %d ranks, %d chunks and %lld microbatches: each must be at least 1", s->ranks, s->chunks,
           (long long)m);
  MK_CHECK(ctx, !one || s->chunks == 1, MK_ERR_CONFIG,
           "pp_chunks: gpipe and 1f1b hold one stage a rank, not %d; use interleaved", s->chunks);
  MK_CHECK(ctx, s->schedule != MT_PP_V || s->chunks == 2, MK_ERR_CONFIG,
           "pp_chunks: v holds two stages a rank, one on the way down and one on the way up, not %d", s->chunks);
  MK_CHECK(ctx, s->schedule != MT_PP_INTERLEAVED || m % rounds == 0, MK_ERR_CONFIG,
           "pp_schedule: interleaved takes %lld microbatches in %lld rounds (microbatches div %d pipeline ranks), "
           "which does not divide; use a multiple of %lld, or 1f1b",
           (long long)m, (long long)rounds, s->ranks, (long long)rounds);
  return MK_OK;
}

static mk_status make_order(builder *b, mt_pp_pass *order) {
  switch (b->shape->schedule) {
    case MT_PP_INTERLEAVED:
      mt_pp_order_interleaved(b->shape, order);
      return MK_OK;
    case MT_PP_V:
      return mt_pp_order_v(b->ctx, b->shape, order);
    default:
      mt_pp_order_plain(b->shape, order);
      return MK_OK;
  }
}

/* ---- timeline ---- */

static int64_t *end_of(const builder *b, bool backward, int stage, int64_t microbatch) {
  return &b->end[backward][stage * b->shape->microbatches + microbatch];
}

/* Slot in which everything that a pass needs from others is there; -1 = not known yet. */
static int64_t ready_at(const builder *b, const mt_pp_pass *pass, int stage) {
  int last = mt_pp_stages(b->shape) - 1;
  if (!pass->backward) return stage == 0 ? 0 : *end_of(b, false, stage - 1, pass->microbatch);
  int64_t own = *end_of(b, false, stage, pass->microbatch);
  if (own < 0 || stage == last) return own;
  return *end_of(b, true, stage + 1, pass->microbatch);
}

/* Runs rank r from pass *next on as far as it gets; true when it got anywhere. */
static bool run_rank(builder *b, int r, int64_t *next, int64_t *now) {
  bool moved = false;
  for (; *next < b->passes; *next += 1, moved = true) {
    const mt_pp_pass *pass = &b->order[r * b->passes + *next];
    int stage = mt_pp_stage_at(b->shape, r, pass->chunk);
    int64_t ready = ready_at(b, pass, stage);
    if (ready < 0) break;
    *now += pass->pause;
    *now = (ready > *now ? ready : *now) + (pass->backward ? BACKWARD_SLOTS : FORWARD_SLOTS);
    *end_of(b, pass->backward, stage, pass->microbatch) = *now;
  }
  return moved;
}

/* Every rank does its passes in order, each as soon as it can. */
static mk_status make_timeline(builder *b) {
  mk_status st = MK_OK;
  int p = b->shape->ranks;
  int64_t *next = NULL, *now = NULL;
  MK_TRY_GOTO(b->ctx, mk_heap_array(b->ctx, (size_t)p, sizeof *next, &next), out);
  MK_TRY_GOTO(b->ctx, mk_heap_array(b->ctx, (size_t)p, sizeof *now, &now), out);
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < p; r++)
      moved = run_rank(b, r, &next[r], &now[r]) || moved;
  }
  for (int r = 0; r < p; r++) {
    MK_CHECK_GOTO(b->ctx, next[r] == b->passes, MK_ERR_CONFIG, out,
                  "pp_schedule: pipeline rank %d would wait for ever at its pass %lld of %lld", r, (long long)next[r],
                  (long long)b->passes);
    if (now[r] > b->plan->makespan) b->plan->makespan = now[r];
  }
out:
  mk_heap_free(b->ctx, now);
  mk_heap_free(b->ctx, next);
  return st;
}

/* ---- actions of one rank, in the total order ---- */

/* The stage that takes a pass's output, or -1. */
static int taker(const builder *b, bool backward, int stage) {
  if (backward) return stage - 1; /* stage 0: -1 */
  return stage + 1 < mt_pp_stages(b->shape) ? stage + 1 : -1;
}

static void add_pass(const builder *b, int r, const mt_pp_pass *pass, mt_pp_list *list) {
  int stage = mt_pp_stage_at(b->shape, r, pass->chunk);
  mt_pp_action a = {.op = MT_PP_COMPUTE,
                    .backward = pass->backward,
                    .stage = stage,
                    .microbatch = pass->microbatch,
                    .chunk = pass->chunk,
                    .peer = -1,
                    .in = -1,
                    .out = -1,
                    .input = -1};
  int64_t end = *end_of(b, pass->backward, stage, pass->microbatch);
  a.start = end - (pass->backward ? BACKWARD_SLOTS : FORWARD_SLOTS);
  list->action[list->count++] = a;
  int to = taker(b, pass->backward, stage), from = pass->backward ? stage + 1 : stage - 1;
  if (to >= 0 && mt_pp_rank_of(b->shape, to) != r) {
    a.op = MT_PP_SEND, a.start = end, a.peer = mt_pp_rank_of(b->shape, to);
    list->action[list->count++] = a;
  }
  if (from >= 0 && from < mt_pp_stages(b->shape) && mt_pp_rank_of(b->shape, from) != r) {
    a.op = MT_PP_RECV, a.stage = from, a.peer = mt_pp_rank_of(b->shape, from);
    a.start = *end_of(b, pass->backward, from, pass->microbatch);
    list->action[list->count++] = a;
  }
}

/* Time, transfers before passes, then anything that both ends of a transfer see alike. */
static int compare_actions(const void *left, const void *right) {
  const mt_pp_action *a = left, *b = right;
  if (a->start != b->start) return a->start < b->start ? -1 : 1;
  if ((a->op == MT_PP_COMPUTE) != (b->op == MT_PP_COMPUTE)) return a->op == MT_PP_COMPUTE ? 1 : -1;
  if (a->backward != b->backward) return a->backward ? 1 : -1;
  if (a->stage != b->stage) return a->stage < b->stage ? -1 : 1;
  return (a->microbatch > b->microbatch) - (a->microbatch < b->microbatch);
}

/* ---- sets and buffers ---- */

/* Lowest place that is free in slot `at`; *used grows when none is. */
static int take(const builder *b, int *used, int64_t at) {
  int place = 0;
  while (place < *used && b->until[place] > at)
    place++;
  if (place == *used) *used += 1;
  b->until[place] = NEVER;
  return place;
}

static int *of(const builder *b, int *list, int chunk, int64_t microbatch) {
  return &list[chunk * b->shape->microbatches + microbatch];
}

/* Activation sets: from a forward to its backward. */
static void give_sets(builder *b, mt_pp_list *list) {
  for (int64_t i = 0; i < list->count; i++) {
    mt_pp_action *a = &list->action[i];
    if (a->op != MT_PP_COMPUTE) continue;
    int *set = of(b, b->set, a->chunk, a->microbatch);
    if (!a->backward) *set = take(b, &list->sets, a->start);
    a->set = *set;
    if (a->backward) b->until[*set] = a->start;
    if (b->forward_only) b->until[*set] = a->start + FORWARD_SLOTS;
  }
}

/* What giving buffers of one kind to the actions of rank r goes along with. */
typedef struct giver {
  builder *b;
  mt_pp_list *list;
  int rank, kind;
  int64_t sent; /* outputs so far */
  int latest;   /* buffer of the last output */
} giver;

/* A send buffer's place is known when the number of the others is; until then it is -2 - its index. */
static int resolve(const giver *g, int place) { return place <= -2 ? g->list->received[g->kind] - 2 - place : place; }

/* Where the output of a pass goes: the buffer of the own next stage, or one of those that are sent from. */
static int output_buffer(giver *g, const mt_pp_action *a) {
  const builder *b = g->b;
  int to = taker(b, a->backward, a->stage);
  if (to < 0) return -1;
  if (mt_pp_rank_of(b->shape, to) != g->rank) {
    g->list->sent[g->kind] = SEND_BUFFERS;
    return -2 - (int)(g->sent++ % SEND_BUFFERS);
  }
  int *buffer = of(b, b->taken[g->kind], mt_pp_chunk_of(b->shape, to), a->microbatch);
  return *buffer = take(b, &g->list->received[g->kind], a->start);
}

/* Whether the rank's next pass is the backward of this forward. */
static bool next_is_backward(const giver *g, const mt_pp_action *a) {
  const mt_pp_action *next = a + 1, *end = g->list->action + g->list->count;
  while (next < end && next->op != MT_PP_COMPUTE)
    next++;
  return next < end && next->backward && next->stage == a->stage && next->microbatch == a->microbatch;
}

/* Streams: a forward reads, and its backward gives back. Gradients: a backward reads and gives back; the head's lies
 * there from its forward on. */
static void give_pass(giver *g, mt_pp_action *a) {
  const builder *b = g->b;
  int last = mt_pp_stages(b->shape) - 1, *own = of(b, b->taken[g->kind], a->chunk, a->microbatch);
  if (g->kind == 0 && a->stage > 0) {
    *(a->backward ? &a->input : &a->in) = *own;
    if (a->backward) b->until[*own] = a->start + BACKWARD_SLOTS;
    if (b->forward_only) b->until[*own] = a->start + FORWARD_SLOTS;
  }
  if (g->kind == 1 && a->backward) {
    a->out = *own;
    if (*own >= 0) b->until[*own] = a->start;
  }
  if (g->kind == 1 && !a->backward && a->stage == last && !b->forward_only)
    a->out = *own = next_is_backward(g, a) ? -1 : take(b, &g->list->received[1], a->start);
  if (a->backward != (g->kind == 1)) return;
  g->latest = output_buffer(g, a);
  *(g->kind == 0 ? &a->out : &a->in) = g->latest;
}

/* A pass's output is sent before the next pass, so that it is the latest. */
static void give_transfer(giver *g, mt_pp_action *a) {
  const builder *b = g->b;
  if (a->op == MT_PP_SEND) {
    a->in = g->latest;
    return;
  }
  int *buffer = of(b, b->taken[g->kind], mt_pp_chunk_of(b->shape, taker(b, a->backward, a->stage)), a->microbatch);
  a->in = *buffer = take(b, &g->list->received[g->kind], a->start);
}

static void give_buffers(builder *b, mt_pp_list *list, int r, int kind) {
  giver g = {.b = b, .list = list, .rank = r, .kind = kind, .latest = -1};
  for (int64_t i = 0; i < list->count; i++) {
    mt_pp_action *a = &list->action[i];
    if (a->op == MT_PP_COMPUTE) {
      give_pass(&g, a);
    } else if (a->backward == (kind == 1)) {
      give_transfer(&g, a);
    }
  }
  for (int64_t i = 0; i < list->count; i++) {
    mt_pp_action *a = &list->action[i];
    if (a->backward != (kind == 1)) continue;
    int *place = a->op == MT_PP_COMPUTE && kind == 0 ? &a->out : &a->in;
    *place = resolve(&g, *place);
  }
}

static void make_list(builder *b, int r) {
  mt_pp_list *list = &b->plan->rank[r];
  for (int64_t i = 0; i < b->passes; i++)
    add_pass(b, r, &b->order[r * b->passes + i], list);
  qsort(list->action, (size_t)list->count, sizeof *list->action, compare_actions);
  give_sets(b, list);
  give_buffers(b, list, r, 0);
  give_buffers(b, list, r, 1);
  list->action[list->count++] = (mt_pp_action){.op = MT_PP_STEP, .start = b->plan->makespan, .peer = -1};
}

/* ---- the whole ---- */

static mk_status reserve(builder *b, mt_pp_pass **order) {
  mk_context *ctx = b->ctx;
  size_t p = (size_t)b->shape->ranks, m = (size_t)b->shape->microbatches, v = (size_t)b->shape->chunks;
  size_t room = 3 * (size_t)b->passes + 1; /* a pass, a send and a receive of each, and the step */
  MK_TRY(ctx, mk_heap_array(ctx, p * (size_t)b->passes, sizeof **order, order));
  MK_TRY(ctx, mk_heap_array(ctx, p, sizeof *b->plan->rank, &b->plan->rank));
  MK_TRY(ctx, mk_heap_array(ctx, p * room, sizeof *b->plan->actions, &b->plan->actions));
  for (size_t r = 0; r < p; r++)
    b->plan->rank[r].action = b->plan->actions + r * room;
  for (int kind = 0; kind < 2; kind++) {
    MK_TRY(ctx, mk_heap_array(ctx, p * v * m, sizeof *b->end[kind], &b->end[kind]));
    MK_TRY(ctx, mk_heap_array(ctx, v * m, sizeof *b->taken[kind], &b->taken[kind]));
    for (size_t i = 0; i < p * v * m; i++)
      b->end[kind][i] = -1;
  }
  MK_TRY(ctx, mk_heap_array(ctx, v * m, sizeof *b->set, &b->set));
  return mk_heap_array(ctx, v * m, sizeof *b->until, &b->until);
}

/* The one microbatch of an evaluation goes through the chunks in turn. */
static void order_forward(const mt_pp_shape *shape, mt_pp_pass *order) {
  for (int i = 0; i < shape->ranks * shape->chunks; i++)
    order[i] = (mt_pp_pass){.chunk = i % shape->chunks};
}

static mk_status make(mk_context *ctx, const mt_pp_shape *shape, bool forward_only, mt_pp_plan *out) {
  mk_status st = MK_OK;
  mt_pp_pass *order = NULL;
  mt_pp_plan plan = {.ctx = ctx, .shape = *shape};
  builder b = {.ctx = ctx, .shape = shape, .forward_only = forward_only, .plan = &plan};
  b.passes = (forward_only ? 1 : 2) * shape->microbatches * shape->chunks;
  MK_TRY_GOTO(ctx, reserve(&b, &order), out);
  b.order = order;
  if (forward_only) order_forward(shape, order);
  if (!forward_only) MK_TRY_GOTO(ctx, make_order(&b, order), out);
  MK_TRY_GOTO(ctx, make_timeline(&b), out);
  for (int r = 0; r < shape->ranks; r++)
    make_list(&b, r);
  *out = plan;
out:
  if (st != MK_OK) mt_pp_plan_fini(&plan);
  mk_heap_free(ctx, b.until);
  mk_heap_free(ctx, b.set);
  for (int kind = 0; kind < 2; kind++) {
    mk_heap_free(ctx, b.taken[kind]);
    mk_heap_free(ctx, b.end[kind]);
  }
  mk_heap_free(ctx, order);
  return st;
}

mk_status mt_pp_plan_make(mk_context *ctx, const mt_pp_shape *shape, mt_pp_plan *out) {
  MK_TRY(ctx, mt_pp_check(ctx, shape));
  return make(ctx, shape, false, out);
}

mk_status mt_pp_forward_make(mk_context *ctx, const mt_pp_shape *shape, mt_pp_plan *out) {
  mt_pp_shape one = *shape;
  one.microbatches = 1;
  return make(ctx, &one, true, out);
}

void mt_pp_plan_fini(mt_pp_plan *plan) {
  if (plan->ctx == NULL) return;
  mk_heap_free(plan->ctx, plan->actions);
  mk_heap_free(plan->ctx, plan->rank);
  *plan = (mt_pp_plan){0};
}

double mt_pp_bubble(const mt_pp_plan *plan) {
  int64_t busy = (FORWARD_SLOTS + BACKWARD_SLOTS) * plan->shape.microbatches * plan->shape.chunks;
  return 1 - (double)busy / (double)plan->makespan;
}
