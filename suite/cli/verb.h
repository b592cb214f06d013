/* Verbs of the command line. A verb is one file verb_<name>.c with its argp and one function ms_verb_<name>; it has one
 * line in the table of main.c. */
#ifndef SUITE_CLI_VERB_H
#define SUITE_CLI_VERB_H

#include <argp.h>

#include "suite/cli/out.h"
#include "suite/exit_codes.h"
#include "suite/plan/plan.h"

typedef struct ms_verb {
  const char *name;
  const char *help;                                   /* one line */
  int (*run)(mk_context *ctx, int argc, char **argv); /* argv[0] is "moemark <verb>"; returns the exit code */
} ms_verb;

int ms_verb_list(mk_context *ctx, int argc, char **argv);
int ms_verb_check(mk_context *ctx, int argc, char **argv);
int ms_verb_plan(mk_context *ctx, int argc, char **argv);
int ms_verb_run(mk_context *ctx, int argc, char **argv);
int ms_verb_status(mk_context *ctx, int argc, char **argv);
int ms_verb_report(mk_context *ctx, int argc, char **argv);
int ms_verb_baseline(mk_context *ctx, int argc, char **argv);
int ms_verb_sysinfo(mk_context *ctx, int argc, char **argv);

/* Arguments that are no options, in their order; they borrow main's argv. */
typedef struct ms_arguments {
  char **item;
  int count;
} ms_arguments;

/* Parses the environment first, then the command line: for every long option NAME of the argp the variable
 * MOEMARK_<NAME> (upper case, '-' as '_') counts as --NAME=value before the first argument. An option without argument
 * is switched on by 1 or true, left alone by 0, false or an empty text. MK_ERR_CONFIG names the option or the variable
 * whose value is wrong. The argp's parser sees options only, and refuses with mk_arguments_fail; arguments come as
 * *rest. */
mk_status ms_cli_parse(mk_context *ctx, const struct argp *argp, int argc, char **argv, void *input,
                       ms_arguments *rest);

/* Options that several verbs share, as children of their argp (ms_common_argp). */
typedef struct ms_common {
  const char *scale; /* NULL: the verb's default */
  const char *where; /* -E: condition over factors */
  ms_format format;
  ms_settings overrides; /* -S key=value; borrowed texts are copied */
  mk_context *ctx;
} ms_common;

extern const struct argp ms_common_argp; /* its input is an ms_common */
void ms_common_fini(ms_common *common);

/* For argp parsers: a value of --format. */
error_t ms_cli_format(mk_context *ctx, const char *text, ms_format *out);

/* For argp parsers: a value that names a file or folder and must not be empty. */
error_t ms_cli_path(mk_context *ctx, const char *option, const char *text, const char **out);

/* Prints all lines of diag on stderr; false when there are none. */
bool ms_cli_diagnostics(const ms_diagnostics *diag);

/* "moemark VERB: message" and where help is; returns MS_EXIT_USAGE. */
int ms_cli_usage(mk_context *ctx, const char *verb, const char *message);

/* Exit code of an error, and the same after printing ctx's. */
int ms_cli_exit_code(mk_status status);
int ms_cli_failed(mk_context *ctx);

#endif
