/* The V schedule: every rank repeats one block of six slots (a forward of its low and of its high stage, a backward of
 * two slots of each), the first m of each symbol are kept, and a pass over time moves each to the earliest free slot.
 *
 * sharded     stages r and 2p-1-r on rank r: rank 0 has the embedding and the head (pp_layout.h)
 * memory      most chunks live at once: 2 ceil((2p+1)/3) on every rank from m = 2p on, fewer before
 * wire        [T,D] elements over each of the 2p-2 borders between two ranks, once a microbatch forward and once
 *             backward; the two stages of the last rank hand over in place
 * collectives none here: sends and receives follow from the order (pp_schedule.c)
 * timeline    p=2, slots mod 6   r0  W F b w f B     F low stage's forward, f high stage's; B W the high stage's
 *                                r1  b w F f B W     backward, b w the low stage's
 * invariants  a symbol stands after its predecessor of the same kind and after what it depends on; a backward has two
 *             neighbouring slots; no move takes a rank above the peak that all had before the moves; so backward passes
 *             of a stage run in the order of microbatches
 * cost        time O(p * m * slots)
 * paper       Qi et al. 2024, Pipeline Parallelism with Controllable Memory, arXiv 2405.15362 (building block);
 *             construction and the order of every step are those of Olmo-core 3.0.0 (custom_1F1B_V in
 *             olmo_core/train/train_module/transformer/pipeline) */
#include "kernels/base/heap.h"
#include "trainer/parallel/pp_schedule.h"

enum { PERIOD = 6 };

typedef enum symbol { NONE, LOW_F, HIGH_F, HIGH_B, HIGH_W, LOW_B, LOW_W, SYMBOLS } symbol;

typedef struct cell {
  symbol what;
  int64_t microbatch;
} cell;

typedef struct grid {
  int ranks;
  int64_t microbatches, slots;
  cell *cells;   /* [ranks, slots] */
  int64_t *slot; /* [ranks, SYMBOLS, microbatches] where each symbol stands */
  int peak;      /* live chunks before compaction */
} grid;

static cell *cell_at(const grid *g, int rank, int64_t slot) { return &g->cells[rank * g->slots + slot]; }

static int64_t *slot_of(const grid *g, int rank, symbol what, int64_t microbatch) {
  return &g->slot[(rank * SYMBOLS + (int)what) * g->microbatches + microbatch];
}

static void put(grid *g, int rank, symbol what, int64_t microbatch, int64_t slot) {
  *cell_at(g, rank, slot) = (cell){what, microbatch};
  *slot_of(g, rank, what, microbatch) = slot;
}

/* Slots mod PERIOD of the four symbols of every rank into block [ranks][SYMBOLS]. */
static void make_block(int p, int (*block)[SYMBOLS]) {
  int now = 0, c = (3 - (p + 2) % 3) % 3;
  for (int r = 0; r < p; r++)
    block[r][LOW_F] = ++now % PERIOD;
  for (int r = p - 1; r >= 0; r--)
    block[r][HIGH_F] = ++now % PERIOD;
  now += p % 3 == 0 ? 4 : 1;
  for (int i = 0; i < 2 * p; i++) {
    int r = i < p ? i : 2 * p - 1 - i;
    block[r][i < p ? HIGH_B : LOW_B] = now % PERIOD;
    c = (c + 1) % 3;
    now += c == 0 ? 5 : 2;
  }
}

/* Keeps the m repetitions of a symbol from its first slot after *slot on, which *slot becomes. */
static void keep(grid *g, const int (*block)[SYMBOLS], int rank, symbol what, int64_t *slot) {
  *slot += 1;
  *slot += (block[rank][what] - *slot % PERIOD + PERIOD) % PERIOD;
  for (int64_t k = 0; k < g->microbatches; k++) {
    put(g, rank, what, k, *slot + PERIOD * k);
    if (what == HIGH_B || what == LOW_B) put(g, rank, what + 1, k, *slot + PERIOD * k + 1);
  }
}

static void repeat_block(grid *g, const int (*block)[SYMBOLS]) {
  int64_t slot = -1;
  for (int r = 0; r < g->ranks; r++)
    keep(g, block, r, LOW_F, &slot);
  for (int r = g->ranks - 1; r >= 0; r--)
    keep(g, block, r, HIGH_F, &slot);
  for (int r = 0; r < g->ranks; r++)
    keep(g, block, r, HIGH_B, &slot);
  for (int r = g->ranks - 1; r >= 0; r--)
    keep(g, block, r, LOW_B, &slot);
}

/* What a cell adds to the chunks that live on its rank. */
static int live_change(const cell *c) {
  if (c->what == LOW_F || c->what == HIGH_F) return 1;
  return c->what == LOW_W || c->what == HIGH_W ? -1 : 0;
}

