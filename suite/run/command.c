/* Open MPI 4.1: root is allowed (containers), more ranks than cores too, ranks yield while they wait, and no thread is
 * bound, because OpenMP places them. */
#include "suite/run/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/heap.h"
#include "suite/run/tools.h"

static bool needs_mpirun(const ms_case *c) {
  return c->peer[0] == '\0' && c->config.ranks > 1 && strcmp(c->config.device, "sim") != 0;
}

mk_status ms_tools_find(mk_context *ctx, const ms_plan *plan, const bool *selected, ms_tools *out) {
  ms_tools tools = {0};
  bool trainer = false, mpirun = false;
  for (int i = 0; i < plan->n_cases; i++) {
    const ms_case *c = &plan->cases[i];
    if ((selected != NULL && !selected[i]) || c->unsupported[0] != '\0') continue;
    trainer = trainer || c->peer[0] == '\0';
    mpirun = mpirun || needs_mpirun(c);
  }
  if (trainer) MK_TRY(ctx, ms_tool_trainer(ctx, tools.trainer));
  if (mpirun) MK_TRY(ctx, ms_tool_mpirun(ctx, tools.mpirun));
  *out = tools;
  return MK_OK;
}

static mk_status add(mk_context *ctx, ms_command *command, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static mk_status add(mk_context *ctx, ms_command *command, const char *fmt, ...) {
  char text[2 * MS_PATH_BYTES];
  MK_CHECK(ctx, command->argc < MS_COMMAND_ARGS, MK_ERR_CONFIG, "a launch has more than %d arguments", MS_COMMAND_ARGS);
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  MK_TRY(ctx, mk_heap_strdup(ctx, text, &command->argv[command->argc]));
  command->argc += 1;
  return MK_OK;
}

static mk_status trainer_add(mk_context *ctx, const ms_tools *tools, const ms_case *c, const char *folder,
                             ms_command *command) {
  if (needs_mpirun(c)) {
    const char *const options[] = {
        "--allow-run-as-root", "--oversubscribe", "-mca", "mpi_yield_when_idle", "1", "--bind-to", "none", "-np"};
    MK_TRY(ctx, add(ctx, command, "%s", tools->mpirun));
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
      MK_TRY(ctx, add(ctx, command, "%s", options[i]));
    MK_TRY(ctx, add(ctx, command, "%lld", (long long)c->config.ranks));
  }
  /* run.json says all, also where the command is typed again in a shell that holds these */
  static const char *const UNSET[] = {"MOEMARK_SET=", "MOEMARK_RESUME="};
  for (int i = 0; i < 2; i++) {
    snprintf(command->env[i], sizeof command->env[i], "%s", UNSET[i]);
    command->env_list[i] = command->env[i];
  }
  MK_TRY(ctx, add(ctx, command, "%s", tools->trainer));
  MK_TRY(ctx, add(ctx, command, "--config"));
  MK_TRY(ctx, add(ctx, command, "%s/run.json", folder));
  MK_TRY(ctx, add(ctx, command, "--out"));
  return add(ctx, command, "%s", folder);
}

static mk_status peer_add(mk_context *ctx, const ms_plan *plan, const ms_case *c, ms_command *command) {
  char relative[MS_PATH_BYTES], path[MS_PATH_BYTES], args[MS_LINE_BYTES];
  char *rest = NULL;
  snprintf(relative, sizeof relative, "baselines/peers/%s/run.sh", c->peer);
  if (ms_path_find(ctx, plan->study->folder, relative, path) != MK_OK) {
    mk_error_clear(ctx);
    return MK_FAIL(ctx, MK_ERR_UNSUPPORTED, "peer '%s' has no %s", c->peer, relative);
  }
  MK_TRY(ctx, add(ctx, command, "%s", path));
  snprintf(args, sizeof args, "%s", c->peer_args);
  for (char *word = strtok_r(args, " \t", &rest); word != NULL; word = strtok_r(NULL, " \t", &rest)) {
    MK_TRY(ctx, add(ctx, command, "%s", word));
  }
  int64_t threads = c->config.ranks * c->config.threads;
  if (threads == 0) threads = sysconf(_SC_NPROCESSORS_ONLN);
  snprintf(command->env[0], sizeof command->env[0], "OMP_NUM_THREADS=%lld", (long long)threads);
  command->env_list[0] = command->env[0];
  return MK_OK;
}

mk_status ms_command_init(mk_context *ctx, const ms_tools *tools, const ms_plan *plan, const ms_case *c,
                          const char *folder, ms_command *out) {
  *out = (ms_command){0};
  mk_status st = c->peer[0] != '\0' ? peer_add(ctx, plan, c, out) : trainer_add(ctx, tools, c, folder, out);
  if (st != MK_OK) ms_command_fini(ctx, out);
  return st;
}

void ms_command_fini(mk_context *ctx, ms_command *command) {
  for (int i = 0; i < command->argc; i++)
    mk_heap_free(ctx, command->argv[i]);
  *command = (ms_command){0};
}

/* Appends `word`, in single quotes when a shell would read it otherwise. */
static size_t word_put(char *dest, const char *word) {
  const char *plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./=,:+@%";
  size_t used = 0;
  bool quote = word[0] == '\0' || strspn(word, plain) != strlen(word);
  if (quote) dest[used++] = '\'';
  for (; *word != '\0'; word++) {
    if (*word == '\'') {
      memcpy(dest + used, "'\\''", 4);
      used += 4;
    } else {
      dest[used++] = *word;
    }
  }
  if (quote) dest[used++] = '\'';
  return used;
}

mk_status ms_command_print(mk_context *ctx, const ms_command *command, char **out) {
  char *text = NULL;
  size_t room = 2, used = 0;
  for (int i = 0; i < command->argc; i++)
    room += 4 * strlen(command->argv[i]) + 3;
  for (const char *const *e = command->env_list; *e != NULL; e++)
    room += 4 * strlen(*e) + 3;
  MK_TRY(ctx, mk_heap_alloc(ctx, room, &text));
  for (const char *const *e = command->env_list; *e != NULL; e++) {
    used += word_put(text + used, *e);
    text[used++] = ' ';
  }
  for (int i = 0; i < command->argc; i++) {
    used += word_put(text + used, command->argv[i]);
    text[used++] = i + 1 < command->argc ? ' ' : '\n';
  }
  *out = text;
  return MK_OK;
}
