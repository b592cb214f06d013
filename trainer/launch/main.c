/* moemark-trainer: one run of one configuration; under mpirun one process a rank. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/arguments.h"
#include "kernels/base/folder.h"
#include "kernels/base/heap.h"
#include "kernels/base/log.h"
#include "kernels/base/out.h"
#include "kernels/base/process.h"
#include "trainer/launch/config.h"
#include "trainer/launch/fault.h"
#include "trainer/launch/peaks.h"
#include "trainer/launch/schedule.h"
#include "trainer/step/loop.h"

enum { OPTION_PEAKS = 256, OPTION_KEYS, OPTION_PLAN, OPTION_SCHEDULE, MOST_SETS = 128 };

typedef struct options {
  mk_context *ctx;
  const char *config, *out, *resume;
  const char *set[MOST_SETS];
  int n_sets;
  bool peaks, keys, plan, schedule;
} options;

static const struct argp_option OPTIONS[] = {
    {"config", 'c', "FILE", 0, "read keys from a JSON object (run.json) [MOEMARK_CONFIG]", 0},
    {"set", 's', "KEY=VALUE", 0, "set one key; may be repeated, wins over the file [MOEMARK_SET, separated by spaces]",
     0},
    {"out", 'o', "FOLDER", 0, "write records.jsonl there [MOEMARK_OUT]", 0},
    {"resume", 'r', "WHAT", 0,
     "auto (newest usable checkpoint of checkpoint_dir), none, or a checkpoint's folder; the key resume "
     "[MOEMARK_RESUME]",
     0},
    {"keys", OPTION_KEYS, NULL, 0, "list all keys with defaults and ranges, then end", 0},
    {"plan", OPTION_PLAN, NULL, 0, "print the planned memory of a rank as JSON, then end", 0},
    {"schedule", OPTION_SCHEDULE, NULL, 0, "print what each pipeline rank does in a step, then end", 0},
    {"peaks", OPTION_PEAKS, NULL, 0, "measure this machine's GEMM and memory rates, print JSON, then end", 0},
    {0},
};

static const char DOC[] =
    "Trains one mixture-of-experts model as configured; start it under mpirun for more than one rank."
    "\vExit codes: 0 done, 2 wrong configuration, 3 failed (out of memory, non-finite loss, communication, files), "
    "5 results not writable, 130 interrupted (with checkpoint_dir after a checkpoint).\n"
    "Example: mpirun -np 2 moemark-trainer --set ranks=2 --set shard=dist_opt --set ep=world --set global_tokens=512";

static error_t parse(int key, char *arg, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
    case 'c':
      o->config = arg;
      return 0;
    case 'o':
      o->out = arg;
      return 0;
    case 'r':
      o->resume = arg;
      return 0;
    case OPTION_PEAKS:
      o->peaks = true;
      return 0;
    case OPTION_KEYS:
      o->keys = true;
      return 0;
    case OPTION_PLAN:
      o->plan = true;
      return 0;
    case OPTION_SCHEDULE:
      o->schedule = true;
      return 0;
    case 's':
      if (o->n_sets == MOST_SETS)
        return mk_arguments_fail(o->ctx, "--set: more than %d pairs; use --config", MOST_SETS);
      o->set[o->n_sets++] = arg;
      return 0;
    case ARGP_KEY_ARG:
      return mk_arguments_fail(o->ctx, "unexpected argument '%s'; keys are given as --set KEY=VALUE", arg);
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static mk_status set_pair(mk_context *ctx, mt_config *cfg, const char *pair, const char *where) {
  char key[64];
  const char *equals = strchr(pair, '=');
  MK_CHECK(ctx, equals != NULL && equals > pair && (size_t)(equals - pair) < sizeof key, MK_ERR_CONFIG,
           "%s: '%.200s' is not KEY=VALUE", where, pair);
  memcpy(key, pair, (size_t)(equals - pair));
  key[equals - pair] = '\0';
  mk_status st = mt_config_set(ctx, cfg, key, equals + 1);
  if (st != MK_OK) mk_error_prefix(ctx, where);
  return st;
}

static mk_status set_from_environment(mk_context *ctx, mt_config *cfg) {
  const char *text = getenv("MOEMARK_SET");
  char pair[MT_TEXT_BYTES + 64];
  while (text != NULL && *text != '\0') {
    size_t length = strcspn(text, " ");
    MK_CHECK(ctx, length < sizeof pair, MK_ERR_CONFIG, "MOEMARK_SET: a pair is longer than %zu bytes", sizeof pair - 1);
    memcpy(pair, text, length);
    pair[length] = '\0';
    if (length > 0) MK_TRY(ctx, set_pair(ctx, cfg, pair, "MOEMARK_SET"));
    text += length + (text[length] == ' ');
  }
  return MK_OK;
}

/* A variable that is empty counts as not set. */
static const char *from_environment(const char *name) {
  const char *text = getenv(name);
  return text != NULL && text[0] != '\0' ? text : NULL;
}

