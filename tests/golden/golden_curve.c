/* A long run against the curve of another system, within what runs that differ in rounding alone differ by
 * (noise_floor of golden.json). Rounding first shows where a token takes another expert; the step at which that may
 * happen is the earliest seen between the stored runs. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "tests/golden/golden.h"

#define BEFORE_LIMIT 1e-5 /* nat, before the first stored runs part */
enum { LAST_STEPS = 50 };

/* Column `total` of "step,total,..." into out [steps]. */
static mk_status read_curve(const golden_folder *g, double *out) {
  mk_context *ctx = g->ctx;
  mk_status st = MK_OK;
  char *path = NULL, *text = NULL;
  size_t bytes = 0;
  MK_TRY_GOTO(ctx, mk_heap_printf(ctx, &path, "%s/curve-eager.csv", g->path), out);
  MK_TRY_GOTO(ctx, mk_file_read(ctx, path, &text, &bytes), out);
  char *line = strchr(text, '\n');
  for (int64_t s = 0; s < g->steps; s++) {
    char *end = NULL;
    bool row = line != NULL && strtoll(line + 1, &end, 10) == s + 1 && *end == ',';
    MK_CHECK_GOTO(ctx, row, MK_ERR_FORMAT, out, "%s: row of step %lld is missing", path, (long long)s + 1);
    out[s] = strtod(end + 1, NULL);
    line = strchr(end, '\n');
  }
out:
  mk_heap_free(ctx, text);
  mk_heap_free(ctx, path);
  return st;
}

typedef struct curve_errors {
  double before, any, mean_ours, mean_ref;
} curve_errors;

static mk_status run_curve(const golden_folder *g, const double *ref, int64_t apart, curve_errors *out) {
  mk_context *ctx = g->ctx;
  mk_status st = MK_OK;
  golden_trainer gt = {0};
  double clip = 0;
  curve_errors e = {0};
  MK_TRY_GOTO(ctx, golden_number(g, &clip, "adamw", "clip_grad_norm", NULL), out);
  MK_TRY_GOTO(ctx, golden_trainer_open(g, clip, &gt), out);
  for (int64_t s = 0; s < g->steps; s++) {
    mk_step_log log;
    MK_TRY_GOTO(ctx, mt_trainer_begin(gt.t), out);
    MK_TRY_GOTO(ctx, mt_trainer_microbatch(gt.t, g->tokens + s * g->tokens_step, g->labels + s * g->tokens_step), out);
    MK_TRY_GOTO(ctx, mt_trainer_finish(gt.t), out);
    MK_TRY_GOTO(ctx, mt_trainer_log_read(gt.t, &log), out);
    double total = golden_losses_of(g, log.sum).total, d = fabs(total - ref[s]);
    if (!(d <= e.any)) e.any = d; /* NaN sticks */
    if (s + 1 < apart && !(d <= e.before)) e.before = d;
    if (s < g->steps - LAST_STEPS) continue;
    e.mean_ours += total / LAST_STEPS;
    e.mean_ref += ref[s] / LAST_STEPS;
  }
  *out = e;
out:
  golden_trainer_close(&gt);
  return st;
}

mk_status golden_check_curve(const golden_folder *g, golden_report *r) {
  mk_context *ctx = g->ctx;
  mk_status st = MK_OK;
  double *ref = NULL, apart = 0, any = 0, mean = 0;
  curve_errors e;
  MK_TRY_GOTO(ctx, golden_number(g, &apart, "noise_floor", "any pair", "first_step_apart", NULL), out);
  MK_TRY_GOTO(ctx, golden_number(g, &any, "noise_floor", "any pair", "total", NULL), out);
  MK_TRY_GOTO(ctx, golden_number(g, &mean, "noise_floor", "any pair", "mean_total_last50", NULL), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)g->steps, sizeof *ref, &ref), out);
  MK_TRY_GOTO(ctx, read_curve(g, ref), out);
  MK_TRY_GOTO(ctx, run_curve(g, ref, (int64_t)apart, &e), out);
  golden_check(r, "total loss", "steps before runs part", e.before, BEFORE_LIMIT);
  golden_check(r, "total loss", "any step", e.any, any);
  golden_check(r, "total loss", "mean of the last 50 steps", fabs(e.mean_ours - e.mean_ref), mean);
out:
  mk_heap_free(ctx, ref);
  return st;
}
