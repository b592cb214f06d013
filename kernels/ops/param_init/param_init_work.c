/* Parameter initialisation: work. About 60 integer and floating operations a draw, none of them counted as flops. */
#include "kernels/ops/op_decls.h"
#include "kernels/ops/param_init/param_init.h"
#include "kernels/ops/work.h"

mk_work mk_param_init_work(const void *args, int64_t rows) {
  const mk_param_init_args *a = args;
  (void)rows;
  return (mk_work){.bytes = mk_work_bytes(&a->main)};
}
