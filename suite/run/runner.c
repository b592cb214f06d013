/* The loop over launches. Whatever a launch does is a row; only what hinders the runner itself is an error. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "kernels/base/log.h"
#include "suite/provenance/manifest.h"
#include "suite/run/capture.h"
#include "suite/run/folder.h"
#include "suite/run/order.h"
#include "suite/run/runner.h"
#include "suite/systems/system.h"

static mk_status table_write(ms_runner *r, const char *name,
                             mk_status (*make)(mk_context *, const ms_run *, ms_csv **)) {
  char path[MS_PATH_BYTES];
  ms_csv *table = NULL;
  MK_TRY(r->ctx, ms_path_join(r->ctx, r->run->folder, name, path));
  MK_TRY(r->ctx, make(r->ctx, r->run, &table));
  mk_status st = ms_csv_write(r->ctx, path, table);
  ms_csv_destroy(r->ctx, table);
  return st;
}

static mk_status tables_write(ms_runner *r) {
  MK_TRY(r->ctx, table_write(r, "launches.csv", ms_run_launches_table));
  MK_TRY(r->ctx, table_write(r, "runs.csv", ms_run_runs_table));
  MK_TRY(r->ctx, table_write(r, "steps.csv", ms_run_steps_table));
  return table_write(r, "evals.csv", ms_run_evals_table);
}

static void case_skip(ms_runner *r, const ms_launch *cause) {
  int skipped = 0;
  for (int i = 0; i < r->run->n_launches; i++) {
    ms_launch *l = &r->run->launches[i];
    if (l->case_index != cause->case_index || strcmp(l->status, "pending") != 0) continue;
    ms_launch_status_set(l, "skipped", "an earlier launch of this case did not run well");
    skipped += 1;
  }
  r->progress.done += skipped;
  if (skipped > 0 && !r->options->quiet) {
    mk_log(r->ctx, "%s: %d further launches of it are left out", r->run->plan->cases[cause->case_index].name, skipped);
  }
}

static mk_status launches_run(ms_runner *r) {
  int failures = 0;
  for (int i = 0; i < r->run->n_launches; i++) {
    ms_launch *l = &r->run->launches[i];
    if (strcmp(l->status, "pending") != 0) continue;
    if (ms_supervisor_interrupted(r->supervisor)) break;
    ms_launch_status_set(l, "running", "");
    MK_TRY(r->ctx, table_write(r, "launches.csv", ms_run_launches_table));
    ms_progress_start(&r->progress, l);
    MK_TRY(r->ctx, ms_launch_run(r, l));
    ms_progress_end(r->ctx, &r->progress, l);
    if (strcmp(l->status, "ok") != 0 && strcmp(l->status, "interrupted") != 0) case_skip(r, l);
    MK_TRY(r->ctx, tables_write(r));
    failures += ms_run_is_failure(r->run, l);
    if (r->options->max_fail > 0 && failures >= r->options->max_fail) {
      mk_log(r->ctx, "stopping after %d failed launches (--maxfail)", failures);
      break;
    }
  }
  r->run->interrupted = ms_supervisor_interrupted(r->supervisor);
  return MK_OK;
}

/* Launches of each case: none if not selected, one where more would say nothing new. */
static int64_t launches_of(const ms_plan *plan, const ms_run_options *options, int index) {
  const ms_case *c = &plan->cases[index];
  if (options->selected != NULL && !options->selected[index]) return 0;
  bool once = c->expect != NULL || c->unsupported[0] != '\0' || strcmp(c->config.device, "sim") == 0;
  if (once) return 1;
  return options->launches > 0 ? options->launches : plan->scale->measure.launches;
}

/* A run of which nothing can start would look like one that went well. */
static mk_status check_any_runs(mk_context *ctx, const ms_plan *plan, const int64_t *count) {
  const ms_case *first = NULL;
  for (int i = 0; i < plan->n_cases; i++) {
    if (count[i] == 0) continue;
    if (plan->cases[i].unsupported[0] == '\0') return MK_OK;
    if (first == NULL) first = &plan->cases[i];
  }
  MK_CHECK(ctx, first != NULL, MK_ERR_CONFIG,
           "no case of %s is selected: -E lets none through (moemark list cases FILE shows them)", plan->study->id);
  return MK_FAIL(ctx, MK_ERR_UNSUPPORTED, "%s: none of the selected cases can run here; %s: %s", plan->study->id,
                 first->name, first->unsupported);
}

/* Rows carry the system of their scale: what runs on another kind of machine must not stand there under its name, and
 * the dims of a GPU system would keep a CPU busy for days. */
