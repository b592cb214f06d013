/* Cast: work. */
#include "kernels/ops/cast/cast.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/work.h"

mk_work mk_cast_work(const void *args, int64_t rows) {
  const mk_cast_args *a = args;
  (void)rows;
  return (mk_work){.bytes = mk_work_bytes(&a->x) + mk_work_bytes(&a->y)};
}