static mk_status set_resume(mk_context *ctx, mt_config *cfg, const char *value, const char *where) {
  if (value == NULL) return MK_OK;
  mk_status st = mt_config_set(ctx, cfg, "resume", value);
  if (st != MK_OK) mk_error_prefix(ctx, where);
  return st;
}

/* Command line beats environment beats file beats default. */
static mk_status resolve(mk_context *ctx, options *o, mt_config *cfg) {
  if (o->config == NULL) o->config = from_environment("MOEMARK_CONFIG");
  if (o->out == NULL) o->out = from_environment("MOEMARK_OUT");
  if (o->config != NULL) MK_TRY(ctx, mt_config_read(ctx, o->config, cfg));
  MK_TRY(ctx, set_from_environment(ctx, cfg));
  MK_TRY(ctx, set_resume(ctx, cfg, from_environment("MOEMARK_RESUME"), "MOEMARK_RESUME"));
  for (int i = 0; i < o->n_sets; i++)
    MK_TRY(ctx, set_pair(ctx, cfg, o->set[i], "--set"));
  MK_TRY(ctx, set_resume(ctx, cfg, o->resume, "--resume"));
  return mt_config_check(ctx, cfg);
}

static mk_status print_keys(void) {
  size_t count = 0;
  const mt_key *keys = mt_config_keys(&count);
  mt_config defaults = mt_config_default();
  for (size_t i = 0; i < count; i++) {
    char value[MT_TEXT_BYTES];
    mt_config_get(&defaults, &keys[i], value, sizeof value);
    mk_out("%-20s %-12s %s", keys[i].name, value, keys[i].help);
    for (int w = 0; keys[i].type == MT_KEY_ENUM && keys[i].words[w] != NULL; w++) {
      mk_out("%s%s", w == 0 ? " (" : ", ", keys[i].words[w]);
    }
    mk_out("%s\n", keys[i].type == MT_KEY_ENUM ? ")" : "");
  }
  return MK_OK;
}

static mk_status print_plan(mk_context *ctx, const mt_config *cfg) {
  size_t bytes[MK_MEM_COUNT] = {0}, total = 0;
  MK_TRY(ctx, mt_plan_memory(ctx, cfg, bytes));
  mk_out("{");
  for (int i = 0; i < MK_MEM_COUNT; i++) {
    mk_out("\"%s\":%zu,", mk_memory_name((mk_memory)i), bytes[i]);
    total += bytes[i];
  }
  mk_out("\"total\":%zu}\n", total);
  return MK_OK;
}

/* Signals end the run between steps, see loop.c. */
static void block_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, NULL);
}

/* The fault as one line. Most faults are the same on all ranks, and the first abort ends all of them: the others give
 * rank 0 three seconds to speak, so that one line says it also where the machine is busy. */
static void report(const mk_context *ctx) {
  if (ctx->rank != 0) sleep(3);
  mk_log_error(ctx, getenv("MOEMARK_FRAMES") != NULL);
}

/* Puts a wrapper round the world where the configuration asks for one. On a fault *world is as it was. */
static mk_status wrap_world(mk_context *ctx, const mt_config *cfg, const mt_fault *fault, mt_comm **world) {
  if (mt_fault_hits(fault, MT_FAULT_COMM, ctx->rank)) {
    MK_TRY(ctx, mt_comm_fault_create(ctx, *world, fault->at, world));
  }
  if (cfg->trace[0] != '\0' && ctx->rank == 0) { /* one file has one writer */
    MK_TRY(ctx, mt_comm_trace_create(ctx, *world, cfg->trace, world));
  }
  return MK_OK;
}

