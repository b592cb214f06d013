/* Step state, reference: the rules of step_rules.h on device memory that the host can address. */
#include "kernels/ops/op_decls.h"
#include "kernels/ops/step_state/step_rules.h"

mk_status mk_step_begin_ref(mk_stream *stream, const void *args) {
  const mk_step_begin_args *a = args;
  (void)stream;
  mk_step_begin_rule(a, a->state.data, a->sums.data, a->counts.data);
  return MK_OK;
}

mk_status mk_step_clip_ref(mk_stream *stream, const void *args) {
  const mk_step_clip_args *a = args;
  (void)stream;
  mk_step_clip_rule(a, a->state.data, *(const double *)a->squared_norm.data, a->sums.data);
  return MK_OK;
}

mk_status mk_step_record_ref(mk_stream *stream, const void *args) {
  const mk_step_record_args *a = args;
  (void)stream;
  mk_step_record_rule(a, a->state.data, a->sums.data, a->counts.data, a->log.data);
  return MK_OK;
}
