/* See table.h. Adding a strategy: its settings as one more text of an axis. */
#include "tests/trainer/parallel/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 8, AXES = 9 };

/* Settings of one axis; the first value is what other axes need to have any effect ("ep=1": no transport). */
typedef struct axis {
  const char *value[MOST_VALUES];
  int needs; /* 1 + the axis without which this one has no effect; 0 = always */
} axis;

/* From PRECISION on: how a strategy is run. They vary fastest, so that the runs of one strategy lie side by side. */
enum { SHARD, EP, TRANSPORT, PP, SCHEDULE, RECOMPUTE, PRECISION, DEVICE, GUARD };

static const axis axes[AXES] = {
    [SHARD] = {{"shard=none", "shard=ddp", "shard=dist_opt", "shard=dist_opt grad_reduce=reduce_scatter", "shard=fsdp",
                "shard=fsdp fsdp_shard_ranks=2", "shard=fsdp fsdp_reshard=keep_to_backward fsdp_prefetch=2",
                "shard=fsdp fsdp_reshard=keep_to_forward fsdp_reduce=last"},
               0},
    [EP] = {{"ep=1", "ep=2", "ep=4"}, 0},
    [TRANSPORT] = {{"ep_transport=block", "ep_transport=rowwise", "ep_transport=deepep_v2"}, 0},
    [PP] = {{"pp=1", "pp=2", "pp=4"}, 0},
    [SCHEDULE] = {{"pp_schedule=1f1b", "pp_schedule=gpipe", "pp_schedule=interleaved", "pp_schedule=v"}, 1 + PP},
    [RECOMPUTE] = {{"recompute=none", "recompute=selective", "recompute=full"}, 0},
    [PRECISION] = {{"precision=fp32", "precision=bf16 routing=replay", "precision=bf16",
                    "precision=mxfp8 routing=replay"},
                   0},
    [DEVICE] = {{"device=cpu", "device=cpu_async"}, 0},
    [GUARD] = {{"guard=false", "guard=true"}, 0},
};

/* A combination: which value of each axis. */
typedef struct choice {
  int of[AXES];
} choice;

static int values(int a) {
  int n = 0;
  while (n < MOST_VALUES && axes[a].value[n] != NULL)
    n++;
  return n;
}

/* Steps to the next combination, the last axis fastest; false after the last. */
static bool next(choice *c) {
  for (int a = AXES - 1; a >= 0; a--) {
    if (++c->of[a] < values(a)) return true;
    c->of[a] = 0;
  }
  return false;
}

/* An axis without effect stands at its first value, so that no run is in the table twice. */
static bool repeats(const choice *c) {
  enum { ROWWISE = 1 };
  if (c->of[EP] == 0 && c->of[TRANSPORT] == ROWWISE) return true; /* one rank exchanges nothing, as with block */
  for (int a = 0; a < AXES; a++) {
    if (axes[a].needs != 0 && c->of[a] != 0 && c->of[axes[a].needs - 1] == 0) return true;
  }
  return false;
}

static void describe(const choice *c, char *text, size_t bytes) {
  size_t used = 0;
  for (int a = 0; a < AXES; a++) {
    if (axes[a].needs != 0 && c->of[axes[a].needs - 1] == 0) continue; /* says nothing */
    used += (size_t)snprintf(text + used, bytes - used, "%s%s", used == 0 ? "" : " ", axes[a].value[c->of[a]]);
  }
}

static void refuse(table *t, const char *reason, const char *text) {
  for (int i = 0; i < t->n_refusals; i++) {
    if (strcmp(t->refusals[i].reason, reason) != 0) continue;
    t->refusals[i].count += 1;
    return;
  }
  t->refusals = realloc(t->refusals, (size_t)(t->n_refusals + 1) * sizeof *t->refusals);
  table_refusal *r = &t->refusals[t->n_refusals++];
  *r = (table_refusal){.count = 1};
  snprintf(r->reason, sizeof r->reason, "%s", reason);
  snprintf(r->example, sizeof r->example, "%s", text);
}

