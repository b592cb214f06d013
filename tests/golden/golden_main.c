/* moemark-golden DIR...: exit 0 when every check is within its limit, 1 when one is not, 2 when a folder cannot be read
 * or asks for something the trainer does not have. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/arguments.h"
#include "kernels/base/log.h"
#include "kernels/base/out.h"
#include "kernels/base/process.h"
#include "tests/golden/golden.h"

enum { EXIT_WITHIN = 0, EXIT_OUTSIDE = 1, EXIT_UNUSABLE = 2, MOST_FOLDERS = 256 };

typedef struct options {
  mk_context *ctx;
  const char *device, *precision;
  const char *folder[MOST_FOLDERS];
  int n_folders;
} options;

static const struct argp_option OPTIONS[] = {
    {"device", 'd', "NAME", 0, "device to compute on: cpu (default), ref, cpu_async, cuda [MOEMARK_DEVICE]", 0},
    {"precision", 'p', "NAME", 0, "fp32 (default), or fp64 on ref [MOEMARK_PRECISION]", 0},
    {0},
};

static const char DOC[] =
    "Computes golden folders (golden.json, golden.safetensors, golden_f64.safetensors) again and compares: logits, "
    "router, "
    "losses, gradients, one AdamW step, free steps; a folder with curve-eager.csv: the whole curve."
    "\vExit codes: 0 within all limits, 1 outside, 2 a folder is unreadable or not supported.";

static error_t parse(int key, char *arg, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
    case 'd':
      o->device = arg;
      return 0;
    case 'p':
      o->precision = arg;
      return 0;
    case ARGP_KEY_ARG:
      if (o->n_folders == MOST_FOLDERS) return mk_arguments_fail(o->ctx, "more than %d folders", (int)MOST_FOLDERS);
      o->folder[o->n_folders++] = arg;
      return 0;
    case ARGP_KEY_NO_ARGS:
      return mk_arguments_fail(o->ctx, "which folders? (moemark-golden --help)");
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static mk_status run_checks(const golden_folder *g, golden_report *r) {
  if (g->f64 == NULL) return golden_check_curve(g, r);
  MK_TRY(g->ctx, golden_check_pass(g, r));
  MK_TRY(g->ctx, golden_check_adamw(g, r));
  return golden_check_steps(g, r);
}

static const char *last_part(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static int run_folder(mk_context *ctx, const options *o, const char *path) {
  golden_folder g = {0};
  golden_report r = {.folder = last_part(path)};
  mk_status st = golden_open(ctx, path, o->device, o->precision, &g);
  if (st == MK_OK) st = run_checks(&g, &r);
  golden_close(&g);
  if (st != MK_OK) {
    mk_log_error(ctx, false);
    mk_error_clear(ctx);
    return EXIT_UNUSABLE;
  }
  mk_out("%-26s %d checks, %d outside\n", r.folder, r.checks, r.failures);
  return r.failures > 0 ? EXIT_OUTSIDE : EXIT_WITHIN;
}

static const char *from_environment(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  return value != NULL && value[0] != '\0' ? value : otherwise;
}

int main(int argc, char **argv) {
  static const struct argp program = {.options = OPTIONS, .parser = parse, .args_doc = "DIR...", .doc = DOC};
  mk_context ctx = {0};
  options o = {.device = from_environment("MOEMARK_DEVICE", "cpu"),
               .precision = from_environment("MOEMARK_PRECISION", "fp32"),
               .ctx = &ctx};
  int worst = EXIT_WITHIN;
  mk_process_init();
  if (mk_arguments_parse(&ctx, &program, argc, argv, NULL, &o) != MK_OK) {
    mk_log_error(&ctx, false);
    return EXIT_UNUSABLE;
  }
  for (int i = 0; i < o.n_folders; i++) {
    int code = run_folder(&ctx, &o, o.folder[i]);
    if (code > worst) worst = code;
  }
  if (mk_out_flush(&ctx) == MK_OK) return worst;
  mk_log_error(&ctx, false);
  return EXIT_UNUSABLE;
}
