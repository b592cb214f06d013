/* Export: the list of tensors is known from the map, so the file is written as the slabs arrive.
 * Memory: two buffers of the largest slab. */
#include <string.h>

#include "kernels/base/folder.h"
#include "kernels/base/heap.h"
#include "trainer/checkpoint/hf_config.h"
#include "trainer/checkpoint/weights.h"

typedef struct export {
  mk_context *ctx;
  const mt_weights_export_args *args;
  mt_st_writer *writer; /* NULL on ranks that do not write, and once writing failed */
  mk_status write_status;
  int64_t tensors;
  float *slab_values, *part_values;
}
export;

/* Calls visit for every part of the model in order; `tensor` counts the file's tensors. */
typedef mk_status (*part_fn)(void *user, int64_t tensor, const mt_weights_part *part);

static mk_status walk_names(const mt_weights_export_args *args, part_fn visit, void *user, int64_t *tensors) {
  mt_weights_part part;
  int64_t next = 0;
  for (int p = 0; p < args->params->count; p++) {
    const mt_param *param = &args->params->item[p];
    for (int64_t slab = 0; slab < mt_weights_slabs(param); slab++) {
      for (int i = 0; mt_weights_part_get(args->layout, args->cfg, param, slab, i, &part); i++) {
        if (part.first != 0) continue;
        mk_status st = visit == NULL ? MK_OK : visit(user, next, &part);
        if (st != MK_OK) return st;
        next += 1;
      }
    }
  }
  *tensors = next;
  return MK_OK;
}

typedef struct spec_list {
  mk_context *ctx;
  mt_st_tensor *tensor;
  char **name;
} spec_list;

static mk_status add_spec(void *user, int64_t tensor, const mt_weights_part *part) {
  spec_list *list = user;
  mt_st_tensor *t = &list->tensor[tensor];
  MK_TRY(list->ctx, mk_heap_strdup(list->ctx, part->name, &list->name[tensor]));
  *t = (mt_st_tensor){.name = list->name[tensor], .dtype = MK_F32, .n_dims = part->n_dims};
  for (int d = 0; d < part->n_dims; d++)
    t->dim[d] = part->dim[d];
  return MK_OK;
}

static mk_status start_writer(export *ex) {
  static const char *const metadata[] = {"format", "pt", NULL}; /* transformers refuses a file without it */
  mk_context *ctx = ex->ctx;
  mk_status st = MK_OK;
  spec_list list = {.ctx = ctx};
  char *path = NULL;
  MK_TRY_GOTO(ctx, mk_folder_make(ctx, ex->args->folder), out);
  MK_TRY_GOTO(ctx, mk_heap_printf(ctx, &path, "%s/model.safetensors", ex->args->folder), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)ex->tensors, sizeof list.tensor[0], &list.tensor), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)ex->tensors, sizeof list.name[0], &list.name), out);
  MK_TRY_GOTO(ctx, walk_names(ex->args, add_spec, &list, &ex->tensors), out);
  MK_TRY_GOTO(ctx, mt_st_writer_create(ctx, path, list.tensor, ex->tensors, metadata, &ex->writer), out);
out:
  for (int64_t i = 0; list.name != NULL && i < ex->tensors; i++)
    mk_heap_free(ctx, list.name[i]);
  mk_heap_free(ctx, list.name);
  mk_heap_free(ctx, list.tensor);
  mk_heap_free(ctx, path);
  return st;
}

/* A failed write ends writing, not the walk: other ranks still wait in get. */
static void note_write(export *ex, mk_status st) {
  if (st == MK_OK) return;
  ex->write_status = st;
  mt_st_writer_destroy(ex->writer);
  ex->writer = NULL;
}

static int parts_of_slab(const export *ex, const mt_param *param) {
  mt_weights_part part;
  int parts = 0;
  while (mt_weights_part_get(ex->args->layout, ex->args->cfg, param, 0, parts, &part))
    parts++;
  return parts;
}

