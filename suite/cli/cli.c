/* What all verbs share: environment before command line, common options, messages and exit codes of errors. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "kernels/base/log.h"
#include "suite/cli/verb.h"

/* ---- environment ---- */

enum { MAX_ENV_ARGS = 128 };

typedef struct arguments {
  mk_context *ctx;
  char *value[MAX_ENV_ARGS];
  bool owned[MAX_ENV_ARGS];
  int count;
} arguments;

static void variable_name(const char *option, char *out, size_t bytes) {
  size_t used = (size_t)snprintf(out, bytes, "MOEMARK_");
  for (const char *c = option; *c != '\0' && used + 1 < bytes; c++) {
    out[used++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
  }
  out[used] = '\0';
}

static mk_status add_flag(arguments *a, const char *name) {
  MK_TRY(a->ctx, mk_heap_printf(a->ctx, &a->value[a->count], "--%s", name));
  a->owned[a->count++] = true;
  return MK_OK;
}

static mk_status add_option(arguments *a, const struct argp_option *option) {
  char variable[128];
  variable_name(option->name, variable, sizeof variable);
  char *value = getenv(variable);
  if (value == NULL || a->count + 2 > MAX_ENV_ARGS) return MK_OK;
  if (option->arg != NULL) {
    if (value[0] == '\0') return MK_OK;
    MK_TRY(a->ctx, add_flag(a, option->name));
    a->value[a->count++] = value;
    return MK_OK;
  }
  if (strcmp(value, "1") == 0 || strcmp(value, "true") == 0) return add_flag(a, option->name);
  MK_CHECK(a->ctx, value[0] == '\0' || strcmp(value, "0") == 0 || strcmp(value, "false") == 0, MK_ERR_CONFIG,
           "environment variable %s: '%.60s' is not 1, 0, true or false", variable, value);
  return MK_OK;
}

static mk_status add_options(arguments *a, const struct argp *argp) {
  for (const struct argp_option *o = argp->options; o != NULL && (o->name != NULL || o->key != 0 || o->doc != NULL);
       o++) {
    if (o->name == NULL || (o->flags & (OPTION_DOC | OPTION_ALIAS)) != 0) continue;
    MK_TRY(a->ctx, add_option(a, o));
  }
  for (const struct argp_child *child = argp->children; child != NULL && child->argp != NULL; child++) {
    MK_TRY(a->ctx, add_options(a, child->argp));
  }
  return MK_OK;
}

/* argp moves arguments behind the options; their pointers go back into argv, which has room for them. */
mk_status ms_cli_parse(mk_context *ctx, const struct argp *argp, int argc, char **argv, void *input,
                       ms_arguments *rest) {
  mk_status st = MK_OK;
  arguments env = {.ctx = ctx};
  char **all = NULL;
  int first = 0;
  MK_TRY_GOTO(ctx, add_options(&env, argp), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)(argc + env.count + 1), sizeof *all, &all), out);
  all[0] = argv[0];
  memcpy(all + 1, env.value, (size_t)env.count * sizeof *all);
  memcpy(all + 1 + env.count, argv + 1, (size_t)(argc - 1) * sizeof *all);
  /* argp ends the program with argp_err_exit_status on a usage error and with 0 after --help */
  MK_CHECK_GOTO(ctx, argp_parse(argp, argc + env.count, all, 0, &first, input) == 0, MK_ERR_CONFIG, out,
                "the command line could not be read");
  rest->count = argc + env.count - first;
  rest->item = argv + argc - rest->count;
  memcpy(rest->item, all + first, (size_t)rest->count * sizeof *all);
out:
  for (int i = 0; i < env.count; i++) {
    if (env.owned[i]) mk_heap_free(ctx, env.value[i]);
  }
  mk_heap_free(ctx, all);
  return st;
}

/* ---- common options ---- */

