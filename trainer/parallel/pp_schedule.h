/* Pipeline schedules: pure functions from a shape (ranks, chunks, microbatches) to a printable list of actions a rank.
 *
 * The order of forward (F) and backward (B) passes of a rank is what distinguishes the schedules:
 *   gpipe        all F, then all B (Huang et al. 2019, arXiv 1811.06965); m microbatches live
 *   1f1b         rank r starts with p-1-r F, then one F one B in turn (Narayanan et al. 2019, PipeDream); p-r live
 *   interleaved  v chunks a rank; rounds of m / max(1, m div p) microbatches; rank r starts with
 *                (v-1)*round + 2(p-1-r) F (Narayanan et al. 2021, arXiv 2104.04473; Olmo-core 3.0.0 for v = 2)
 *   v            chunks r and 2p-1-r, a repeated block of six slots moved to the earliest free slots (Qi et al. 2024,
 *                arXiv 2405.15362; Olmo-core 3.0.0 custom_1F1B_V): every rank has the same peak
 * Backward passes of a stage run in the order of microbatches, so that sums are those of one rank.
 *
 * From the orders follows the ideal timeline (F one slot, B two, transfers none), and from it everything else: an
 * output is sent as soon as it is made, a set or buffer is taken from the lowest free place. All actions of all ranks
 * have one total order (time, transfers first), and each rank keeps it. So the lists run without deadlock even where a
 * send waits for its receive and a rank does one thing at a time. Actions of a rank are put on streams in list order.
 *
 * A transfer is named by the pass that made what travels: F s.k moves to stage s+1, B s.k to stage s-1. */
#ifndef TRAINER_PARALLEL_PP_SCHEDULE_H
#define TRAINER_PARALLEL_PP_SCHEDULE_H

#include "trainer/parallel/pp_layout.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mt_pp_op { MT_PP_COMPUTE, MT_PP_SEND, MT_PP_RECV, MT_PP_STEP } mt_pp_op;

typedef struct mt_pp_action {
  mt_pp_op op;
  bool backward;      /* the pass, or the pass whose output travels */
  int stage;          /* of that pass */
  int64_t microbatch; /* of that pass */
  int64_t start;      /* slot: of a pass its first, of a transfer that in which its pass has ended */
  int chunk;          /* COMPUTE: of the rank */
  int set;            /* COMPUTE: activation set, taken by F and given back by B */
  int peer;           /* SEND, RECV: pipeline rank */
  /* Boundary buffers. F reads `in` and writes `out` (streams), B reads `out` and writes `in` (gradients); a transfer
   * has its one in `in`. The first stage has no `in`. `out` of the last stage is a gradient for F too: that of the
   * head's input, from F to B; -1 where B is the rank's next pass. -1 = none. */
  int in, out;
  int input; /* B: the stream buffer that its forward read, of no more use after it; -1 = none */
} mt_pp_action;

/* What one rank does in a step. Buffers 0 .. received-1 of a kind are filled by receives or by the own neighbouring
 * stage; the two behind them are sent from. */
typedef struct mt_pp_list {
  mt_pp_action *action;
  int64_t count;
  int sets;        /* activation sets: most chunks live at once */
  int received[2]; /* [0] streams, [1] gradients */
  int sent[2];     /* 0 or 2 */
} mt_pp_list;

typedef struct mt_pp_plan {
  mk_context *ctx;
  mt_pp_shape shape;
  mt_pp_list *rank;      /* [p] */
  mt_pp_action *actions; /* of all ranks */
  int64_t makespan;      /* slots */
} mt_pp_plan;

/* MK_ERR_CONFIG with the reason where a schedule does not take the shape. Same shape, same plan, on every rank. */
mk_status mt_pp_plan_make(mk_context *ctx, const mt_pp_shape *shape, mt_pp_plan *out);
void mt_pp_plan_fini(mt_pp_plan *plan);

/* One forward pass of one microbatch through all stages (evaluation), set 0 and the lowest buffers. */
mk_status mt_pp_forward_make(mk_context *ctx, const mt_pp_shape *shape, mt_pp_plan *out);

/* Only the refusals of mt_pp_plan_make. */
mk_status mt_pp_check(mk_context *ctx, const mt_pp_shape *shape);

/* Share of a step in which a rank does nothing: 1 - 3*m*v / makespan, the same for all ranks. */
double mt_pp_bubble(const mt_pp_plan *plan);

/* Timeline of a rank, one word a slot: `2F0` = stage 2, forward, microbatch 0; `2B0 2B_0` a backward's two slots; `..`
 * idle. Or its list: passes, `2F0>1` sent to rank 1, `2F0<1` received from it, `step`. Returns the length that the
 * whole text has (as snprintf). */
size_t mt_pp_slots_text(const mt_pp_plan *plan, int rank, char *text, size_t bytes);
size_t mt_pp_list_text(const mt_pp_plan *plan, int rank, char *text, size_t bytes);

/* Shared by the schedules' files. A pass in a rank's order. */
typedef struct mt_pp_pass {
  bool backward;
  int chunk;
  int64_t microbatch;
  int64_t pause; /* slots that the rank lets pass before it */
} mt_pp_pass;

/* Orders of all ranks into order [p * 2*m*v]. */
void mt_pp_order_plain(const mt_pp_shape *shape, mt_pp_pass *order);       /* gpipe, 1f1b */
void mt_pp_order_interleaved(const mt_pp_shape *shape, mt_pp_pass *order); /* microbatches divide into rounds */
mk_status mt_pp_order_v(mk_context *ctx, const mt_pp_shape *shape, mt_pp_pass *order);

/* Chunks of a pipeline rank that are live at once, by the schedule's formula; of `v` a bound (pp_order_v.c). */
int64_t mt_pp_most_live(const mt_pp_shape *shape, int rank);

/* Rounds of the interleaved schedule: max(1, m div p). */
int64_t mt_pp_rounds(const mt_pp_shape *shape);

#ifdef __cplusplus
}
#endif

#endif