static int live_at(const grid *g, int rank, int64_t slot) {
  int live = 0;
  for (int64_t t = 0; t <= slot; t++)
    live += live_change(cell_at(g, rank, t));
  return live;
}

static int peak_of(const grid *g) {
  int peak = 0;
  for (int r = 0; r < g->ranks; r++) {
    int live = 0;
    for (int64_t t = 0; t < g->slots; t++) {
      live += live_change(cell_at(g, r, t));
      if (live > peak) peak = live;
    }
  }
  return peak;
}

/* Slot after which a symbol may stand: its predecessor and what it depends on. */
static int64_t bound(const grid *g, int rank, symbol what, int64_t k) {
  bool last = rank == g->ranks - 1;
  int64_t before = k > 0 ? *slot_of(g, rank, what, k - 1) : -1, needs = -1;
  switch (what) {
    case LOW_F:
      if (rank > 0) needs = *slot_of(g, rank - 1, LOW_F, k);
      break;
    case HIGH_F:
      needs = last ? *slot_of(g, rank, LOW_F, k) : *slot_of(g, rank + 1, HIGH_F, k);
      break;
    case HIGH_B:
      needs = rank > 0 ? *slot_of(g, rank - 1, HIGH_W, k) : *slot_of(g, rank, HIGH_F, k);
      break;
    default:
      needs = last ? *slot_of(g, rank, HIGH_W, k) : *slot_of(g, rank + 1, LOW_W, k);
      break;
  }
  return before > needs ? before : needs;
}

/* A forward moves earlier only while fewer chunks than the peak live in every slot it passes. */
static void move_forward(grid *g, int rank, int64_t slot) {
  cell moved = *cell_at(g, rank, slot);
  int64_t after = bound(g, rank, moved.what, moved.microbatch), best = slot;
  int live = live_at(g, rank, slot) - live_change(&moved);
  for (int64_t t = slot - 1; t > after && live < g->peak; t--) {
    if (cell_at(g, rank, t)->what == NONE) best = t;
    live -= live_change(cell_at(g, rank, t));
  }
  *cell_at(g, rank, slot) = (cell){0};
  put(g, rank, moved.what, moved.microbatch, best);
}

static void move_backward(grid *g, int rank, int64_t slot) {
  cell moved = *cell_at(g, rank, slot);
  int64_t best = bound(g, rank, moved.what, moved.microbatch) + 1;
  *cell_at(g, rank, slot) = *cell_at(g, rank, slot + 1) = (cell){0};
  while (cell_at(g, rank, best)->what != NONE || cell_at(g, rank, best + 1)->what != NONE)
    best++;
  put(g, rank, moved.what, moved.microbatch, best);
  put(g, rank, moved.what + 1, moved.microbatch, best + 1);
}

static void compact(grid *g) {
  g->peak = peak_of(g);
  for (int64_t t = 0; t < g->slots; t++) {
    for (int r = 0; r < g->ranks; r++) {
      symbol what = cell_at(g, r, t)->what;
      if (what == LOW_F || what == HIGH_F) move_forward(g, r, t);
      if (what == LOW_B || what == HIGH_B) move_backward(g, r, t);
    }
  }
}

static void read_order(const grid *g, mt_pp_pass *order) {
  for (int r = 0; r < g->ranks; r++) {
    for (int64_t t = 0; t < g->slots; t++) {
      const cell *c = cell_at(g, r, t);
      bool backward = c->what == LOW_B || c->what == HIGH_B, high = c->what == HIGH_B || c->what == HIGH_F;
      if (c->what == NONE || c->what == LOW_W || c->what == HIGH_W) continue;
      *order++ = (mt_pp_pass){.backward = backward, .chunk = high, .microbatch = c->microbatch};
    }
  }
}

mk_status mt_pp_order_v(mk_context *ctx, const mt_pp_shape *shape, mt_pp_pass *order) {
  mk_status st = MK_OK;
  int(*block)[SYMBOLS] = NULL;
  size_t p = (size_t)shape->ranks, m = (size_t)shape->microbatches;
  grid g = {.ranks = shape->ranks, .microbatches = shape->microbatches};
  g.slots = PERIOD * (g.microbatches + 4 * g.ranks + 2);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, p, sizeof *block, &block), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, p * (size_t)g.slots, sizeof *g.cells, &g.cells), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, p * SYMBOLS * m, sizeof *g.slot, &g.slot), out);
  make_block(g.ranks, block);
  repeat_block(&g, (const int(*)[SYMBOLS])block);
  compact(&g);
  read_order(&g, order);
out:
  mk_heap_free(ctx, g.slot);
  mk_heap_free(ctx, g.cells);
  mk_heap_free(ctx, block);
  return st;
}
