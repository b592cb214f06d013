/* moemark: finds the verb and runs it. */
#include <stdio.h>
#include <string.h>

#include "kernels/base/process.h"
#include "suite/cli/verb.h"
#include "suite/provenance/build_info.h"
#include "suite/study/schema.h"

static const ms_verb VERBS[] = {
    {"list", "studies, cases, systems, metrics or baselines", ms_verb_list},
    {"check", "validate study files; report every fault as file:line:col", ms_verb_check},
    {"plan", "cases of a study with memory, work, prediction; starts nothing", ms_verb_plan},
    {"run", "launch every case, judge, report", ms_verb_run},
    {"status", "launches of a run folder, their state and logs", ms_verb_status},
    {"report", "tables of a finished run again", ms_verb_report},
    {"baseline", "show accepted measurements, accept a run", ms_verb_baseline},
    {"sysinfo", "this machine and this build; measure its rates", ms_verb_sysinfo},
};
enum { N_VERBS = sizeof VERBS / sizeof VERBS[0] };

static const char HELP_TAIL[] =
    "\n"
    "`moemark VERB --help` explains the options of a verb. Every option --NAME can also be given as the environment\n"
    "variable MOEMARK_NAME (upper case, '-' as '_'); the command line beats the environment, the environment beats "
    "the\n"
    "study file, the study file beats the default.\n"
    "\n"
    "Exit codes:\n"
    "    0  everything asked for held\n"
    "    1  a judgement failed: REGRESSED, BELOW, claim not met, a case that should fail ran fine (XPASS)\n"
    "    2  the command or a file is wrong; nothing was started\n"
    "    3  a run failed: crash, timeout, sanity check, non-finite loss, out of memory that was not expected\n"
    "    4  no judgement possible (too few launches, noisy system, no baseline); only with --strict\n"
    "    5  refused: not comparable, wrong system, over budget, results not writable\n"
    "  130  interrupted; what was finished is kept\n"
    "If several apply, the order is 2, 5, 3, 1, 4.";

static int print_help(mk_context *ctx) {
  mk_status st = ms_out_text(ctx,
                             "moemark: reproducible benchmarks for training mixture-of-experts models\n\n"
                             "usage: moemark VERB [OPTION...] [FILE...]\n");
  for (int i = 0; i < N_VERBS && st == MK_OK; i++)
    st = ms_out_line(ctx, "  %-10s %s", VERBS[i].name, VERBS[i].help);
  if (st == MK_OK) st = ms_out_text(ctx, HELP_TAIL);
  return st == MK_OK ? MS_EXIT_OK : ms_cli_failed(ctx);
}

static int print_version(mk_context *ctx) {
  mk_status st = ms_out_line(ctx, "moemark %s (commit %s)", MS_BUILD_INFO.version, MS_BUILD_INFO.commit);
  return st == MK_OK ? MS_EXIT_OK : ms_cli_failed(ctx);
}

static int unknown_verb(mk_context *ctx, const char *name) {
  const char *best = "";
  int distance = -1;
  for (int i = 0; i < N_VERBS; i++)
    ms_nearest(name, VERBS[i].name, &best, &distance);
  MK_FAIL(ctx, MK_ERR_CONFIG, "unknown verb '%.60s'; the nearest is '%s' (moemark --help lists all)", name, best);
  return ms_cli_failed(ctx);
}

static int no_verb(mk_context *ctx) {
  char names[256] = "";
  for (int i = 0; i < N_VERBS; i++) {
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", VERBS[i].name);
  }
  MK_FAIL(ctx, MK_ERR_CONFIG, "no verb given; it is one of %s (moemark --help)", names);
  return ms_cli_failed(ctx);
}

/* Verbs see themselves as "moemark VERB" in argp's messages. */
static int run_verb(mk_context *ctx, const ms_verb *verb, int argc, char **argv) {
  char name[64] = "moemark ";
  strncat(name, verb->name, sizeof name - strlen(name) - 1);
  argv[0] = name;
  return verb->run(ctx, argc, argv);
}

static bool is_word(const char *text, const char *a, const char *b, const char *c) {
  return strcmp(text, a) == 0 || strcmp(text, b) == 0 || strcmp(text, c) == 0;
}

int main(int argc, char **argv) {
  mk_context ctx = {0};
  mk_process_init();
  if (argc < 2) return no_verb(&ctx);
  if (is_word(argv[1], "--help", "-?", "-h") || strcmp(argv[1], "help") == 0) return print_help(&ctx);
  if (is_word(argv[1], "--version", "-V", "version")) return print_version(&ctx);
  for (int i = 0; i < N_VERBS; i++) {
    if (strcmp(argv[1], VERBS[i].name) == 0) return run_verb(&ctx, &VERBS[i], argc - 1, argv + 1);
  }
  return unknown_verb(&ctx, argv[1]);
}
