/* The two name maps behind mt_weights_part_get, one file a naming scheme. */
#ifndef TRAINER_CHECKPOINT_WEIGHTS_PARTS_H
#define TRAINER_CHECKPOINT_WEIGHTS_PARTS_H

#include "trainer/checkpoint/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

bool mt_weights_hf_part(const mt_config *cfg, const mt_param *param, int64_t slab, int index, bool packed,
                        mt_weights_part *out);
bool mt_weights_olmo_core_part(const mt_config *cfg, const mt_param *param, int64_t slab, int index,
                               mt_weights_part *out);

/* A part that is a whole tensor and the whole slab, in the slab's order. */
void mt_weights_part_whole(const mt_param *param, int n_dims, const int64_t *dim, mt_weights_part *out);

/* Rows [row_first, row_first + rows) of the slab as a whole tensor [rows, cols]. */
void mt_weights_part_rows(const mt_param *param, int64_t row_first, int64_t rows, mt_weights_part *out);

/* Part 0, 1, 2: the q, k and v rows of qkv as tensors of their own; false past them. */
bool mt_weights_part_qkv(const mt_config *cfg, const mt_param *param, int index, mt_weights_part *out);

/* Rows and columns of a slab (a vector is one row). */
int64_t mt_weights_slab_rows(const mt_param *param);
int64_t mt_weights_slab_cols(const mt_param *param);

#ifdef __cplusplus
}
#endif

#endif
