/* Import in two passes: names and shapes of the whole model first, so that nothing is loaded from a file that does not
 * fit; then the values of what the rank owns, one slab at a time. Memory: two buffers of the largest slab. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "trainer/checkpoint/hf_config.h"
#include "trainer/checkpoint/safetensors_set.h"
#include "trainer/checkpoint/weights.h"

typedef struct import {
  mk_context *ctx;
  const mt_weights_import_args *args;
  mt_weights_layout layout;
  mt_st_set set;
  char *used; /* a flag for each tensor of each file: the model has it */
  char *part_values, *slab_values;
} import;

static char *used_flag(const import *im, const mt_st_reader *reader, const mt_st_tensor *tensor) {
  int64_t place = tensor - mt_st_reader_at(reader, 0);
  for (int64_t f = 0; im->set.reader[f] != reader; f++)
    place += mt_st_reader_count(im->set.reader[f]);
  return &im->used[place];
}

static mk_status find_tensor(const import *im, const mt_weights_part *part, const mt_st_reader **reader,
                             const mt_st_tensor **tensor) {
  char name[2 * MT_WEIGHTS_NAME_BYTES], expected[128], found[128];
  snprintf(name, sizeof name, "%s%s", im->args->prefix, part->name);
  mt_st_shape_text(part->n_dims, part->dim, expected, sizeof expected);
  MK_CHECK(im->ctx, mt_st_set_find(&im->set, name, reader, tensor), MK_ERR_MISMATCH,
           "%s: tensor '%s' of shape %s is missing (layout %s)", im->args->path, name, expected,
           mt_weights_layout_name(im->layout));
  const mt_st_tensor *t = *tensor;
  bool same = t->n_dims == part->n_dims && memcmp(t->dim, part->dim, (size_t)t->n_dims * sizeof t->dim[0]) == 0;
  MK_CHECK(im->ctx, same, MK_ERR_MISMATCH,
           "%s: tensor '%s': expected shape %s, found %s; the model's keys must be those of the file",
           mt_st_reader_path(*reader), name, expected, mt_st_shape_text(t->n_dims, t->dim, found, sizeof found));
  bool real = t->dtype == MK_F32 || t->dtype == MK_F64 || t->dtype == MK_BF16;
  MK_CHECK(im->ctx, real, MK_ERR_MISMATCH, "%s: tensor '%s': expected floating values, found %s",
           mt_st_reader_path(*reader), name, mk_dtype_name(t->dtype));
  return MK_OK;
}

/* The names decide: only Olmo-core has embeddings.weight; only packed experts have gate_up_proj. */
static mt_weights_layout detect_layout(const import *im) {
  size_t skip = strlen(im->args->prefix);
  bool packed = false;
  for (int64_t f = 0; f < im->set.count; f++) {
    for (int64_t i = 0; i < mt_st_reader_count(im->set.reader[f]); i++) {
      const char *name = mt_st_reader_at(im->set.reader[f], i)->name;
      if (strncmp(name, im->args->prefix, skip) != 0) continue;
      if (strcmp(name + skip, "embeddings.weight") == 0) return MT_WEIGHTS_OLMO_CORE;
      packed = packed || strstr(name + skip, ".mlp.experts.gate_up_proj") != NULL;
    }
  }
  return packed ? MT_WEIGHTS_HF_PACKED : MT_WEIGHTS_HF;
}

static mk_status check_param(import *im, const mt_param *param) {
  mt_weights_part part;
  for (int64_t slab = 0; slab < mt_weights_slabs(param); slab++) {
    int index = 0;
    for (; mt_weights_part_get(im->layout, im->args->cfg, param, slab, index, &part); index++) {
      const mt_st_reader *reader = NULL;
      const mt_st_tensor *tensor = NULL;
      MK_TRY(im->ctx, find_tensor(im, &part, &reader, &tensor));
      *used_flag(im, reader, tensor) = 1;
    }
    MK_CHECK(im->ctx, index > 0, MK_ERR_MISMATCH,
             "%s: the model has %s, which the layout %s of this file has no name for", im->args->path, param->name,
             mt_weights_layout_name(im->layout));
  }
  return MK_OK;
}

