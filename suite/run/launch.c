/* One launch: its folder, its command, its process, its records, its metrics. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "kernels/base/text.h"
#include "suite/provenance/comparability.h"
#include "suite/provenance/peaks.h"
#include "suite/run/classify.h"
#include "suite/run/folder.h"
#include "suite/run/peer.h"
#include "suite/run/runner.h"
#include "suite/run/tail.h"

/* Progress of the current launch, as the supervisor asks for it. */
typedef struct watch {
  ms_tail tail;
  const ms_progress *progress;
} watch;

static int64_t lines_seen(void *user) {
  watch *w = (watch *)user;
  int64_t lines = ms_tail_poll(&w->tail);
  ms_progress_show(w->progress, w->tail.records);
  return lines;
}

void ms_launch_status_set(ms_launch *launch, const char *status, const char *message) {
  snprintf(launch->status, sizeof launch->status, "%s", status);
  snprintf(launch->message, sizeof launch->message, "%s", message);
  mk_text_printable(launch->message);
}

/* Metrics, and what else a row needs. Without steps everything that needs them is NaN. */
static mk_status values_fill(ms_runner *r, ms_launch *launch, mt_precision precision) {
  const ms_plan *plan = r->run->plan;
  const ms_case *c = &plan->cases[launch->case_index];
  int count = 0;
  const ms_metric *list = ms_metric_list(&count);
  ms_view view;
  MK_TRY(r->ctx, ms_view_init(r->ctx, launch->records, launch->warmup_steps, &view));
  if (c->peer[0] == '\0') view.devices = c->config.ranks;
  view.median_step = strcmp(plan->scale->measure.stat, "median_step") == 0;
  view.peak_flops = ms_peaks_flops(&plan->rates, launch->records, precision);
  if (strcmp(c->config.device, "sim") == 0) view.peak_flops = NAN;
  bool emulated = ms_case_is_emulated(c);
  for (int i = 0; i < count; i++)
    launch->value[i] = emulated && list[i].timed ? NAN : list[i].value(&view);
  launch->time_s = ms_view_time_s(&view);
  launch->tokens = ms_view_tokens(&view);
  launch->steps = view.n_steps;
  launch->peak_flops = view.peak_flops;
  ms_view_fini(r->ctx, &view);
  return ms_comparability_hash(r->ctx, &r->run->machine, c, launch->records, launch->comparability);
}

/* A peer's line stands in its standard output. A line that cannot be read is the launch's fault, not ours; where the
 * peer failed, how it ended says more. */
static mk_status peer_read(ms_runner *r, const char *folder, const ms_child_end *end, ms_launch *launch,
                           mt_precision *precision) {
  mk_context *ctx = r->ctx;
  char path[MS_PATH_BYTES];
  char *text = NULL;
  size_t bytes = 0;
  ms_peer_facts facts = {.precision = MT_FP64};
  MK_TRY(ctx, ms_path_join(ctx, folder, "stdout.log", path));
  MK_TRY(ctx, mk_file_read(ctx, path, &text, &bytes));
  if (ms_peer_read(ctx, text, launch->records, &facts) != MK_OK) {
    launch->records->has_end = false;
    if (end->code == 0) snprintf(launch->message, sizeof launch->message, "%s", ctx->error.message);
    mk_error_clear(ctx);
  }
  mk_heap_free(ctx, text);
  launch->warmup_steps = facts.warmup_steps;
  *precision = facts.precision;
  return MK_OK;
}

static mk_status child_run(ms_runner *r, const ms_command *command, const char *folder, ms_launch *launch,
                           ms_child_end *end) {
  mk_context *ctx = r->ctx;
  char out[MS_PATH_BYTES], err[MS_PATH_BYTES], records[MS_PATH_BYTES];
  double limit_s = r->options->timeout_s > 0 ? r->options->timeout_s : r->run->plan->scale->measure.timeout_s;
  MK_TRY(ctx, ms_path_join(ctx, folder, "stdout.log", out));
  MK_TRY(ctx, ms_path_join(ctx, folder, "stderr.log", err));
  MK_TRY(ctx, ms_path_join(ctx, folder, "records.jsonl", records));
  watch w = {.progress = &r->progress};
  MK_TRY(ctx, ms_tail_init(ctx, records, &w.tail));
  ms_child child = {.argv = command->argv,
                    .env = command->env_list,
                    .out_path = out,
                    .err_path = err,
                    .first_limit_s = 2 * limit_s, /* start-up and the first step are slower than the others */
                    .limit_s = limit_s,
                    .first_progress = 2,
                    .progress = lines_seen,
                    .user = &w};
  mk_status st = ms_supervisor_run(ctx, r->supervisor, &child, end);
  if (st == MK_OK && w.tail.status == MK_ERR_FORMAT) { /* a broken record is the launch's fault */
    snprintf(launch->message, sizeof launch->message, "%s", ctx->error.message);
    mk_error_clear(ctx);
    w.tail.records->has_end = false;
  } else if (st == MK_OK) {
    st = w.tail.status;
  }
  launch->records = ms_tail_fini(&w.tail);
  return st;
}

