/* The command line of one launch. */
#ifndef SUITE_RUN_COMMAND_H
#define SUITE_RUN_COMMAND_H

#include "suite/plan/plan.h"

enum { MS_COMMAND_ARGS = 96 };

typedef struct ms_command {
  char *argv[MS_COMMAND_ARGS + 1]; /* owned, NULL-terminated */
  int argc;
  char env[2][64];         /* NAME=value */
  const char *env_list[3]; /* NULL-terminated */
} ms_command;

/* What a run's cases need; only what is needed is looked for. */
typedef struct ms_tools {
  char trainer[MS_PATH_BYTES], mpirun[MS_PATH_BYTES];
} ms_tools;

/* Finds the trainer if a selected case runs it, and mpirun if one has several ranks in several processes. */
mk_status ms_tools_find(mk_context *ctx, const ms_plan *plan, const bool *selected, ms_tools *out);

/* One rank (and simulated time, where one process holds all ranks): the trainer alone. Several: mpirun. A peer: its
 * run.sh, with as many threads as our ranks have together. MK_ERR_UNSUPPORTED: the peer has no run.sh. */
mk_status ms_command_init(mk_context *ctx, const ms_tools *tools, const ms_plan *plan, const ms_case *c,
                          const char *folder, ms_command *out);
void ms_command_fini(mk_context *ctx, ms_command *command);

/* As it would be typed into a shell, with a line break at the end. */
mk_status ms_command_print(mk_context *ctx, const ms_command *command, char **out);

#endif
