/* A pipeline rank at work: its lists, the buffers at its borders, and the streams on which they travel. */
#ifndef TRAINER_PARALLEL_PP_H
#define TRAINER_PARALLEL_PP_H

#include "trainer/comm/mesh.h"
#include "trainer/model/model.h"
#include "trainer/parallel/pp_schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

/* c [T,D] of one microbatch between two stages. */
typedef struct mt_pp_buffer {
  mk_tensor t;
  mk_event *ready; /* it holds what the next taker reads */
  mk_event *free;  /* its taker has read it */
} mt_pp_buffer;

enum { MT_PP_STREAMS, MT_PP_GRADIENTS, MT_PP_KINDS };

typedef struct mt_pp {
  mk_context *ctx;
  mt_pp_plan step, evaluation;                   /* of all ranks */
  const mt_pp_list *step_list, *evaluation_list; /* of this one */
  int buffers[MT_PP_KINDS];
  mt_pp_buffer *buffer[MT_PP_KINDS];
  mk_stream *compute;
  mk_stream *stream[MT_PP_KINDS]; /* NULL on a single pipeline rank */
  mt_comm *comm[MT_PP_KINDS];     /* likewise */
} mt_pp;

/* Lists and buffers of this rank's place, on the host only: enough to plan memory. */
mk_status mt_pp_create(mk_context *ctx, const mt_config *cfg, const mt_mesh_plan *plan, mt_pp **out);

/* Streams and events, and the communicators of the mesh. `compute` and `mesh` are borrowed. */
mk_status mt_pp_start(mt_pp *pp, const mt_mesh *mesh, mk_stream *compute);
void mt_pp_destroy(mt_pp *pp);

/* Activation sets that the model needs. */
int mt_pp_sets(const mt_pp *pp);

/* Places the buffers; see arena.h. */
void mt_pp_place(mt_pp *pp, const mt_config *cfg, mk_arena *comm);

/* Puts one action on its stream. pass is what the model gets, without place: chunk, set and borders come from the
 * action. */
mk_status mt_pp_run(mt_pp *pp, mt_model *model, const mt_pp_action *action, const mt_pass *pass);

/* Pure: bytes that a rank sends to its neighbours in one step: for each microbatch T*D elements over each border of its
 * stages with another rank. */
int64_t mt_pp_wire_bytes(const mt_config *cfg, int pp_rank);

#ifdef __cplusplus
}
#endif

#endif