/* rc and status beside the logs, so that a folder says by itself what happened. */
static mk_status outcome_write(ms_runner *r, const char *folder, const ms_launch *launch) {
  char text[MK_MESSAGE_BYTES + MS_WORD_BYTES + 8];
  snprintf(text, sizeof text, "%d\n", launch->code);
  MK_TRY(r->ctx, ms_text_write(r->ctx, folder, "rc", text));
  snprintf(text, sizeof text, "%s\n%s%s", launch->status, launch->message, launch->message[0] != '\0' ? "\n" : "");
  return ms_text_write(r->ctx, folder, "status", text);
}

static mk_status launch_execute(ms_runner *r, ms_launch *launch, const ms_command *command, const char *folder) {
  mk_context *ctx = r->ctx;
  const ms_case *c = &r->run->plan->cases[launch->case_index];
  mt_precision precision = c->config.precision;
  ms_child_end end = {0};
  char hint[512];
  char *typed = NULL;
  MK_TRY(ctx, ms_command_print(ctx, command, &typed));
  mk_status st = ms_text_write(ctx, folder, "command", typed);
  mk_heap_free(ctx, typed);
  if (st != MK_OK) return mk_trace(ctx, st, __FILE__, __LINE__);
  MK_TRY(ctx, child_run(r, command, folder, launch, &end));
  if (c->peer[0] != '\0') MK_TRY(ctx, peer_read(r, folder, &end, launch, &precision));
  ms_log_hint(ctx, folder, "stderr.log", hint, sizeof hint);
  char broken[MK_MESSAGE_BYTES];
  snprintf(broken, sizeof broken, "%s", launch->message);
  ms_launch_classify(&end, hint, launch);
  if (broken[0] != '\0' && !end.timed_out && !end.interrupted) ms_launch_status_set(launch, "format", broken);
  MK_TRY(ctx, values_fill(r, launch, precision));
  return outcome_write(r, folder, launch);
}

mk_status ms_launch_run(ms_runner *r, ms_launch *launch) {
  mk_context *ctx = r->ctx;
  mk_status st = MK_OK;
  const ms_case *c = &r->run->plan->cases[launch->case_index];
  char folder[MS_PATH_BYTES], path[MS_PATH_BYTES];
  ms_command command = {0};
  ms_utc_now(launch->start_utc);
  launch->warmup_steps = c->config.warmup_steps;
  if (c->unsupported[0] != '\0') {
    ms_launch_status_set(launch, "unsupported", c->unsupported);
    return ms_records_create(ctx, &launch->records);
  }
  MK_TRY_GOTO(ctx, ms_launch_folder_make(ctx, r->run, launch), out);
  MK_TRY_GOTO(ctx, ms_path_join(ctx, r->run->folder, launch->folder, folder), out);
  if (c->peer[0] == '\0') {
    MK_TRY_GOTO(ctx, ms_path_join(ctx, folder, "run.json", path), out);
    mt_config config = c->config;
    config.seed = ms_launch_seed(r->run, launch);
    MK_TRY_GOTO(ctx, mt_config_write(ctx, path, &config), out);
  }
  st = ms_command_init(ctx, &r->tools, r->run->plan, c, folder, &command);
  if (st == MK_ERR_UNSUPPORTED) {
    ms_launch_status_set(launch, "unsupported", ctx->error.message);
    mk_error_clear(ctx);
    MK_TRY_GOTO(ctx, ms_records_create(ctx, &launch->records), out);
    goto out;
  }
  MK_TRY_GOTO(ctx, st, out);
  MK_TRY_GOTO(ctx, launch_execute(r, launch, &command, folder), out);
out:
  ms_command_fini(ctx, &command);
  return st;
}
