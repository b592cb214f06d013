/* See pp_lists.h. Contents are numbers: 1 + 2 * (stage * m + microbatch) + backward of the pass that made them. */
#include "tests/trainer/parallel/pp_lists.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct rank_state {
  int64_t next;
  int64_t latest;     /* the pass that has run last */
  int64_t *set;       /* [sets] owner: the forward pass whose activations it holds; 0 = free */
  int64_t *buffer[2]; /* [received + sent] what lies there; 0 = nothing, or of no more use */
} rank_state;

typedef struct lists {
  const mt_pp_plan *plan;
  rank_state *rank;
  int *done; /* [2 * stages * m] times that a pass has run */
  char *why;
} lists;

static bool fail(lists *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool fail(lists *l, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  vsnprintf(l->why, PP_WHY_BYTES, fmt, args);
  va_end(args);
  return false;
}

static int64_t number(const lists *l, bool backward, int stage, int64_t microbatch) {
  return 1 + 2 * (stage * l->plan->shape.microbatches + microbatch) + backward;
}

static int64_t own_number(const lists *l, const mt_pp_action *a) {
  return number(l, a->backward, a->stage, a->microbatch);
}

static bool forward_pass(lists *l, rank_state *s, const mt_pp_action *a) {
  int last = mt_pp_stages(&l->plan->shape) - 1;
  if (s->set[a->set] != 0) return fail(l, "F %d.%lld: set %d is live", a->stage, (long long)a->microbatch, a->set);
  s->set[a->set] = own_number(l, a);
  if (a->stage > 0) {
    if (a->in < 0 || s->buffer[0][a->in] != number(l, false, a->stage - 1, a->microbatch))
      return fail(l, "F %d.%lld: its input is not in buffer %d", a->stage, (long long)a->microbatch, a->in);
  }
  if (a->stage == last && a->out < 0) return true; /* its backward looks whether it comes next */
  if (a->stage == last) {
    if (s->buffer[1][a->out] != 0)
      return fail(l, "F %d.%lld overwrites a gradient", a->stage, (long long)a->microbatch);
    s->buffer[1][a->out] = own_number(l, a);
    return true;
  }
  if (s->buffer[0][a->out] != 0) return fail(l, "F %d.%lld overwrites a stream", a->stage, (long long)a->microbatch);
  s->buffer[0][a->out] = own_number(l, a);
  return true;
}

static bool backward_pass(lists *l, rank_state *s, const mt_pp_action *a) {
  int last = mt_pp_stages(&l->plan->shape) - 1;
  if (s->set[a->set] != number(l, false, a->stage, a->microbatch))
    return fail(l, "B %d.%lld: set %d does not hold its forward", a->stage, (long long)a->microbatch, a->set);
  s->set[a->set] = 0;
  int64_t gradient =
      a->stage < last ? number(l, true, a->stage + 1, a->microbatch) : number(l, false, last, a->microbatch);
  if (a->stage == last && a->out < 0) {
    if (s->latest != gradient) return fail(l, "B %d.%lld: not right after its forward", last, (long long)a->microbatch);
  } else {
    if (a->out < 0 || s->buffer[1][a->out] != gradient)
      return fail(l, "B %d.%lld: its gradient is not in buffer %d", a->stage, (long long)a->microbatch, a->out);
    s->buffer[1][a->out] = 0;
  }
  if (a->stage > 0) {
    if (a->input < 0 || s->buffer[0][a->input] != number(l, false, a->stage - 1, a->microbatch))
      return fail(l, "B %d.%lld: its stream is not in buffer %d", a->stage, (long long)a->microbatch, a->input);
    s->buffer[0][a->input] = 0;
  }
  if (a->stage == 0) return true;
  if (s->buffer[1][a->in] != 0) return fail(l, "B %d.%lld overwrites a gradient", a->stage, (long long)a->microbatch);
  s->buffer[1][a->in] = own_number(l, a);
  return true;
}

static bool run_pass(lists *l, rank_state *s, const mt_pp_action *a) {
  int64_t before = a->backward ? number(l, false, a->stage, a->microbatch) : 0;
  if (before != 0 && l->done[before] != 1)
    return fail(l, "B %d.%lld comes before its forward", a->stage, (long long)a->microbatch);
  l->done[own_number(l, a)] += 1;
  bool ok = a->backward ? backward_pass(l, s, a) : forward_pass(l, s, a);
  s->latest = own_number(l, a);
  return ok;
}

/* A send and its receive happen at once; both ends must mean the same. */
static bool transfer(lists *l, rank_state *from, rank_state *to, const mt_pp_action *send, const mt_pp_action *recv) {
  int kind = send->backward;
  if (own_number(l, send) != own_number(l, recv) || send->backward != recv->backward)
    return fail(l, "%d.%lld is sent where %d.%lld is received", send->stage, (long long)send->microbatch, recv->stage,
                (long long)recv->microbatch);
  if (from->buffer[kind][send->in] != own_number(l, send))
    return fail(l, "what is sent of %d.%lld is not in buffer %d", send->stage, (long long)send->microbatch, send->in);
  if (to->buffer[kind][recv->in] != 0)
    return fail(l, "%d.%lld is received over what is in use", send->stage, (long long)send->microbatch);
  to->buffer[kind][recv->in] = own_number(l, send);
  from->buffer[kind][send->in] = 0;
  return true;
}

/* One action of rank r, or a transfer with its peer; *moved when something happened. */
static bool step(lists *l, int r, bool *moved) {
  rank_state *s = &l->rank[r];
  const mt_pp_action *a = &l->plan->rank[r].action[s->next];
  *moved = false;
  if (a->op == MT_PP_STEP || a->op == MT_PP_RECV) return true; /* a transfer moves when its sender is looked at */
  if (a->op == MT_PP_COMPUTE) {
    *moved = true, s->next += 1;
    return run_pass(l, s, a);
  }
  rank_state *peer = &l->rank[a->peer];
  const mt_pp_action *other = &l->plan->rank[a->peer].action[peer->next];
  if (other->op != MT_PP_RECV || other->peer != r || other->backward != a->backward) return true;
  *moved = true, s->next += 1, peer->next += 1;
  return transfer(l, s, peer, a, other);
}

static bool run(lists *l) {
  const mt_pp_shape *shape = &l->plan->shape;
  for (bool any = true; any;) {
    any = false;
    for (int r = 0; r < shape->ranks; r++) {
      for (bool moved = true; moved; any = any || moved) {
        if (!step(l, r, &moved)) return false;
      }
    }
  }
  for (int r = 0; r < shape->ranks; r++) {
    const mt_pp_action *a = &l->plan->rank[r].action[l->rank[r].next];
    if (a->op != MT_PP_STEP) return fail(l, "rank %d waits for ever at action %lld", r, (long long)l->rank[r].next);
  }
  int64_t passes = 2 * mt_pp_stages(shape) * shape->microbatches;
  for (int64_t i = 1; i <= passes; i++) {
    if (l->done[i] != 1) return fail(l, "pass %lld runs %d times", (long long)i, l->done[i]);
  }
  return true;
}

bool pp_lists_run(const mt_pp_plan *plan, char why[PP_WHY_BYTES]) {
  int p = plan->shape.ranks;
  lists l = {.plan = plan, .why = why, .rank = calloc((size_t)p, sizeof *l.rank)};
  l.done = calloc((size_t)(2 * mt_pp_stages(&plan->shape) * plan->shape.microbatches + 1), sizeof *l.done);
  for (int r = 0; r < p; r++) {
    const mt_pp_list *list = &plan->rank[r];
    l.rank[r].set = calloc((size_t)list->sets + 1, sizeof(int64_t));
    for (int kind = 0; kind < 2; kind++)
      l.rank[r].buffer[kind] = calloc((size_t)(list->received[kind] + list->sent[kind] + 1), sizeof(int64_t));
  }
  bool ok = run(&l);
  for (int r = 0; r < p; r++) {
    free(l.rank[r].buffer[0]);
    free(l.rank[r].buffer[1]);
    free(l.rank[r].set);
  }
  free(l.done);
  free(l.rank);
  return ok;
}
