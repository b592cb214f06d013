/* Orders of passes: gpipe, 1f1b, interleaved 1f1b. They differ in how many forward passes come first.
 *
 * sharded     stage s = chunk c of rank r: s = c p + r, v chunks a rank (pp_layout.h); gpipe and 1f1b: v = 1
 * memory      most chunks live at once on rank r, m microbatches, round = m / max(1, m div p): gpipe m; 1f1b
 *             min(m, p - r); interleaved min(v m, (v - 1) round + 2 (p - 1 - r) + 1)
 * wire        [T,D] elements over each of the v p - 1 borders, once a microbatch forward and once backward: v times as
 *             many interleaved as plain (mt_pp_wire_bytes)
 * collectives none here: sends and receives follow from the order (pp_schedule.c)
 * timeline    p=2 m=4, rank 0, a backward pass takes two slots
 *               gpipe        F0 F1 F2 F3 .. B0  B1  B2  B3
 *               1f1b         F0 F1 .. .. B0  F2 B1  F3 B2  .. B3
 *               interleaved  F0 F1 f0 f1 .. .. F2 b0  F3 b1  f2 B0  f3 B1  .. b2  b3  B2  B3   (f b: chunk 1)
 * invariants  every pass stands once in its rank's order; forward and backward passes of a stage each in the order of
 *             microbatches; the first forward passes apart, one F one B in turn
 * paper       Huang et al. 2019, GPipe, arXiv 1811.06965; Narayanan et al. 2019, PipeDream, SOSP 2019 (1f1b);
 *             Narayanan et al. 2021, Megatron-LM, arXiv 2104.04473 (interleaved), as Olmo-core 3.0.0 orders it for v =
 *             2 (olmo_core/train/train_module/transformer/pipeline) */
#include "trainer/parallel/pp_schedule.h"

typedef struct walk {
  const mt_pp_shape *shape;
  int64_t round; /* microbatches that a chunk takes before the next chunk has its turn */
  int64_t first; /* forward passes before the first backward */
  bool pauses;   /* slots pass before the first backward passes and before the last: the original's timeline */
} walk;

/* n-th pass of a direction: chunks take turns round by round, backward from the last chunk on. */
static mt_pp_pass pass_at(const walk *w, bool backward, int64_t n) {
  int64_t chunks = w->shape->chunks, turn = n / w->round, chunk = turn % chunks;
  return (mt_pp_pass){.backward = backward,
                      .chunk = (int)(backward ? chunks - 1 - chunk : chunk),
                      .microbatch = turn / chunks * w->round + n % w->round};
}

static void order_rank(const walk *w, int rank, mt_pp_pass *order) {
  int64_t total = w->shape->microbatches * w->shape->chunks, n = 0;
  int64_t first = w->first < total ? w->first : total;
  for (int64_t f = 0; f < first; f++)
    order[n++] = pass_at(w, false, f);
  for (int64_t b = 0; b < total; b++) {
    if (first + b < total) order[n++] = pass_at(w, false, first + b);
    order[n++] = pass_at(w, true, b);
  }
  int64_t left = w->shape->ranks - 1 - rank; /* ranks behind this one */
  if (!w->pauses) return;
  order[first].pause = 2 * left;
  if (first > 0 && first < total) order[2 * total - first].pause = left;
}

int64_t mt_pp_most_live(const mt_pp_shape *s, int rank) {
  int64_t behind = s->ranks - 1 - rank, all = s->chunks * s->microbatches, most = all;
  if (s->schedule == MT_PP_1F1B) most = behind + 1;
  if (s->schedule == MT_PP_INTERLEAVED) most = (s->chunks - 1) * (s->microbatches / mt_pp_rounds(s)) + 2 * behind + 1;
  if (s->schedule == MT_PP_V) most = 2 * ((2 * s->ranks + 3) / 3);
  return most < all ? most : all;
}

int64_t mt_pp_rounds(const mt_pp_shape *shape) {
  int64_t rounds = shape->microbatches / shape->ranks;
  return rounds > 1 ? rounds : 1;
}

void mt_pp_order_plain(const mt_pp_shape *shape, mt_pp_pass *order) {
  int64_t m = shape->microbatches;
  for (int r = 0; r < shape->ranks; r++) {
    walk w = {.shape = shape, .round = m, .first = shape->schedule == MT_PP_GPIPE ? m : shape->ranks - 1 - r};
    order_rank(&w, r, order + r * 2 * m);
  }
}

void mt_pp_order_interleaved(const mt_pp_shape *shape, mt_pp_pass *order) {
  int64_t m = shape->microbatches, round = m / mt_pp_rounds(shape);
  for (int r = 0; r < shape->ranks; r++) {
    int64_t first = (shape->chunks - 1) * round + 2 * (shape->ranks - 1 - r);
    walk w = {.shape = shape, .round = round, .first = first, .pauses = true};
    order_rank(&w, r, order + r * 2 * m * shape->chunks);
  }
}