/* *next: number of the parameter's first tensor in walk order, moved on by the tensors it has. A part that starts
 * inside its tensor continues that of slab 0; every other part is a tensor of its own. */
static mk_status export_param(export *ex, const mt_param *param, int64_t *next) {
  mt_weights_part part;
  int64_t elements = mt_weights_slab_elements(param), cols = param->dim[param->n_dims - 1];
  int64_t base = *next, parts = parts_of_slab(ex, param);
  for (int64_t slab = 0; slab < mt_weights_slabs(param); slab++) {
    MK_TRY(ex->ctx, ex->args->get(ex->args->user, param, slab * elements, elements, ex->slab_values));
    for (int i = 0; mt_weights_part_get(ex->args->layout, ex->args->cfg, param, slab, i, &part); i++) {
      if (part.first == 0) *next += 1;
      if (ex->writer == NULL) continue;
      int64_t tensor = base + i + (part.first == 0 ? slab * parts : 0);
      mt_weights_slab_to_part(&part, cols, MK_F32, ex->slab_values, ex->part_values);
      note_write(ex, mt_st_writer_put(ex->writer, tensor, ex->part_values, part.count));
    }
  }
  return MK_OK;
}

static mk_status export_all(export *ex) {
  const mt_params *params = ex->args->params;
  int64_t largest = 0, next = 0;
  for (int p = 0; p < params->count; p++) {
    int64_t elements = mt_weights_slab_elements(&params->item[p]);
    if (elements > largest) largest = elements;
  }
  MK_TRY(ex->ctx, mk_heap_array(ex->ctx, (size_t)largest, sizeof(float), &ex->slab_values));
  MK_TRY(ex->ctx, mk_heap_array(ex->ctx, (size_t)largest, sizeof(float), &ex->part_values));
  for (int p = 0; p < params->count; p++)
    MK_TRY(ex->ctx, export_param(ex, &params->item[p], &next));
  return MK_OK;
}

static mk_status check_layout(const export *ex) {
  mt_weights_part part;
  for (int p = 0; p < ex->args->params->count; p++) {
    const mt_param *param = &ex->args->params->item[p];
    MK_CHECK(ex->ctx, mt_weights_part_get(ex->args->layout, ex->args->cfg, param, 0, 0, &part), MK_ERR_UNSUPPORTED,
             "%s: the layout %s has no name for %s", ex->args->folder, mt_weights_layout_name(ex->args->layout),
             param->name);
  }
  return MK_OK;
}

static mk_status finish(export *ex) {
  mk_context *ctx = ex->ctx;
  mk_status st = MK_OK;
  char *path = NULL;
  if (ex->args->layout != MT_WEIGHTS_OLMO_CORE) {
    MK_TRY_GOTO(ctx, mk_heap_printf(ctx, &path, "%s/config.json", ex->args->folder), out);
    MK_TRY_GOTO(ctx, mt_hf_config_write(ctx, path, ex->args->cfg), out);
  }
  MK_TRY_GOTO(ctx, mt_st_writer_commit(ex->writer), out);
out:
  mk_heap_free(ctx, path);
  return st;
}

mk_status mt_weights_export(mk_context *ctx, const mt_weights_export_args *args) {
  mk_status st = MK_OK;
  export ex = {.ctx = ctx, .args = args, .write_status = MK_OK};
  MK_TRY(ctx, check_layout(&ex));
  MK_TRY(ctx, walk_names(args, NULL, NULL, &ex.tensors));
  if (args->writes) note_write(&ex, start_writer(&ex));
  MK_TRY_GOTO(ctx, export_all(&ex), out);
  if (ex.writer != NULL) note_write(&ex, finish(&ex));
  st = ex.write_status;
out:
  mt_st_writer_destroy(ex.writer);
  mk_heap_free(ctx, ex.slab_values);
  mk_heap_free(ctx, ex.part_values);
  return st;
}
