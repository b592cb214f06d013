/* Embedding, reference: token by token. */
#include "kernels/ops/embedding/embedding.h"

#include "kernels/ops/embedding/embedding_ids.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/ref_access.h"

mk_status mk_embedding_fwd_ref(mk_stream *stream, const void *args) {
  const mk_embedding_fwd_args *a = args;
  MK_TRY(stream->dev->ctx, mk_embedding_check_ids(stream, "embedding_fwd", &a->ids, a->table.dim[0]));
  int64_t width = a->y.dim[1];
  for (int64_t t = 0; t < a->y.dim[0]; t++) {
    int64_t row = (int64_t)mk_ref_get(&a->ids, t);
    for (int64_t d = 0; d < width; d++) {
      mk_ref_set(&a->y, t * width + d, (double)a->scale * mk_ref_get(&a->table, row * width + d));
    }
  }
  return MK_OK;
}

mk_status mk_embedding_bwd_ref(mk_stream *stream, const void *args) {
  const mk_embedding_bwd_args *a = args;
  MK_TRY(stream->dev->ctx, mk_embedding_check_ids(stream, "embedding_bwd", &a->ids, a->dtable.dim[0]));
  int64_t width = a->dy.dim[1];
  for (int64_t t = 0; t < a->dy.dim[0]; t++) {
    int64_t row = (int64_t)mk_ref_get(&a->ids, t);
    for (int64_t d = 0; d < width; d++) {
      mk_ref_add(&a->dtable, row * width + d, (double)a->scale * mk_ref_get(&a->dy, t * width + d));
    }
  }
  return MK_OK;
}