static mk_status check_system(mk_context *ctx, const ms_plan *plan, const bool *selected) {
  mk_status st = MK_OK;
  const ms_scale *scale = plan->scale;
  const ms_study *study = plan->study;
  ms_system *system = NULL;
  ms_diagnostics diag = {0};
  if (scale->system[0] == '\0') return MK_OK;
  MK_TRY_GOTO(ctx, ms_system_read(ctx, scale->system, &diag, &system), out);
  for (int i = 0; i < plan->n_cases; i++) {
    const char *device = plan->cases[i].config.device;
    if (selected != NULL && !selected[i]) continue;
    MK_CHECK_GOTO(ctx, ms_system_offers(system, device), MK_ERR_MISMATCH, out,
                  "%.300s:%d:%d: scale '%s' runs on system %s (%lld x %s), not on device %s; use --scale %s here, or "
                  "moemark plan --scale %s for memory and predictions",
                  study->path, scale->place.line, scale->place.col, scale->name, system->name,
                  (long long)system->match_gpus, system->match_gpu, device,
                  ms_study_scale_find(study, "local") != NULL ? "local" : "smoke", scale->name);
  }
out:
  ms_system_destroy(ctx, system);
  ms_diagnostics_fini(ctx, &diag);
  return st;
}

static mk_status launches_plan(mk_context *ctx, const ms_run_options *options, ms_run *run) {
  mk_status st = MK_OK;
  const ms_plan *plan = run->plan;
  int64_t *count = NULL, total = 0;
  ms_slot *slots = NULL;
  int metrics = 0;
  ms_metric_list(&metrics);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)plan->n_cases, sizeof *count, &count), out);
  for (int i = 0; i < plan->n_cases; i++)
    total += count[i] = launches_of(plan, options, i);
  MK_TRY_GOTO(ctx, check_any_runs(ctx, plan, count), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)total, sizeof *slots, &slots), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)total, sizeof *run->launches, &run->launches), out);
  bool shuffled = strcmp(plan->scale->measure.order, "sequential") != 0;
  run->n_launches = ms_order_slots(count, plan->n_cases, shuffled, run->order_seed, slots);
  for (int i = 0; i < run->n_launches; i++) {
    ms_launch *l = &run->launches[i];
    *l = (ms_launch){.case_index = slots[i].case_index,
                     .number = slots[i].number,
                     .order = i + 1,
                     .time_s = NAN,
                     .tokens = NAN,
                     .peak_flops = NAN};
    for (int m = 0; m < metrics; m++)
      l->value[m] = NAN;
    ms_launch_status_set(l, "pending", "");
  }
out:
  mk_heap_free(ctx, slots);
  mk_heap_free(ctx, count);
  return st;
}

static mk_status study_copy(mk_context *ctx, const ms_run *run) {
  char *text = NULL;
  size_t bytes = 0;
  char path[MS_PATH_BYTES];
  MK_TRY(ctx, ms_path_join(ctx, run->folder, "study.yaml", path));
  MK_TRY(ctx, mk_file_read(ctx, run->plan->study->path, &text, &bytes));
  mk_status st = mk_file_write(ctx, path, text, bytes);
  mk_heap_free(ctx, text);
  return st;
}

static mk_status run_prepare(ms_runner *r, const ms_plan *plan) {
  mk_context *ctx = r->ctx;
  ms_run *run = r->run;
  const ms_run_options *options = r->options;
  run->plan = plan;
  run->order_seed = options->order_seed;
  while (run->order_seed == 0) {
    uint32_t draw = 0;
    MK_CHECK(ctx, getrandom(&draw, sizeof draw, 0) == (ssize_t)sizeof draw, MK_ERR_DEVICE, "getrandom failed");
    run->order_seed = draw;
  }
  snprintf(run->system, sizeof run->system, "%s", ms_plan_system(plan));
  snprintf(run->command, sizeof run->command, "%s", options->command != NULL ? options->command : "");
  MK_TRY(ctx, check_system(ctx, plan, options->selected));
  MK_TRY(ctx, ms_tools_find(ctx, plan, options->selected, &r->tools));
  snprintf(run->trainer, sizeof run->trainer, "%s", r->tools.trainer);
  MK_TRY(ctx, launches_plan(ctx, options, run));
  MK_TRY(ctx, ms_machine_probe(ctx, &run->machine));
  MK_TRY(ctx, ms_mpi_version(ctx, r->supervisor, run->machine.mpi, sizeof run->machine.mpi));
  MK_TRY(ctx, ms_run_folder_make(ctx, options->out != NULL ? options->out : "out", plan->study->id, run));
  ms_utc_now(run->start_utc);
  MK_TRY(ctx, study_copy(ctx, run));
  MK_TRY(ctx, tables_write(r));
  return ms_manifest_write(ctx, run);
}

mk_status ms_run_create(mk_context *ctx, const ms_plan *plan, const ms_run_options *options, ms_run **out) {
  mk_status st = MK_OK;
  ms_runner r = {.ctx = ctx, .options = options};
  MK_TRY_GOTO(ctx, mk_heap_alloc(ctx, sizeof *r.run, &r.run), out);
  MK_TRY_GOTO(ctx, ms_supervisor_create(ctx, &r.supervisor), out);
  MK_TRY_GOTO(ctx, run_prepare(&r, plan), out);
  r.progress = ms_progress_begin(r.run, options->quiet);
  MK_TRY_GOTO(ctx, launches_run(&r), out);
  ms_utc_now(r.run->end_utc);
  MK_TRY_GOTO(ctx, tables_write(&r), out);
  MK_TRY_GOTO(ctx, ms_manifest_write(ctx, r.run), out);
  *out = r.run;
  r.run = NULL;
out:
  ms_supervisor_destroy(ctx, r.supervisor);
  ms_run_destroy(ctx, r.run);
  return st;
}
