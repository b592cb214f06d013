/* moemark run FILE...: launches, judgement, report; the reports are on disk before a code other than 0 is returned. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arguments.h"
#include "kernels/base/heap.h"
#include "kernels/base/log.h"
#include "kernels/base/text.h"
#include "suite/cli/verb.h"
#include "suite/judge/judge.h"
#include "suite/provenance/peaks.h"
#include "suite/report/report.h"
#include "suite/run/run.h"
#include "suite/run/supervisor.h"

typedef struct input {
  ms_common common;
  ms_arguments files;
  ms_run_options run;
  ms_judge_options judge;
  const char *device;
  char command[4096];
} input;

enum {
  KEY_LAUNCHES = 256,
  KEY_TIMEOUT,
  KEY_MAX_FAIL,
  KEY_KEEP_GOING,
  KEY_ORDER_SEED,
  KEY_DEVICE,
  KEY_BASELINES,
  KEY_STRICT
};

static error_t number(const input *in, const char *option, const char *text, bool whole, double least, double most,
                      double *out) {
  if (mk_text_number(text, whole, out) && *out >= least && *out <= most) return 0;
  return mk_arguments_fail(in->common.ctx, "--%s: '%.40s' is not a %snumber from %.10g to %.10g", option, text,
                           whole ? "whole " : "", least, most);
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  input *in = state->input;
  double value = 0;
  error_t error = 0;
  switch (key) {
    case ARGP_KEY_INIT:
      state->child_inputs[0] = &in->common;
      return 0;
    case 'o':
      return ms_cli_path(in->common.ctx, "out", arg, &in->run.out);
    case 'q':
      in->run.quiet = true;
      return 0;
    case KEY_LAUNCHES:
      error = number(in, "launches", arg, true, 1, 1000, &value);
      in->run.launches = (int64_t)value;
      return error;
    case KEY_TIMEOUT:
      return number(in, "timeout", arg, false, 0.001, 1e7, &in->run.timeout_s);
    case KEY_MAX_FAIL:
      error = number(in, "maxfail", arg, true, 1, 1e6, &value);
      in->run.max_fail = (int)value;
      return error;
    case KEY_KEEP_GOING:
      in->run.max_fail = 0;
      return 0;
    case KEY_ORDER_SEED:
      error = number(in, "order-seed", arg, true, 1, 0x1p53, &value);
      in->run.order_seed = (uint64_t)value;
      return error;
    case KEY_DEVICE:
      in->device = arg;
      return 0;
    case KEY_BASELINES:
      return ms_cli_path(in->common.ctx, "baselines", arg, &in->judge.accepted_folder);
    case KEY_STRICT:
      in->judge.strict = true;
      return 0;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option OPTIONS[] = {
    {"out", 'o', "DIR", 0, "folder above the runs (default: out); a run is DIR/<study>/<UTC stamp>-<id>", 1},
    {"launches", KEY_LAUNCHES, "N", 0, "launches of each case instead of the study's number", 1},
    {"timeout", KEY_TIMEOUT, "SECONDS", 0,
     "a launch without a new record for so long is killed (twice that until the first step); default: the study's", 1},
    {"maxfail", KEY_MAX_FAIL, "N", 0, "stop after N failed launches", 1},
    {"keep-going", KEY_KEEP_GOING, NULL, 0, "run every case, whatever fails (default)", 1},
    {"order-seed", KEY_ORDER_SEED, "N", 0, "seed of the order of launches (default: drawn, stored in manifest.json)",
     1},
    {"device", KEY_DEVICE, "NAME", 0, "cpu, cuda or sim; the same as --set device=NAME", 1},
    {"baselines", KEY_BASELINES, "DIR", 0, "folder of accepted baselines (default: baselines/accepted of the source)",
     1},
    {"strict", KEY_STRICT, NULL, 0, "exit with 4 when a judgement could not be made", 1},
    {"quiet", 'q', NULL, 0, "no progress, only the report", 1},
    {0}};

static const struct argp_child CHILDREN[] = {{&ms_common_argp, 0, NULL, 0}, {0}};

static const struct argp ARGP = {
    .options = OPTIONS,
    .parser = parse,
    .children = CHILDREN,
    .args_doc = "FILE...",
    .doc =
        "Runs every case of the studies in new processes, launches in shuffled blocks, judges them and writes the "
        "report.\v"
        "A case that fails is not launched again; the others go on. SIGINT and SIGTERM end the launch at hand, keep "
        "what is finished and exit with 130."};

static void command_join(int argc, char **argv, char *out, size_t bytes) {
  size_t used = 0;
  for (int i = 0; i < argc && used < bytes; i++) {
    bool plain = argv[i][0] != '\0' && strpbrk(argv[i], " \t\"'$&|;<>()*?") == NULL;
    used += (size_t)snprintf(out + used, bytes - used, i == 0 || plain ? "%s%s" : "%s'%s'", i > 0 ? " " : "", argv[i]);
  }
}

static mk_status device_override(mk_context *ctx, const char *device, ms_settings *set) {
  mt_config scratch = mt_config_default();
  if (device == NULL) return MK_OK;
  MK_TRY(ctx, mt_config_set(ctx, &scratch, "device", device));
  MK_TRY(ctx, mk_heap_resize(ctx, &set->item, ((size_t)set->count + 1) * sizeof *set->item));
  ms_setting *item = &set->item[set->count++];
  *item = (ms_setting){.key = "device"};
  snprintf(item->value, sizeof item->value, "%s", device);
  return MK_OK;
}

static mk_status select_cases(mk_context *ctx, const ms_plan *plan, const char *where, bool *selected) {
  ms_condition condition = {0};
  if (where != NULL) MK_TRY(ctx, ms_condition_make(ctx, where, &condition));
  for (int i = 0; i < plan->n_cases; i++) {
    selected[i] = true;
    if (where == NULL) continue;
    MK_TRY(ctx, ms_condition_eval(ctx, plan->study, &condition, &plan->cases[i], &selected[i]));
  }
  return MK_OK;
}

static mk_status report(mk_context *ctx, const ms_run *run) {
  mk_status st = MK_OK;
  ms_supervisor *supervisor = NULL;
  ms_report *shown = NULL;
  MK_TRY_GOTO(ctx, ms_supervisor_create(ctx, &supervisor), out);
  MK_TRY_GOTO(ctx, ms_report_write(ctx, supervisor, run->folder), out);
  MK_TRY_GOTO(ctx, ms_report_read(ctx, run->folder, &shown), out);
  MK_TRY_GOTO(ctx, ms_report_print(ctx, shown), out);
out:
  ms_report_destroy(ctx, shown);
  ms_supervisor_destroy(ctx, supervisor);
  return st;
}

static mk_status judge_and_report(mk_context *ctx, const input *in, const ms_run *run, ms_exit *code) {
  mk_status st = MK_OK;
  ms_judgement *judgement = NULL;
  MK_TRY_GOTO(ctx, ms_judge_create(ctx, run, &in->judge, &judgement), out);
  MK_TRY_GOTO(ctx, ms_judge_write(ctx, judgement), out);
  *code = judgement->exit_code;
  if (judgement->warning[0] != '\0') mk_log(ctx, "warning: %s", judgement->warning);
  MK_TRY_GOTO(ctx, report(ctx, run), out);
  if (judgement->undecided > 0) {
    mk_log(ctx, "%s%d judgements could not be made (reasons are in the report)",
           in->judge.strict ? "" : "warning: ", judgement->undecided);
  }
out:
  ms_judge_destroy(ctx, judgement);
  return st;
}

static mk_status run_file(mk_context *ctx, input *in, const char *path, const ms_machine_rates *rates,
                          ms_diagnostics *diag, ms_exit *code) {
  mk_status st = MK_OK;
  ms_study *study = NULL;
  ms_plan *plan = NULL;
  ms_run *run = NULL;
  bool *selected = NULL;
  const char *scale = in->common.scale != NULL ? in->common.scale : "smoke";
  MK_TRY_GOTO(ctx, ms_study_read(ctx, path, diag, &study), out);
  MK_TRY_GOTO(ctx, ms_plan_create(ctx, study, scale, rates, &in->common.overrides, diag, &plan), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)plan->n_cases, sizeof *selected, &selected), out);
  MK_TRY_GOTO(ctx, select_cases(ctx, plan, in->common.where, selected), out);
  MK_TRY_GOTO(ctx, ms_judge_references_check(ctx, plan, &in->judge), out);
  in->run.selected = selected;
  MK_TRY_GOTO(ctx, ms_run_create(ctx, plan, &in->run, &run), out);
  MK_TRY_GOTO(ctx, judge_and_report(ctx, in, run, code), out);
out:
  ms_run_destroy(ctx, run);
  mk_heap_free(ctx, selected);
  ms_plan_destroy(ctx, plan);
  ms_study_destroy(ctx, study);
  return st;
}

static ms_exit run_all(mk_context *ctx, input *in, ms_diagnostics *diag) {
  ms_machine_rates rates = {0};
  ms_exit worst = MS_EXIT_OK;
  if (ms_peaks_load_here(ctx, &rates) != MK_OK || device_override(ctx, in->device, &in->common.overrides) != MK_OK) {
    return (ms_exit)ms_cli_failed(ctx);
  }
  if (rates.gemm_fp32_flops == 0)
    mk_log(ctx, "no MFU and no prediction: measure this machine first (moemark sysinfo --peaks)");
  for (int i = 0; i < in->files.count; i++) {
    ms_exit code = MS_EXIT_OK;
    mk_status st = run_file(ctx, in, in->files.item[i], &rates, diag, &code);
    if (st != MK_OK) {
      bool told = ms_cli_diagnostics(diag); /* each fault with its place: no further message */
      code = (ms_exit)(told ? ms_cli_exit_code(st) : ms_cli_failed(ctx));
      ms_diagnostics_fini(ctx, diag);
      mk_error_clear(ctx);
    }
    worst = ms_exit_stronger(worst, code);
    if (code == MS_EXIT_INTERRUPTED) break;
  }
  return worst;
}

int ms_verb_run(mk_context *ctx, int argc, char **argv) {
  input in = {.common = {.ctx = ctx}};
  ms_diagnostics diag = {0};
  command_join(argc, argv, in.command, sizeof in.command);
  in.run.command = in.command;
  int code = MS_EXIT_OK;
  if (ms_cli_parse(ctx, &ARGP, argc, argv, &in, &in.files) != MK_OK) {
    code = ms_cli_failed(ctx);
  } else if (in.files.count == 0) {
    code = ms_cli_usage(ctx, "run", "which study files?");
  } else {
    code = run_all(ctx, &in, &diag);
  }
  ms_common_fini(&in.common);
  return code;
}
