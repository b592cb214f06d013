/* See pp_layout.h. */
#include "trainer/parallel/pp_layout.h"

mt_pp_shape mt_pp_shape_of(const mt_config *cfg) {
  bool one = cfg->pp_schedule == MT_PP_GPIPE || cfg->pp_schedule == MT_PP_1F1B;
  return (mt_pp_shape){.schedule = cfg->pp_schedule,
                       .ranks = (int)cfg->pp,
                       .chunks = cfg->pp_chunks > 0 ? (int)cfg->pp_chunks
                                 : one              ? 1
                                                    : 2,
                       .microbatches = mt_config_microbatches(cfg)};
}

int mt_pp_stages(const mt_pp_shape *shape) { return shape->ranks * shape->chunks; }

int mt_pp_stage_at(const mt_pp_shape *shape, int rank, int chunk) {
  bool back = shape->schedule == MT_PP_V && chunk == 1;
  return back ? 2 * shape->ranks - 1 - rank : chunk * shape->ranks + rank;
}

int mt_pp_rank_of(const mt_pp_shape *shape, int stage) {
  int p = shape->ranks;
  bool back = shape->schedule == MT_PP_V && stage >= p;
  return back ? 2 * p - 1 - stage : stage % p;
}

int mt_pp_chunk_of(const mt_pp_shape *shape, int stage) { return stage / shape->ranks; }

mt_pp_stage mt_pp_stage_make(const mt_pp_shape *shape, int64_t layers, int stage) {
  int stages = mt_pp_stages(shape);
  int64_t first = stage * (layers + 1) / stages, end = (stage + 1) * (layers + 1) / stages;
  bool last = stage == stages - 1;
  if (last) end = layers;
  return (mt_pp_stage){
      .stage = stage, .first_layer = first, .layers = end - first, .embeds = stage == 0, .predicts = last};
}

bool mt_pp_holds_unit(const mt_pp_shape *shape, int64_t layers, int rank, int64_t unit) {
  for (int chunk = 0; chunk < shape->chunks; chunk++) {
    mt_pp_stage s = mt_pp_stage_make(shape, layers, mt_pp_stage_at(shape, rank, chunk));
    if (unit == 0 && s.embeds) return true;
    if (unit == layers + 1 && s.predicts) return true;
    if (unit - 1 >= s.first_layer && unit - 1 < s.first_layer + s.layers) return true;
  }
  return false;
}
