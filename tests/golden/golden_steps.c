/* The optimizer: one AdamW step from the stored gradients, and five free steps, without and with clipping. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "tests/golden/golden.h"

#define STEP_LIMIT 1e-7  /* [sum, L2] of the parameters after one step */
#define TOTAL_LIMIT 1e-5 /* total loss of a free step */
#define FAR_LR 0.01      /* a parameter further off than this times lr counts as far ... */
#define FAR_SHARE 1e-4   /* ... and at most this share of all may be */
#define DELTA_LIMIT 1e-3 /* change of the others, norm-relative for each tensor */
#define CLIP 1.0

/* Runs without clipping and with it; keys and prefixes of the folder. */
static const struct {
  const char *name, *steps, *after;
  double clip;
} RUNS[] = {{"no clip", "adamw_steps", "after5/", 0}, {"clip 1", "adamw_steps_clip1", "after5_clip1/", CLIP}};
enum { N_RUNS = sizeof RUNS / sizeof RUNS[0] };

/* Entry of golden.json for step `step` (from 0) of a run. */
static mk_status step_entry(const golden_folder *g, const char *key, int64_t step, const cJSON **out) {
  const cJSON *entry = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(g->json, key), (int)step);
  MK_CHECK(g->ctx, cJSON_IsObject(entry), MK_ERR_FORMAT, "%s/golden.json: '%s' has no step %lld", g->path, key,
           (long long)step + 1);
  *out = entry;
  return MK_OK;
}

static mk_status entry_number(const golden_folder *g, const cJSON *entry, const char *key, double *out) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(entry, key);
  MK_CHECK(g->ctx, cJSON_IsNumber(item), MK_ERR_FORMAT, "%s/golden.json: a step has no number '%s'", g->path, key);
  *out = item->valuedouble;
  return MK_OK;
}

/* Walk state of both checks: sums of the tensor under way, then of all. */
typedef struct step_check {
  const golden_folder *g;
  golden_report *r;
  int run;
  const cJSON *params_after; /* one step: name -> [sum, L2] */
  char name[MT_WEIGHTS_NAME_BYTES];
  double sum, square, diff2, ref2;
  int64_t count, far, all;
  double *start, *ref;
} step_check;

static mk_status finish_one_step(step_check *c) {
  const cJSON *pair = cJSON_GetObjectItemCaseSensitive(c->params_after, c->name);
  MK_CHECK(c->g->ctx, cJSON_GetArraySize(pair) == 2, MK_ERR_FORMAT, "%s/golden.json: params_after has no '%s'",
           c->g->path, c->name);
  double sum = pair->child->valuedouble, l2 = pair->child->next->valuedouble;
  char what[32];
  snprintf(what, sizeof what, "step 1, %s", RUNS[c->run].name);
  double sum_error = fabs(c->sum - sum) / (l2 * sqrt((double)c->count));
  double l2_error = fabs(sqrt(c->square) - l2) / l2;
  golden_check(c->r, what, c->name, fmax(sum_error, l2_error), STEP_LIMIT);
  return MK_OK;
}

static mk_status add_one_step(void *user, const golden_part *p) {
  step_check *c = user;
  if (c->name[0] != '\0' && strcmp(c->name, p->part->name) != 0) {
    MK_TRY(c->g->ctx, finish_one_step(c));
    c->sum = c->square = 0;
    c->count = 0;
  }
  strcpy(c->name, p->part->name);
  for (int64_t i = 0; i < p->part->count; i++) {
    c->sum += p->ours[i];
    c->square += p->ours[i] * p->ours[i];
  }
  c->count += p->part->count;
  return MK_OK;
}

/* Gradients come in the way weights do; `first` counts in the global parameter, which one rank holds whole. */
static mk_status put_gradient(void *user, const mt_param *param, int64_t first, int64_t count, const void *values) {
  mt_trainer *t = user;
  mk_tensor range = mk_tensor_slice(&param->grad, first, count);
  MK_TRY(t->ctx, mk_copy_h2d(t->compute, &range, values));
  return mk_stream_sync(t->compute, false);
}

static mk_status load_gradients(const golden_folder *g, mt_trainer *t) {
  mt_weights_import_args args = {.path = mt_st_reader_path(g->f32),
                                 .prefix = "grad/",
                                 .cfg = &t->cfg,
                                 .params = &t->model->params,
                                 .dtype = mt_master_dtype(&t->cfg),
                                 .put = put_gradient,
                                 .user = t};
  return mt_weights_import(g->ctx, &args);
}

static mk_status one_step(const golden_folder *g, int run, golden_report *r) {
  mk_context *ctx = g->ctx;
  mk_status st = MK_OK;
  golden_trainer gt = {0};
  const cJSON *entry = NULL;
  step_check c = {.g = g, .r = r, .run = run};
  MK_TRY_GOTO(ctx, step_entry(g, RUNS[run].steps, 0, &entry), out);
  c.params_after = cJSON_GetObjectItemCaseSensitive(entry, "params_after");
  MK_TRY_GOTO(ctx, golden_trainer_open(g, RUNS[run].clip, &gt), out);
  MK_TRY_GOTO(ctx, mt_trainer_begin(gt.t), out);
  MK_TRY_GOTO(ctx, load_gradients(g, gt.t), out);
  MK_TRY_GOTO(ctx, mt_trainer_gradients_given(gt.t), out);
  MK_TRY_GOTO(ctx, mt_trainer_reduce(gt.t), out);
  MK_TRY_GOTO(ctx, mt_trainer_update(gt.t), out);
  MK_TRY_GOTO(ctx, golden_walk(g, gt.t, MT_VALUE_MAIN, add_one_step, &c), out);
  MK_TRY_GOTO(ctx, finish_one_step(&c), out);
out:
  golden_trainer_close(&gt);
  return st;
}

