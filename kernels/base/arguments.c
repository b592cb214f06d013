/* getopt_long goes over the options first, silently, and what it dislikes is told here; argp then meets only options
 * that it knows. Both read the same table: an argp's options and those of its children. */
#include "kernels/base/arguments.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/out.h"
#include "kernels/base/text.h"

enum { MOST_OPTIONS = 96, ASKS_HELP = 1 << 20, ASKS_USAGE };

typedef struct table {
  struct option item[MOST_OPTIONS + 1]; /* the last one is all zero */
  char letters[2 * MOST_OPTIONS + 3];
  int count;
} table;

static void add(table *t, const char *name, int key, bool has_value) {
  size_t used = strlen(t->letters);
  if (t->count == MOST_OPTIONS) return;
  t->item[t->count++] = (struct option){.name = name, .has_arg = has_value, .val = key};
  if (key > ' ' && key < 127) snprintf(t->letters + used, sizeof t->letters - used, "%c%s", key, has_value ? ":" : "");
}

static void add_all(table *t, const struct argp *argp) {
  const struct argp_option *o = argp->options;
  for (; o != NULL && (o->name != NULL || o->key != 0 || o->doc != NULL); o++) {
    if (o->name != NULL && (o->flags & OPTION_DOC) == 0) add(t, o->name, o->key, o->arg != NULL);
  }
  for (const struct argp_child *child = argp->children; child != NULL && child->argp != NULL; child++)
    add_all(t, child->argp);
}

/* "run" of "moemark run", "moemark-trainer" of its path: what help is asked of. */
static const char *program_of(const char *argv0) {
  const char *slash = strrchr(argv0, '/');
  return slash != NULL ? slash + 1 : argv0;
}

static mk_status fail_unknown(mk_context *ctx, const table *t, const char *word, const char *program) {
  const char *name = word + strspn(word, "-"), *best = "help";
  size_t length = strcspn(name, "=");
  char given[64], several[256] = "";
  int best_distance = 64, fitting = 0;
  snprintf(given, sizeof given, "%.*s", (int)length, name);
  for (int i = 0; i < t->count; i++) {
    int distance = mk_text_distance(given, t->item[i].name);
    if (distance < best_distance) best = t->item[i].name;
    if (distance < best_distance) best_distance = distance;
    if (strncmp(given, t->item[i].name, strlen(given)) != 0) continue;
    size_t used = strlen(several);
    snprintf(several + used, sizeof several - used, "%s--%s", fitting++ > 0 ? " or " : "", t->item[i].name);
  }
  MK_CHECK(ctx, fitting < 2, MK_ERR_CONFIG, "option '%.60s' may be %s; write it out (%s --help)", word, several,
           program);
  return MK_FAIL(ctx, MK_ERR_CONFIG, "unknown option '%.60s'; the nearest is '--%s' (%s --help lists all)", word, best,
                 program);
}

/* What getopt_long refused at `word`; `option` is the option's key where it knew one. */
static mk_status fail_option(mk_context *ctx, const table *t, int refused, int option, const char *word,
                             const char *program) {
  if (word[0] == '-' && word[1] != '-') { /* letters: `option` is the one */
    MK_CHECK(ctx, refused != ':', MK_ERR_CONFIG, "option '-%c' needs a value (%s --help)", option, program);
    return MK_FAIL(ctx, MK_ERR_CONFIG, "unknown option '-%c' (%s --help lists all)", option, program);
  }
  MK_CHECK(ctx, refused != ':', MK_ERR_CONFIG, "option '%.60s' needs a value (%s --help)", word, program);
  MK_CHECK(ctx, option == 0, MK_ERR_CONFIG, "option '%.60s' takes no value (%s --help)", word, program);
  return fail_unknown(ctx, t, word, program);
}

static mk_status check(mk_context *ctx, const struct argp *argp, int argc, char *const *argv, const char **asked) {
  table t = {.letters = "-:"}; /* '-': arguments stay where they are; ':': a missing value is told apart */
  int quiet = opterr;
  add_all(&t, argp);
  add(&t, "help", ASKS_HELP, false);
  add(&t, "usage", ASKS_USAGE, false);
  snprintf(t.letters + strlen(t.letters), sizeof t.letters - strlen(t.letters), "?");
  opterr = 0;
  optind = 0; /* glibc: start anew */
  mk_status st = MK_OK;
  while (st == MK_OK) {
    int at = optind > 0 ? optind : 1;
    optopt = 0;
    int got = getopt_long(argc, argv, t.letters, t.item, NULL);
    bool asks_help = got == ASKS_HELP || (got == '?' && optopt == 0 && argv[at][1] != '-');
    if (asks_help || got == ASKS_USAGE) *asked = asks_help ? "--help" : "--usage";
    if (got == -1 || *asked != NULL) break;
    if (got == '?' || got == ':') st = fail_option(ctx, &t, got, optopt, argv[at], program_of(argv[0]));
  }
  opterr = quiet;
  return st;
}

/* Ends the program here as argp would, but not without knowing that the text has arrived. */
static mk_status give_help(mk_context *ctx, const struct argp *argp, const char *program, const char *asked,
                           void *input) {
  char name[64], option[16];
  char *argv[] = {name, option, NULL};
  snprintf(name, sizeof name, "%s", program_of(program));
  snprintf(option, sizeof option, "%s", asked);
  argp_parse(argp, 2, argv, ARGP_NO_EXIT, NULL, input);
  mk_error_clear(ctx); /* of a parser that misses its arguments */
  MK_TRY(ctx, mk_out_flush(ctx));
  exit(EXIT_SUCCESS);
}

mk_status mk_arguments_parse(mk_context *ctx, const struct argp *argp, int argc, char **argv, int *first, void *input) {
  const char *asked = NULL;
  MK_TRY(ctx, check(ctx, argp, argc, argv, &asked));
  if (asked != NULL) return give_help(ctx, argp, argv[0], asked, input);
  error_t error = argp_parse(argp, argc, argv, 0, first, input);
  if (error != 0) mk_arguments_fail(ctx, "the command line could not be read: %s", strerror(error));
  return error == 0 ? MK_OK : ctx->error.status;
}

error_t mk_arguments_fail(mk_context *ctx, const char *fmt, ...) {
  char text[MK_MESSAGE_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  MK_FAIL(ctx, MK_ERR_CONFIG, "%s", text);
  return EINVAL;
}
