/* Step state: work. A few kilobytes; what counts is the launch. */
#include "kernels/ops/op_decls.h"
#include "kernels/ops/step_state/step_state.h"
#include "kernels/ops/work.h"

mk_work mk_step_begin_work(const void *args, int64_t rows) {
  const mk_step_begin_args *a = args;
  (void)rows;
  return (mk_work){.bytes = mk_work_bytes(&a->sums) + mk_work_bytes(&a->counts)};
}

mk_work mk_step_clip_work(const void *args, int64_t rows) {
  const mk_step_clip_args *a = args;
  (void)rows;
  return (mk_work){.bytes = mk_work_bytes(&a->state) + mk_work_bytes(&a->sums)};
}

mk_work mk_step_record_work(const void *args, int64_t rows) {
  const mk_step_record_args *a = args;
  (void)rows;
  return (mk_work){.bytes = mk_work_bytes(&a->sums) + mk_work_bytes(&a->counts) + mk_work_bytes(&a->log)};
}