/* Legal combinations, in the order of the axes. */
static choice *legal_choices(mk_context *ctx, int ranks, table *t) {
  choice c = {{0}}, *legal = NULL;
  do {
    char text[ROW_TEXT_BYTES];
    row r;
    if (repeats(&c)) continue;
    describe(&c, text, sizeof text);
    mk_status st = row_parse(ctx, text, ranks, &r);
    if (st == MK_OK) st = mt_config_check(ctx, &r.cfg);
    if (st != MK_OK) {
      refuse(t, ctx->error.message, text);
      mk_error_clear(ctx);
      continue;
    }
    legal = realloc(legal, (size_t)(t->n_legal + 1) * sizeof *legal);
    legal[t->n_legal++] = c;
  } while (next(&c));
  return legal;
}

typedef struct pairs {
  bool seen[AXES][MOST_VALUES][AXES][MOST_VALUES];
} pairs;

/* Pairs of a combination that are not seen yet; `mark` makes them seen. */
static int new_pairs(pairs *p, const choice *c, bool mark) {
  int count = 0;
  for (int a = 0; a < AXES; a++) {
    for (int b = a + 1; b < AXES; b++) {
      bool *seen = &p->seen[a][c->of[a]][b][c->of[b]];
      count += !*seen;
      if (mark) *seen = true;
    }
  }
  return count;
}

/* Keeps, at the front of the list, a covering subset. */
static int64_t cover(choice *legal, int64_t n) {
  pairs *p = calloc(1, sizeof *p);
  int64_t kept = 0;
  for (;;) {
    int most = 0;
    int64_t best = 0;
    for (int64_t i = kept; i < n; i++) {
      int count = new_pairs(p, &legal[i], false);
      if (count > most) most = count, best = i;
    }
    if (most == 0) break;
    choice c = legal[best];
    new_pairs(p, &c, true);
    memmove(&legal[kept + 1], &legal[kept], (size_t)(best - kept) * sizeof *legal);
    legal[kept++] = c;
  }
  free(p);
  return kept;
}

/* Runs of the same strategy: everything before PRECISION is equal. */
static bool same_strategy(const choice *a, const choice *b) {
  return memcmp(a->of, b->of, PRECISION * sizeof a->of[0]) == 0;
}

/* FP32 plainly, and FP32 with the asynchronous device and memory that only operations may read. */
static bool always_kept(const choice *c) { return c->of[PRECISION] == 0 && c->of[DEVICE] == c->of[GUARD]; }

/* Keeps, at the front of the list, three runs of each strategy: the two above, and in turn one of the lower
 * precisions. */
static int64_t thin(choice *legal, int64_t n) {
  int64_t kept = 0, strategies = 0;
  for (int64_t first = 0, end; first < n; first = end) {
    int64_t lower = 0;
    for (end = first; end < n && same_strategy(&legal[first], &legal[end]); end++)
      lower += legal[end].of[PRECISION] != 0;
    int64_t turn = lower > 0 ? (strategies + strategies / lower) % lower : -1; /* not in step with another axis */
    strategies++;
    for (int64_t i = first; i < end; i++) {
      bool chosen = legal[i].of[PRECISION] != 0 && turn-- == 0;
      if (chosen || always_kept(&legal[i])) legal[kept++] = legal[i];
    }
  }
  return kept;
}

static int by_twin(const void *a, const void *b) {
  char ka[ROW_KEY_BYTES], kb[ROW_KEY_BYTES];
  const row *ra = a, *rb = b;
  mt_config ca = row_plain(ra), cb = row_plain(rb);
  row_key(&ca, ka, sizeof ka);
  row_key(&cb, kb, sizeof kb);
  int order = strcmp(ka, kb);
  return order != 0 ? order : strcmp(ra->text, rb->text);
}

table table_make(mk_context *ctx, int ranks, bool pairs_only) {
  table t = {0};
  choice *legal = legal_choices(ctx, ranks, &t);
  t.n_rows = (int)(pairs_only ? cover(legal, t.n_legal) : thin(legal, t.n_legal));
  t.rows = calloc((size_t)t.n_rows + 1, sizeof *t.rows);
  for (int i = 0; i < t.n_rows; i++) {
    char text[ROW_TEXT_BYTES];
    describe(&legal[i], text, sizeof text);
    row_parse(ctx, text, ranks, &t.rows[i]); /* parsed before */
  }
  qsort(t.rows, (size_t)t.n_rows, sizeof *t.rows, by_twin);
  free(legal);
  return t;
}

void table_free(table *t) {
  free(t->refusals);
  free(t->rows);
  *t = (table){0};
}
