/* Step state: checks and launch. */
#include "kernels/ops/step_state/step_state.h"

#include "kernels/ops/check.h"

static mk_status check_state(mk_stream *stream, const char *op, const mk_tensor *state, const mk_tensor *sums) {
  MK_TRY(stream->dev->ctx,
         mk_check_tensor(stream, op, "state", state, MK_ONE_OF(MK_U8), 1, (int64_t)sizeof(mk_step_state), 1, 1));
  MK_TRY(stream->dev->ctx, mk_check_tensor(stream, op, "sums", sums, MK_ONE_OF(MK_F64), 1, MK_SUM_COUNT, 1, 1));
  return MK_OK;
}

mk_status mk_step_begin(mk_stream *stream, const mk_step_begin_args *args) {
  const char *op = "step_begin";
  MK_TRY(stream->dev->ctx, check_state(stream, op, &args->state, &args->sums));
  if (mk_tensor_present(&args->counts)) MK_CHECK_2D(stream, op, args, counts, MK_ONE_OF(MK_I64), -1, -1);
  MK_CHECK(stream->dev->ctx, args->peak_lr >= 0 && args->warmup_steps >= 0 && args->total_steps >= 0, MK_ERR_ARG,
           "%s: peak_lr %g, warmup_steps %lld, total_steps %lld: none may be negative", op, args->peak_lr,
           (long long)args->warmup_steps, (long long)args->total_steps);
  return mk_stream_launch(stream, MK_OP_step_begin, args, sizeof *args);
}

mk_status mk_step_clip(mk_stream *stream, const mk_step_clip_args *args) {
  const char *op = "step_clip";
  MK_TRY(stream->dev->ctx, check_state(stream, op, &args->state, &args->sums));
  MK_CHECK_1D(stream, op, args, squared_norm, MK_ONE_OF(MK_F64), 1);
  MK_CHECK(stream->dev->ctx, args->max_norm >= 0 && args->sigma_factor >= 0, MK_ERR_ARG,
           "%s: max_norm %g and sigma_factor %g must not be negative", op, args->max_norm, args->sigma_factor);
  return mk_stream_launch(stream, MK_OP_step_clip, args, sizeof *args);
}

mk_status mk_step_record(mk_stream *stream, const mk_step_record_args *args) {
  const char *op = "step_record";
  MK_TRY(stream->dev->ctx, check_state(stream, op, &args->state, &args->sums));
  if (mk_tensor_present(&args->counts)) MK_CHECK_2D(stream, op, args, counts, MK_ONE_OF(MK_I64), -1, -1);
  MK_CHECK_1D(stream, op, args, log, MK_ONE_OF(MK_U8), (int64_t)sizeof(mk_step_log));
  return mk_stream_launch(stream, MK_OP_step_record, args, sizeof *args);
}