static mk_status check_extra(const import *im) {
  size_t skip = strlen(im->args->prefix);
  for (int64_t f = 0; f < im->set.count; f++) {
    const mt_st_reader *reader = im->set.reader[f];
    for (int64_t i = 0; i < mt_st_reader_count(reader); i++) {
      const mt_st_tensor *t = mt_st_reader_at(reader, i);
      char shape[128];
      MK_CHECK(im->ctx, *used_flag(im, reader, t) || strncmp(t->name, im->args->prefix, skip) != 0, MK_ERR_MISMATCH,
               "%s: tensor '%s' %s is not of this model (extra layers or experts, biases, or another model)",
               mt_st_reader_path(reader), t->name, mt_st_shape_text(t->n_dims, t->dim, shape, sizeof shape));
    }
  }
  return MK_OK;
}

static mk_status check_finite(const import *im, const mt_st_reader *reader, const mt_st_tensor *t,
                              const mt_weights_part *part) {
  for (int64_t i = 0; i < part->count; i++) {
    double value = im->args->dtype == MK_F64 ? ((double *)im->part_values)[i] : ((float *)im->part_values)[i];
    MK_CHECK(im->ctx, isfinite(value), MK_ERR_FORMAT,
             "%s: tensor '%s': element %lld is %s; the file is damaged or its training had diverged: take another",
             mt_st_reader_path(reader), t->name, (long long)(part->first + i), isnan(value) ? "NaN" : "infinite");
  }
  return MK_OK;
}

static mk_status load_slab(import *im, const mt_param *param, int64_t slab) {
  mt_weights_part part;
  int64_t elements = mt_weights_slab_elements(param), cols = param->dim[param->n_dims - 1];
  for (int index = 0; mt_weights_part_get(im->layout, im->args->cfg, param, slab, index, &part); index++) {
    const mt_st_reader *reader = NULL;
    const mt_st_tensor *tensor = NULL;
    MK_TRY(im->ctx, find_tensor(im, &part, &reader, &tensor));
    MK_TRY(im->ctx, mt_st_reader_get(reader, tensor, part.first, part.count, im->args->dtype, im->part_values));
    MK_TRY(im->ctx, check_finite(im, reader, tensor, &part));
    mt_weights_part_to_slab(&part, cols, im->args->dtype, im->part_values, im->slab_values);
  }
  return im->args->put(im->args->user, param, slab * elements, elements, im->slab_values);
}

static mk_status check_names(import *im, int64_t *largest_slab) {
  const mt_params *params = im->args->params;
  int64_t largest = 0, tensors = 0;
  for (int64_t f = 0; f < im->set.count; f++)
    tensors += mt_st_reader_count(im->set.reader[f]);
  MK_TRY(im->ctx, mk_heap_alloc(im->ctx, (size_t)tensors, &im->used));
  for (int p = 0; p < params->count; p++) {
    MK_TRY(im->ctx, check_param(im, &params->item[p]));
    int64_t elements = mt_weights_slab_elements(&params->item[p]);
    if (elements > largest) largest = elements;
  }
  *largest_slab = largest;
  return check_extra(im);
}

static mk_status run(import *im) {
  const mt_params *params = im->args->params;
  int64_t largest = 0;
  MK_TRY(im->ctx, check_names(im, &largest));
  size_t bytes = (size_t)largest * mk_dtype_bytes(im->args->dtype);
  MK_TRY(im->ctx, mk_heap_alloc(im->ctx, bytes, &im->part_values));
  MK_TRY(im->ctx, mk_heap_alloc(im->ctx, bytes, &im->slab_values));
  for (int p = 0; p < params->count; p++) {
    const mt_param *param = &params->item[p];
    int64_t elements = mt_weights_slab_elements(param);
    for (int64_t slab = param->first / elements; slab < (param->first + param->count) / elements; slab++) {
      MK_TRY(im->ctx, load_slab(im, param, slab));
    }
  }
  return MK_OK;
}

mk_status mt_weights_import(mk_context *ctx, const mt_weights_import_args *args) {
import im = {.ctx = ctx, .args = args, .set = {.ctx = ctx } };
  MK_CHECK(ctx, args->dtype == MK_F32 || args->dtype == MK_F64, MK_ERR_ARG, "weights are handed on as f32 or f64");
  MK_TRY(ctx, mt_st_set_open(ctx, args->path, &im.set));
  im.layout = detect_layout(&im);
  mk_status st = im.layout != MT_WEIGHTS_OLMO_CORE ? mt_hf_config_agrees(ctx, args->path, args->cfg) : MK_OK;
  if (st == MK_OK) st = run(&im);
  mk_heap_free(ctx, im.used);
  mk_heap_free(ctx, im.part_values);
  mk_heap_free(ctx, im.slab_values);
  mt_st_set_fini(&im.set);
  return st;
}