/* KEY=VALUE, checked against the trainer's keys at once: a typo must not wait for the plan. */
static void add_override(ms_common *c, const char *text, struct argp_state *state) {
  char key[MS_NAME_BYTES];
  mt_config scratch = mt_config_default();
  const char *equals = strchr(text, '=');
  size_t length = equals == NULL ? 0 : (size_t)(equals - text);
  if (length == 0 || length >= sizeof key || strlen(equals + 1) >= MT_TEXT_BYTES) {
    argp_error(state, "--set: '%.80s' is not KEY=VALUE, or too long", text);
    return; /* argp_error ends the program, but its declaration does not say so */
  }
  memcpy(key, text, length);
  key[length] = '\0';
  if (mt_config_set(c->ctx, &scratch, key, equals + 1) != MK_OK) {
    argp_error(state, "--set: %s", c->ctx->error.message);
    return;
  }
  ms_settings *set = &c->overrides;
  c->st = mk_heap_resize(c->ctx, &set->item, ((size_t)set->count + 1) * sizeof *set->item);
  if (c->st != MK_OK) return;
  ms_setting *item = &set->item[set->count++];
  *item = (ms_setting){0};
  strcpy(item->key, key);
  strcpy(item->value, equals + 1);
}

/* One or more KEY=VALUE separated by blanks, as the environment variable holds them. */
static void add_overrides(ms_common *c, const char *text, struct argp_state *state) {
  char one[MT_TEXT_BYTES + MS_NAME_BYTES];
  while (*text != '\0' && c->st == MK_OK) {
    size_t length = strcspn(text, " ");
    if (length >= sizeof one) {
      argp_error(state, "--set: '%.80s...' is too long", text);
      return;
    }
    memcpy(one, text, length);
    one[length] = '\0';
    if (length > 0) add_override(c, one, state);
    text += length + strspn(text + length, " ");
  }
}

static error_t parse_common(int key, char *arg, struct argp_state *state) {
  ms_common *c = state->input;
  switch (key) {
    case 's':
      c->scale = arg;
      return 0;
    case 'E':
      c->where = arg;
      return 0;
    case 'S':
      add_overrides(c, arg, state);
      return c->st == MK_OK ? 0 : ENOMEM;
    case 'f':
      if (!ms_format_parse(arg, &c->format)) argp_error(state, "--format: '%.40s' is not table, csv or json", arg);
      return 0;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option COMMON_OPTIONS[] = {
    {"scale", 's', "NAME", 0, "smoke, local or published (default: smoke)", 2},
    {"where", 'E', "EXPR", 0,
     "only cases that meet a condition over factors, e.g. \"experts >= 32 and stack == dist_opt\"", 2},
    {"set", 'S', "KEY=VALUE", 0, "override a trainer key in every case (repeatable, or several separated by blanks)",
     2},
    {"format", 'f', "WORD", 0, "table, csv or json", 2},
    {0}};

const struct argp ms_common_argp = {.options = COMMON_OPTIONS, .parser = parse_common};

void ms_common_fini(ms_common *common) {
  mk_heap_free(common->ctx, common->overrides.item);
  common->overrides = (ms_settings){0};
}

/* ---- errors ---- */

void ms_cli_diagnostics(const ms_diagnostics *diag) {
  for (int i = 0; i < diag->count; i++)
    ms_err_line(diag->line[i]);
}

int ms_cli_usage(mk_context *ctx, const char *verb, const char *message) {
  mk_log(ctx, "error: %s: %s (moemark %s --help)", verb, message, verb);
  return MS_EXIT_USAGE;
}

int ms_cli_failed(mk_context *ctx) {
  mk_log_error(ctx, false);
  switch (ctx->error.status) {
    case MK_ERR_ARG:
    case MK_ERR_CONFIG:
    case MK_ERR_FORMAT:
      return MS_EXIT_USAGE;
    case MK_ERR_MISMATCH:
    case MK_ERR_IO:
    case MK_ERR_UNSUPPORTED:
      return MS_EXIT_REFUSED;
    case MK_ERR_INTERRUPTED:
      return MS_EXIT_INTERRUPTED;
    default:
      return MS_EXIT_RUN;
  }
}
