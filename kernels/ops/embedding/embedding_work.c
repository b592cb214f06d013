/* Embedding: work. Table rows are counted once a token; repeated rows may come from a cache. */
#include "kernels/ops/embedding/embedding.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/work.h"

mk_work mk_embedding_fwd_work(const void *args, int64_t rows) {
  const mk_embedding_fwd_args *a = args;
  (void)rows;
  double elements = (double)mk_tensor_count(&a->y);
  double table_bytes = elements * (double)mk_dtype_bytes(a->table.dtype);
  return (mk_work){.flops = elements, .bytes = mk_work_bytes(&a->ids) + table_bytes + mk_work_bytes(&a->y)};
}

mk_work mk_embedding_bwd_work(const void *args, int64_t rows) {
  const mk_embedding_bwd_args *a = args;
  (void)rows;
  double elements = (double)mk_tensor_count(&a->dy);
  double table_bytes = 2 * elements * (double)mk_dtype_bytes(a->dtable.dtype);
  return (mk_work){.flops = 2 * elements, .bytes = mk_work_bytes(&a->ids) + table_bytes + mk_work_bytes(&a->dy)};
}
