/* AdamW: work. Per element: clip 1, decay 1, m 3, v 4, root 1, denominator 2, update 3. */
#include "kernels/ops/adamw/adamw.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/work.h"

mk_work mk_adamw_work(const void *args, int64_t rows) {
  const mk_adamw_args *a = args;
  (void)rows;
  bool copies = a->compute.data == NULL || a->compute.data != a->main.data;
  double moved = mk_work_bytes(&a->grad) * (a->clear_grad ? 2 : 1);
  moved += 2 * (mk_work_bytes(&a->main) + mk_work_bytes(&a->m) + mk_work_bytes(&a->v));
  moved += copies ? mk_work_bytes(&a->compute) : 0;
  return (mk_work){.flops = 15 * (double)mk_tensor_count(&a->main), .bytes = moved};
}
