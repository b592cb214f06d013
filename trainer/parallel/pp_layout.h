/* Who holds which layers of a pipeline: pure arithmetic, the same on every rank.
 *
 * The model's layers are cut into p*v stages; each of p pipeline ranks holds v of them, its chunks, in ascending order.
 *   loop  stage s lies on rank s mod p (gpipe, 1f1b, interleaved; v = 1 is one stage a rank)
 *   v     rank r holds stages r and 2p-1-r, so that embedding and head meet on rank 0
 * With L layers stage s starts at layer floor(s*(L+1)/(p*v)); the last stage is the one that is a layer shorter and
 * pays for the head (Olmo-core 3.0.0 olmo_core/train/train_module/transformer/pipeline). */
#ifndef TRAINER_PARALLEL_PP_LAYOUT_H
#define TRAINER_PARALLEL_PP_LAYOUT_H

#include "trainer/launch/config.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mt_pp_shape {
  mt_pp_schedule schedule;
  int ranks;            /* p */
  int chunks;           /* v */
  int64_t microbatches; /* m */
} mt_pp_shape;

typedef struct mt_pp_stage {
  int stage;
  int64_t first_layer, layers;
  bool embeds;   /* the first stage: tokens come in */
  bool predicts; /* the last stage: the loss comes out */
} mt_pp_stage;

/* Shape of a configuration, pp_chunks 0 resolved (gpipe and 1f1b 1, the others 2). */
mt_pp_shape mt_pp_shape_of(const mt_config *cfg);

/* p * v; the stage that is chunk `chunk` of a rank; and of a stage its rank and its chunk there. */
int mt_pp_stages(const mt_pp_shape *shape);
int mt_pp_stage_at(const mt_pp_shape *shape, int rank, int chunk);
int mt_pp_rank_of(const mt_pp_shape *shape, int stage);
int mt_pp_chunk_of(const mt_pp_shape *shape, int stage);

/* The part of a model of `layers` layers that a stage is. */
mt_pp_stage mt_pp_stage_make(const mt_pp_shape *shape, int64_t layers, int stage);

/* Whether a pipeline rank holds a unit of the parameter list (0 embedding, 1..layers, layers + 1 head). */
bool mt_pp_holds_unit(const mt_pp_shape *shape, int64_t layers, int rank, int64_t unit);

#ifdef __cplusplus
}
#endif

#endif
