/* Embedding: checks and launch. */
#include "kernels/ops/embedding/embedding.h"

#include "kernels/ops/check.h"

mk_status mk_embedding_fwd(mk_stream *stream, const mk_embedding_fwd_args *args) {
  const char *op = "embedding_fwd";
  MK_CHECK_1D(stream, op, args, ids, MK_ONE_OF(MK_I32), -1);
  MK_CHECK_2D(stream, op, args, table, MK_ANY_FLOAT, -1, -1);
  MK_CHECK_2D(stream, op, args, y, MK_ANY_FLOAT, args->ids.dim[0], args->table.dim[1]);
  return mk_stream_launch(stream, MK_OP_embedding_fwd, args, sizeof *args);
}

mk_status mk_embedding_bwd(mk_stream *stream, const mk_embedding_bwd_args *args) {
  const char *op = "embedding_bwd";
  MK_CHECK_1D(stream, op, args, ids, MK_ONE_OF(MK_I32), -1);
  MK_CHECK_2D(stream, op, args, dtable, MK_MASTER_FLOAT, -1, -1);
  MK_CHECK_2D(stream, op, args, dy, MK_ANY_FLOAT, args->ids.dim[0], args->dtable.dim[1]);
  return mk_stream_launch(stream, MK_OP_embedding_bwd, args, sizeof *args);
}
