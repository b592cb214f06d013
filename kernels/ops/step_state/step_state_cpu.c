/* Step state on the CPU: a few hundred operations, as in the reference. */
#include "kernels/ops/op_decls.h"
#include "kernels/ops/step_state/step_state.h"

mk_status mk_step_begin_cpu(mk_stream *stream, const void *args) { return mk_step_begin_ref(stream, args); }
mk_status mk_step_clip_cpu(mk_stream *stream, const void *args) { return mk_step_clip_ref(stream, args); }
mk_status mk_step_record_cpu(mk_stream *stream, const void *args) { return mk_step_record_ref(stream, args); }