/* "key=value" lines of what ranks must have in common: all but limits and names of one rank's own machine. */
static mk_status common_keys(mk_context *ctx, const mt_config *cfg, char **out) {
  static const char *const OWN[] = {"threads", "memory_budget_mib", "trace", "fault", "data_path", "weights_in"};
  char value[MT_TEXT_BYTES];
  size_t count = 0, used = 0;
  const mt_key *keys = mt_config_keys(&count);
  MK_TRY(ctx, mk_heap_array(ctx, count, MT_TEXT_BYTES + 64, out));
  for (size_t i = 0; i < count; i++) {
    bool own = false;
    for (size_t k = 0; k < sizeof OWN / sizeof OWN[0]; k++)
      own = own || strcmp(keys[i].name, OWN[k]) == 0;
    if (own) continue;
    mt_config_get(cfg, &keys[i], value, sizeof value);
    used += (size_t)snprintf(*out + used, sizeof value + 64, "%s=%s\n", keys[i].name, value);
  }
  return MK_OK;
}

static mk_status create_world(mk_context *ctx, const mt_config *cfg, const char *alike, mt_comm **out) {
  mt_comm_mpi_config mpi = {
      .threaded = mk_device_threaded(cfg->device), .timeout_s = cfg->comm_timeout_s, .alike = alike};
  return mt_comm_mpi_launched() ? mt_comm_mpi_create(ctx, &mpi, out) : mt_comm_self_create(ctx, out);
}

static mk_status train(mk_context *ctx, const mt_config *cfg, const char *folder) {
  mk_status st = MK_OK;
  mt_comm *world = NULL;
  mt_fault fault;
  char *alike = NULL;
  /* MPI would start a helper of its own for a lone process, and ends the program where it finds none */
  MK_CHECK(ctx, mt_comm_mpi_launched() || cfg->ranks == 1, MK_ERR_CONFIG,
           "ranks: %lld, but this process was started alone; start mpirun -np %lld moemark-trainer ...",
           (long long)cfg->ranks, (long long)cfg->ranks);
  MK_TRY(ctx, mt_fault_parse(ctx, cfg->fault, &fault));
  MK_TRY(ctx, common_keys(ctx, cfg, &alike));
  ctx->ranks = (int)cfg->ranks; /* from here on a fault may be one rank's own */
  block_signals();
  if (mt_fault_hits(&fault, MT_FAULT_HEAP, ctx->rank)) ctx->heap_fail_at = ctx->heap_calls + fault.at;
  st = create_world(ctx, cfg, alike, &world);
  mk_heap_free(ctx, alike);
  MK_TRY(ctx, st);
  MK_TRY_GOTO(ctx, wrap_world(ctx, cfg, &fault, &world), out);
  MK_TRY_GOTO(ctx, mt_loop_run(ctx, cfg, world, folder), out);
  if (cfg->trace[0] != '\0' && ctx->rank == 0) st = mt_comm_trace_finish(world);
out:
  if (st != MK_OK && world->size > 1) {
    report(ctx);
    mt_comm_abort(world, mt_exit_code(st));
  }
  mt_comm_destroy(world);
  return st;
}

static mk_status run(mk_context *ctx, options *o) {
  mt_config cfg = mt_config_default();
  if (o->keys) return print_keys();
  MK_TRY(ctx, resolve(ctx, o, &cfg));
  if (o->plan) return print_plan(ctx, &cfg);
  if (o->schedule) return mt_schedule_print(ctx, &cfg);
  if (o->peaks) return mt_peaks_print(ctx, &cfg);
  mk_status st = o->out != NULL ? mk_folder_make(ctx, o->out) : MK_OK;
  if (st != MK_OK) mk_error_prefix(ctx, "--out");
  MK_TRY(ctx, st);
  return train(ctx, &cfg, o->out);
}

int main(int argc, char **argv) {
  static const struct argp argp = {OPTIONS, parse, NULL, DOC, NULL, NULL, NULL};
  mk_context ctx = {.rank = mt_comm_mpi_launched_rank()};
  options o = {.ctx = &ctx};
  mk_process_init();
  mk_status st = mk_arguments_parse(&ctx, &argp, argc, argv, NULL, &o);
  if (st == MK_OK) st = run(&ctx, &o);
  if (st == MK_OK) st = mk_out_flush(&ctx);
  if (st != MK_OK) report(&ctx);
  return mt_exit_code(st);
}
