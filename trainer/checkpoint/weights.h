/* Model weights in files under the names of other systems, and back.
 *
 * A layout is a pure map between the canonical parameters (trainer/model/params.h) and named tensors of a file:
 *   hf         OLMoE and Qwen3-MoE checkpoints, one tensor an expert (model.layers.0.mlp.experts.0.gate_proj.weight)
 *   hf_packed  the same models as transformers 5 holds them (mlp.experts.gate_up_proj [E,2F,D], gate rows first)
 *   olmo_core  Olmo-core 3.0.0 OLMoDDPModel (blocks.0.routed_experts.w_up_gate [E,2F,D], up rows first)
 * The unit of the map is a slab: one expert of an expert parameter, or a whole other parameter. A slab is made of
 * parts; a part is one contiguous range of one file tensor. Values are host memory, F32 or F64. */
#ifndef TRAINER_CHECKPOINT_WEIGHTS_H
#define TRAINER_CHECKPOINT_WEIGHTS_H

#include "trainer/checkpoint/safetensors.h"
#include "trainer/model/params.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mt_weights_layout {
  MT_WEIGHTS_HF,
  MT_WEIGHTS_HF_PACKED,
  MT_WEIGHTS_OLMO_CORE,
  MT_WEIGHTS_LAYOUT_COUNT
} mt_weights_layout;

enum { MT_WEIGHTS_NAME_BYTES = 128, MT_WEIGHTS_MAX_BLOCKS = 2 };

/* Rows of a slab inside a part: slab element (row_first + i, j) is part element offset + i*row_stride + j*col_stride.
 */
typedef struct mt_weights_block {
  int64_t row_first, rows;
  int64_t offset, row_stride, col_stride;
} mt_weights_block;

typedef struct mt_weights_part {
  char name[MT_WEIGHTS_NAME_BYTES]; /* tensor of the file */
  int n_dims;
  int64_t dim[3];       /* its whole shape */
  int64_t first, count; /* the part: a range of its elements */
  int n_blocks;
  mt_weights_block block[MT_WEIGHTS_MAX_BLOCKS];
} mt_weights_part;

/* Slabs of a parameter over all ranks, and elements of one. */
int64_t mt_weights_slabs(const mt_param *param);
int64_t mt_weights_slab_elements(const mt_param *param);

/* Part `index` of a slab; false past the last. The parts of the slabs 0, 1, ... of one tensor follow each other without
 * gaps, and no tensor serves two parameters. */
bool mt_weights_part_get(mt_weights_layout layout, const mt_config *cfg, const mt_param *param, int64_t slab, int index,
                         mt_weights_part *out);

/* Copies between part and slab values of `dtype` (F32 or F64); `cols` is the last dim of the parameter. */
void mt_weights_part_to_slab(const mt_weights_part *part, int64_t cols, mk_dtype dtype, const void *part_values,
                             void *slab_values);
void mt_weights_slab_to_part(const mt_weights_part *part, int64_t cols, mk_dtype dtype, const void *slab_values,
                             void *part_values);

typedef struct mt_weights_import_args {
  const char *path;   /* .safetensors file, or a folder with model.safetensors or model.safetensors.index.json */
  const char *prefix; /* tensors with this prefix take part, others are ignored; "" = all */
  const mt_config *cfg;
  const mt_params *params; /* what this rank owns: of an expert parameter only its own slabs are read */
  mk_dtype dtype;          /* of the values handed to put */
  /* values of elements [first, first + count) of the global parameter; called in order of params and slabs */
  mk_status (*put)(void *user, const mt_param *param, int64_t first, int64_t count, const void *values);
  void *user;
} mt_weights_import_args;

/* Loads weights; the layout is found from the names. A missing, extra or wrongly shaped tensor (anywhere in the model,
 * owned or not) and a NaN or infinity are errors that name file, tensor and what was expected; they come before the
 * first put, except non-finite values. */
mk_status mt_weights_import(mk_context *ctx, const mt_weights_import_args *args);

typedef struct mt_weights_export_args {
  const char *folder; /* gets model.safetensors and, in the hf layouts, config.json; made when absent */
  const mt_config *cfg;
  const mt_params *params;
  mt_weights_layout layout;
  bool writes; /* one rank writes; the others only take part in get */
  /* fills values (F32) of elements [first, first + count) of the global parameter; needed on the writing rank only, but
   * called on every rank in the same order, so that it may communicate */
  mk_status (*get)(void *user, const mt_param *param, int64_t first, int64_t count, float *values);
  void *user;
} mt_weights_export_args;

/* Writes the weights as F32. When writing fails, get is still called to the end (the other ranks wait in it), then the
 * error is returned on the writing rank; a failing get ends the export at once. */
mk_status mt_weights_export(mk_context *ctx, const mt_weights_export_args *args);

/* The layout that can hold a model: hf for what is exactly an OLMoE or a Qwen3-MoE, else olmo_core. */
mt_weights_layout mt_weights_layout_for(const mt_config *cfg);
const char *mt_weights_layout_name(mt_weights_layout layout);

#ifdef __cplusplus
}
#endif

#endif