mk_status golden_check_adamw(const golden_folder *g, golden_report *r) {
  for (int run = 0; run < N_RUNS; run++)
    MK_TRY(g->ctx, one_step(g, run, r));
  return MK_OK;
}

static void finish_change(step_check *c) {
  char what[32];
  snprintf(what, sizeof what, "change in %lld, %s", (long long)c->g->steps, RUNS[c->run].name);
  double error = c->ref2 > 0 ? sqrt(c->diff2 / c->ref2) : sqrt(c->diff2);
  golden_check(c->r, what, c->name, error, DELTA_LIMIT);
  c->diff2 = c->ref2 = 0;
}

static mk_status add_change(void *user, const golden_part *p) {
  step_check *c = user;
  mk_context *ctx = c->g->ctx;
  size_t bytes = (size_t)p->part->count * sizeof(double);
  if (c->name[0] != '\0' && strcmp(c->name, p->part->name) != 0) finish_change(c);
  strcpy(c->name, p->part->name);
  MK_TRY(ctx, mk_heap_resize(ctx, &c->start, bytes));
  MK_TRY(ctx, mk_heap_resize(ctx, &c->ref, bytes));
  MK_TRY(ctx, golden_part_read(c->g, c->g->f32, "weight/", p->part, c->start));
  MK_TRY(ctx, golden_part_read(c->g, c->g->f32, RUNS[c->run].after, p->part, c->ref));
  for (int64_t i = 0; i < p->part->count; i++) {
    double d = p->ours[i] - c->ref[i], change = c->ref[i] - c->start[i];
    bool far = !(fabs(d) <= FAR_LR * c->g->cfg.lr);
    c->far += far;
    if (far) continue;
    c->diff2 += d * d;
    c->ref2 += change * change;
  }
  c->all += p->part->count;
  return MK_OK;
}

static mk_status check_changes(const golden_folder *g, int run, mt_trainer *t, golden_report *r) {
  step_check c = {.g = g, .r = r, .run = run};
  mk_status st = golden_walk(g, t, MT_VALUE_MAIN, add_change, &c);
  if (st == MK_OK) {
    finish_change(&c);
    golden_check(r, "share of far parameters", RUNS[run].name, (double)c.far / (double)c.all, FAR_SHARE);
  }
  mk_heap_free(g->ctx, c.start);
  mk_heap_free(g->ctx, c.ref);
  return st;
}

/* One free step; its total loss against the FP32 run and, where there is one, the FP64 run. */
static mk_status free_step(const golden_folder *g, int run, int64_t step, mt_trainer *t, golden_report *r) {
  const cJSON *entry = NULL;
  mk_step_log log;
  double total = 0, norm = 0;
  char where[64];
  MK_TRY(g->ctx, mt_trainer_begin(t));
  MK_TRY(g->ctx, mt_trainer_microbatch(t, g->tokens + step * g->tokens_step, g->labels + step * g->tokens_step));
  MK_TRY(g->ctx, mt_trainer_finish(t));
  MK_TRY(g->ctx, mt_trainer_log_read(t, &log));
  MK_TRY(g->ctx, step_entry(g, RUNS[run].steps, step, &entry));
  MK_TRY(g->ctx, entry_number(g, entry, "total", &total));
  MK_TRY(g->ctx, entry_number(g, entry, "grad_norm_before_clip", &norm));
  double ours = golden_losses_of(g, log.sum).total;
  snprintf(where, sizeof where, "step %lld, %s", (long long)step + 1, RUNS[run].name);
  golden_check(r, "total loss", where, fabs(ours - total), TOTAL_LIMIT);
  if (step == 0) golden_check(r, "gradient norm", where, fabs(log.grad_norm - norm) / norm, 1e-5);
  if (RUNS[run].clip > 0) return MK_OK;
  MK_TRY(g->ctx, step_entry(g, "adamw_steps_f64", step, &entry));
  MK_TRY(g->ctx, entry_number(g, entry, "total", &total));
  golden_check(r, "total loss, FP64", where, fabs(ours - total), TOTAL_LIMIT);
  return MK_OK;
}

static mk_status free_steps(const golden_folder *g, int run, golden_report *r) {
  mk_context *ctx = g->ctx;
  mk_status st = MK_OK;
  golden_trainer gt = {0};
  MK_TRY_GOTO(ctx, golden_trainer_open(g, RUNS[run].clip, &gt), out);
  for (int64_t step = 0; step < g->steps; step++)
    MK_TRY_GOTO(ctx, free_step(g, run, step, gt.t, r), out);
  MK_TRY_GOTO(ctx, check_changes(g, run, gt.t, r), out);
out:
  golden_trainer_close(&gt);
  return st;
}

mk_status golden_check_steps(const golden_folder *g, golden_report *r) {
  for (int run = 0; run < N_RUNS; run++)
    MK_TRY(g->ctx, free_steps(g, run, r));
  return MK_OK;
}
