/* Slabs, parts and the copies between them; the names are in weights_hf.c and weights_olmocore.c. */
#include "trainer/checkpoint/weights.h"

#include <string.h>

#include "trainer/checkpoint/weights_parts.h"

int64_t mt_weights_slab_cols(const mt_param *param) { return param->dim[param->n_dims - 1]; }

int64_t mt_weights_slab_rows(const mt_param *param) { return param->n_dims == 1 ? 1 : param->dim[param->n_dims - 2]; }

int64_t mt_weights_slab_elements(const mt_param *param) {
  return mt_weights_slab_rows(param) * mt_weights_slab_cols(param);
}

int64_t mt_weights_slabs(const mt_param *param) { return param->total / mt_weights_slab_elements(param); }

bool mt_weights_part_get(mt_weights_layout layout, const mt_config *cfg, const mt_param *param, int64_t slab, int index,
                         mt_weights_part *out) {
  *out = (mt_weights_part){0};
  if (layout == MT_WEIGHTS_OLMO_CORE) return mt_weights_olmo_core_part(cfg, param, slab, index, out);
  return mt_weights_hf_part(cfg, param, slab, index, layout == MT_WEIGHTS_HF_PACKED, out);
}

void mt_weights_part_whole(const mt_param *param, int n_dims, const int64_t *dim, mt_weights_part *out) {
  out->n_dims = n_dims;
  for (int d = 0; d < n_dims; d++)
    out->dim[d] = dim[d];
  out->count = mt_weights_slab_elements(param);
  out->n_blocks = 1;
  out->block[0] = (mt_weights_block){
      .rows = mt_weights_slab_rows(param), .row_stride = mt_weights_slab_cols(param), .col_stride = 1};
}

void mt_weights_part_rows(const mt_param *param, int64_t row_first, int64_t rows, mt_weights_part *out) {
  int64_t cols = mt_weights_slab_cols(param);
  out->n_dims = 2;
  out->dim[0] = rows;
  out->dim[1] = cols;
  out->count = rows * cols;
  out->n_blocks = 1;
  out->block[0] = (mt_weights_block){.row_first = row_first, .rows = rows, .row_stride = cols, .col_stride = 1};
}

bool mt_weights_part_qkv(const mt_config *cfg, const mt_param *param, int index, mt_weights_part *out) {
  if (index > 2) return false;
  int64_t q = cfg->heads * cfg->head_dim, kv = cfg->kv_heads * cfg->head_dim;
  mt_weights_part_rows(param, index == 0 ? 0 : q + (index - 1) * kv, index == 0 ? q : kv, out);
  return true;
}

/* One element at a time where the part is transposed, whole rows elsewhere. */
static void copy_part(const mt_weights_part *part, int64_t cols, size_t size, char *part_values, char *slab_values,
                      bool to_slab) {
  for (int b = 0; b < part->n_blocks; b++) {
    const mt_weights_block *block = &part->block[b];
    bool row = block->col_stride == 1;
    size_t bytes = row ? (size_t)cols * size : size;
    for (int64_t i = 0; i < block->rows; i++) {
      for (int64_t j = 0; j < (row ? 1 : cols); j++) {
        char *in_slab = slab_values + (size_t)((block->row_first + i) * cols + j) * size;
        char *in_part = part_values + (size_t)(block->offset + i * block->row_stride + j * block->col_stride) * size;
        memcpy(to_slab ? in_slab : in_part, to_slab ? in_part : in_slab, bytes);
      }
    }
  }
}

void mt_weights_part_to_slab(const mt_weights_part *part, int64_t cols, mk_dtype dtype, const void *part_values,
                             void *slab_values) {
  copy_part(part, cols, mk_dtype_bytes(dtype), (char *)(uintptr_t)part_values, slab_values, true);
}

void mt_weights_slab_to_part(const mt_weights_part *part, int64_t cols, mk_dtype dtype, const void *slab_values,
                             void *part_values) {
  copy_part(part, cols, mk_dtype_bytes(dtype), part_values, (char *)(uintptr_t)slab_values, false);
}

static bool is_hf(const mt_config *cfg) {
  if (cfg->norm != MT_NORM_PRE || cfg->embed_norm || cfg->embed_scale != 1 || cfg->shared_hidden != 0) return false;
  if (cfg->weight_scale != MT_WEIGHT_SCALE_ONE || cfg->gating != MK_GATING_SOFTMAX) return false;
  if (cfg->qk_norm == MK_QK_NORM_FULL) return cfg->dense_layers == 0 && cfg->heads * cfg->head_dim == cfg->d_model;
  return cfg->qk_norm == MK_QK_NORM_HEAD && cfg->clip_qkv == 0;
}

mt_weights_layout mt_weights_layout_for(const mt_config *cfg) {
  return is_hf(cfg) ? MT_WEIGHTS_HF : MT_WEIGHTS_OLMO_CORE;
}

const char *mt_weights_layout_name(mt_weights_layout layout) {
  static const char *const names[] = {"hf", "hf_packed", "olmo_core"};
  return layout >= 0 && layout < MT_WEIGHTS_LAYOUT_COUNT ? names[layout] : "?";
}
