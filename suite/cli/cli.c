/* What all verbs share: environment before command line, common options, messages and exit codes of errors. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arguments.h"
#include "kernels/base/heap.h"
#include "kernels/base/log.h"
#include "suite/cli/verb.h"

/* ---- environment ---- */

static void variable_name(const char *option, char *out, size_t bytes) {
  size_t used = (size_t)snprintf(out, bytes, "MOEMARK_");
  for (const char *c = option; *c != '\0' && used + 1 < bytes; c++) {
    out[used++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
  }
  out[used] = '\0';
}

typedef struct parsing {
  mk_context *ctx;
  const struct argp *argp;
  char *program;
  void *input;
} parsing;

/* The variable as a command line of its own, so that a fault can name it. */
static mk_status parse_as_option(const parsing *p, const struct argp_option *option, const char *variable,
                                 char *value) {
  char name[128], place[160];
  char *argv[] = {p->program, name, option->arg != NULL ? value : NULL, NULL};
  snprintf(name, sizeof name, "--%s", option->name);
  mk_status st = mk_arguments_parse(p->ctx, p->argp, option->arg != NULL ? 3 : 2, argv, NULL, p->input);
  if (st == MK_OK) return MK_OK;
  snprintf(place, sizeof place, "environment variable %s", variable);
  mk_error_prefix(p->ctx, place);
  return st;
}

static mk_status parse_variable(const parsing *p, const struct argp_option *option) {
  char variable[128];
  variable_name(option->name, variable, sizeof variable);
  char *value = getenv(variable);
  if (value == NULL || value[0] == '\0') return MK_OK;
  if (option->arg != NULL || strcmp(value, "1") == 0 || strcmp(value, "true") == 0) {
    return parse_as_option(p, option, variable, value);
  }
  MK_CHECK(p->ctx, strcmp(value, "0") == 0 || strcmp(value, "false") == 0, MK_ERR_CONFIG,
           "environment variable %s: '%.60s' is not 1, 0, true or false", variable, value);
  return MK_OK;
}

static mk_status parse_environment(const parsing *p, const struct argp *argp) {
  for (const struct argp_option *o = argp->options; o != NULL && (o->name != NULL || o->key != 0 || o->doc != NULL);
       o++) {
    if (o->name == NULL || (o->flags & (OPTION_DOC | OPTION_ALIAS)) != 0) continue;
    MK_TRY(p->ctx, parse_variable(p, o));
  }
  for (const struct argp_child *child = argp->children; child != NULL && child->argp != NULL; child++) {
    MK_TRY(p->ctx, parse_environment(p, child->argp));
  }
  return MK_OK;
}

mk_status ms_cli_parse(mk_context *ctx, const struct argp *argp, int argc, char **argv, void *input,
                       ms_arguments *rest) {
  int first = 0;
  const parsing p = {.ctx = ctx, .argp = argp, .program = argv[0], .input = input};
  MK_TRY(ctx, parse_environment(&p, argp));
  MK_TRY(ctx, mk_arguments_parse(ctx, argp, argc, argv, &first, input));
  for (int i = first; i < argc; i++) {
    MK_CHECK(ctx, argv[i][0] != '\0', MK_ERR_CONFIG, "argument %d is empty (%s --help)", i - first + 1, argv[0]);
  }
  *rest = (ms_arguments){.item = argv + first, .count = argc - first};
  return MK_OK;
}

error_t ms_cli_path(mk_context *ctx, const char *option, const char *text, const char **out) {
  if (text[0] == '\0') return mk_arguments_fail(ctx, "--%s: is empty; give a name", option);
  *out = text;
  return 0;
}

/* ---- common options ---- */

/* KEY=VALUE, checked against the trainer's keys at once: a typo must not wait for the plan. */
static error_t add_override(ms_common *c, const char *text) {
  char key[MS_NAME_BYTES];
  mt_config scratch = mt_config_default();
  const char *equals = strchr(text, '=');
  size_t length = equals == NULL ? 0 : (size_t)(equals - text);
  if (length == 0 || length >= sizeof key || strlen(equals + 1) >= MT_TEXT_BYTES) {
    return mk_arguments_fail(c->ctx, "--set: '%.80s' is not KEY=VALUE, or too long", text);
  }
  memcpy(key, text, length);
  key[length] = '\0';
  if (mt_config_set(c->ctx, &scratch, key, equals + 1) != MK_OK) {
    mk_error_prefix(c->ctx, "--set");
    return EINVAL;
  }
  ms_settings *set = &c->overrides;
  if (mk_heap_resize(c->ctx, &set->item, ((size_t)set->count + 1) * sizeof *set->item) != MK_OK) return ENOMEM;
  ms_setting *item = &set->item[set->count++];
  *item = (ms_setting){0};
  strcpy(item->key, key);
  strcpy(item->value, equals + 1);
  return 0;
}

/* One or more KEY=VALUE separated by blanks, as the environment variable holds them. */
static error_t add_overrides(ms_common *c, const char *text) {
  char one[MT_TEXT_BYTES + MS_NAME_BYTES];
  error_t error = 0;
  while (*text != '\0' && error == 0) {
    size_t length = strcspn(text, " ");
    if (length >= sizeof one) return mk_arguments_fail(c->ctx, "--set: '%.80s...' is too long", text);
    memcpy(one, text, length);
    one[length] = '\0';
    if (length > 0) error = add_override(c, one);
    text += length + strspn(text + length, " ");
  }
  return error;
}

error_t ms_cli_format(mk_context *ctx, const char *text, ms_format *out) {
  if (ms_format_parse(text, out)) return 0;
  return mk_arguments_fail(ctx, "--format: '%.40s' is not table, csv or json", text);
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
      return add_overrides(c, arg);
    case 'f':
      return ms_cli_format(c->ctx, arg, &c->format);
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

bool ms_cli_diagnostics(const ms_diagnostics *diag) {
  for (int i = 0; i < diag->count; i++)
    ms_err_line(diag->line[i]);
  return diag->count > 0;
}

int ms_cli_usage(mk_context *ctx, const char *verb, const char *message) {
  mk_log(ctx, "error: %s: %s (moemark %s --help)", verb, message, verb);
  return MS_EXIT_USAGE;
}

int ms_cli_exit_code(mk_status status) {
  switch (status) {
    case MK_OK:
      return MS_EXIT_OK;
    case MK_ERR_ARG:
    case MK_ERR_CONFIG:
    case MK_ERR_FORMAT:
    case MK_ERR_IO:
      return MS_EXIT_USAGE;
    case MK_ERR_MISMATCH:
    case MK_ERR_OUTPUT:
      return MS_EXIT_REFUSED;
    case MK_ERR_INTERRUPTED:
      return MS_EXIT_INTERRUPTED;
    default: /* MK_ERR_UNSUPPORTED among them: a missing program or device is a run that failed */
      return MS_EXIT_RUN;
  }
}

int ms_cli_failed(mk_context *ctx) {
  mk_log_error(ctx, false);
  return ms_cli_exit_code(ctx->error.status);
}
