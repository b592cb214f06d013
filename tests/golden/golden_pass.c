/* One forward and backward pass of batch 0 at the start weights against the FP64 file. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/heap.h"
#include "tests/golden/golden.h"

#define PASS_LIMIT 1e-5

/* ||ours - ref|| / ||ref||; the plain difference where ref is zero. */
static double relative(double diff2, double ref2) { return ref2 > 0 ? sqrt(diff2 / ref2) : sqrt(diff2); }

static double relative_of(const double *ours, const double *ref, int64_t count) {
  double diff2 = 0, ref2 = 0;
  for (int64_t i = 0; i < count; i++) {
    diff2 += (ours[i] - ref[i]) * (ours[i] - ref[i]);
    ref2 += ref[i] * ref[i];
  }
  return relative(diff2, ref2);
}

static mk_status find(const golden_folder *g, const char *name, int64_t count, const mt_st_tensor **out) {
  const mt_st_tensor *t = mt_st_reader_find(g->f64, name);
  MK_CHECK(g->ctx, t != NULL && t->count == count, MK_ERR_FORMAT, "%s: tensor '%s' of %lld values is missing",
           mt_st_reader_path(g->f64), name, (long long)count);
  *out = t;
  return MK_OK;
}

/* Compares `count` values of the device with a tensor of the file. */
static mk_status check_tensor(const golden_folder *g, mt_trainer *t, const mk_tensor *ours, const char *what,
                              const char *name, golden_report *r) {
  mk_context *ctx = g->ctx;
  mk_status st = MK_OK;
  int64_t count = mk_tensor_count(ours);
  double *a = NULL, *b = NULL;
  const mt_st_tensor *ref = NULL;
  MK_TRY_GOTO(ctx, find(g, name, count, &ref), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)count, sizeof *a, &a), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)count, sizeof *b, &b), out);
  MK_TRY_GOTO(ctx, mt_trainer_tensor_read(t, ours, a), out);
  MK_TRY_GOTO(ctx, mt_st_reader_get(g->f64, ref, 0, count, MK_F64, b), out);
  golden_check(r, what, name, relative_of(a, b, count), PASS_LIMIT);
out:
  mk_heap_free(ctx, a);
  mk_heap_free(ctx, b);
  return st;
}

/* Chosen experts as sets, and the weight of each chosen expert. Tokens whose sets differ are counted, not compared. */
static void compare_choice(const golden_folder *g, const double *idx, const double *weight, const int64_t *ref_idx,
                           const double *ref_weight, int64_t *wrong, double *error) {
  int64_t k = g->cfg.top_k;
  double diff2 = 0, ref2 = 0;
  *wrong = 0;
  for (int64_t t = 0; t < g->tokens_step; t++) {
    int64_t matched = 0;
    double token2 = 0;
    for (int64_t a = 0; a < k; a++) {
      for (int64_t b = 0; b < k; b++) {
        if ((int64_t)idx[t * k + a] != ref_idx[t * k + b]) continue;
        double d = weight[t * k + a] - ref_weight[t * k + b];
        token2 += d * d;
        matched += 1;
      }
    }
    *wrong += matched != k;
    if (matched == k) diff2 += token2;
    for (int64_t b = 0; b < k; b++)
      ref2 += ref_weight[t * k + b] * ref_weight[t * k + b];
  }
  *error = relative(diff2, ref2);
}

static mk_status check_choice(const golden_folder *g, mt_trainer *t, const mt_ep_layer *ep, int64_t number,
                              golden_report *r) {
  mk_context *ctx = g->ctx;
  mk_status st = MK_OK;
  int64_t routes = g->tokens_step * g->cfg.top_k, wrong = 0;
  double *idx = NULL, *weight = NULL, *ref_weight = NULL, error = 0;
  int64_t *ref_idx = NULL;
  const mt_st_tensor *chosen = NULL, *weights = NULL;
  char idx_name[64], weight_name[64];
  snprintf(idx_name, sizeof idx_name, "router/%lld/topk_idx", (long long)number);
  snprintf(weight_name, sizeof weight_name, "router/%lld/topk_w", (long long)number);
  MK_TRY_GOTO(ctx, find(g, idx_name, routes, &chosen), out);
  MK_TRY_GOTO(ctx, find(g, weight_name, routes, &weights), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)routes, sizeof *idx, &idx), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)routes, sizeof *weight, &weight), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)routes, sizeof *ref_weight, &ref_weight), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)routes, sizeof *ref_idx, &ref_idx), out);
  MK_TRY_GOTO(ctx, mt_trainer_tensor_read(t, &ep->idx, idx), out);
  MK_TRY_GOTO(ctx, mt_trainer_tensor_read(t, &ep->weights, weight), out);
  MK_TRY_GOTO(ctx, mt_st_reader_get(g->f64, chosen, 0, routes, MK_I64, ref_idx), out);
  MK_TRY_GOTO(ctx, mt_st_reader_get(g->f64, weights, 0, routes, MK_F64, ref_weight), out);
  compare_choice(g, idx, weight, ref_idx, ref_weight, &wrong, &error);
  golden_check(r, "tokens, other experts", idx_name, (double)wrong, 0);
  golden_check(r, "expert weights", weight_name, error, PASS_LIMIT);
out:
  mk_heap_free(ctx, idx);
  mk_heap_free(ctx, weight);
  mk_heap_free(ctx, ref_weight);
  mk_heap_free(ctx, ref_idx);
  return st;
}

/* transformers' hooks number the routed layers, Olmo-core's all layers. */
static mk_status check_routers(const golden_folder *g, mt_trainer *t, golden_report *r) {
  for (int64_t l = g->cfg.dense_layers; l < g->cfg.layers; l++) {
    const mt_mlp *mlp = &t->model->set[0].layer[l].mlp;
    int64_t number = g->hf ? l - g->cfg.dense_layers : l;
    char name[64];
    snprintf(name, sizeof name, "router/%lld/probs", (long long)number);
    MK_TRY(g->ctx, check_tensor(g, t, &mlp->scores, "router scores", name, r));
    MK_TRY(g->ctx, check_choice(g, t, &mlp->ep, number, r));
  }
  return MK_OK;
}

static double value_at(const void *values, mk_dtype dtype, int64_t i) {
  return dtype == MK_F64 ? ((const double *)values)[i] : ((const float *)values)[i];
}

/* Evaluation path: logits, and its own cross-entropy. */
static mk_status check_logits(const golden_folder *g, mt_trainer *t, golden_report *r) {
  mk_context *ctx = g->ctx;
  mk_status st = MK_OK;
  int64_t count = g->tokens_step * g->cfg.vocab;
  mk_dtype dtype = mt_compute_dtype(&g->cfg);
  double *ours = NULL, *ref = NULL, ce_sum = 0, labels = 0, ce = 0;
  void *raw = NULL;
  const mt_st_tensor *logits = NULL;
  MK_TRY_GOTO(ctx, find(g, "logits", count, &logits), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)count, mk_dtype_bytes(dtype), &raw), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)count, sizeof *ours, &ours), out);
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)count, sizeof *ref, &ref), out);
  MK_TRY_GOTO(ctx, mt_trainer_evaluate(t, 0, g->tokens, g->labels, &ce_sum, &labels, raw), out);
  MK_TRY_GOTO(ctx, mt_st_reader_get(g->f64, logits, 0, count, MK_F64, ref), out);
  MK_TRY_GOTO(ctx, golden_number(g, &ce, "losses_f64", "ce", NULL), out);
  for (int64_t i = 0; i < count; i++)
    ours[i] = value_at(raw, dtype, i);
  golden_check(r, "logits", "", relative_of(ours, ref, count), PASS_LIMIT);
  golden_check(r, "labels counted", "", fabs(labels - (double)g->tokens_step), 0);
  golden_check(r, "evaluation loss", "ce", fabs(ce_sum / labels - ce) / ce, PASS_LIMIT);
out:
  mk_heap_free(ctx, raw);
  mk_heap_free(ctx, ours);
  mk_heap_free(ctx, ref);
  return st;
}

static mk_status check_losses(const golden_folder *g, mt_trainer *t, golden_report *r) {
  double sum[MK_SUM_COUNT];
  MK_TRY(g->ctx, mt_trainer_tensor_read(t, &t->model->sums, sum));
  golden_losses l = golden_losses_of(g, sum);
  const struct {
    const char *name;
    double ours;
  } rows[] = {
      {"total", l.total}, {"ce", l.ce}, {"lb", l.lb}, {"lb_unscaled", l.lb_unscaled}, {"z_unscaled", l.z_unscaled}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    double ref = 0;
    MK_TRY(g->ctx, golden_number(g, &ref, "losses_f64", rows[i].name, NULL));
    golden_check(r, "loss", rows[i].name, fabs(rows[i].ours - ref) / fabs(ref), PASS_LIMIT);
  }
  return MK_OK;
}

typedef struct gradient_check {
  const golden_folder *g;
  golden_report *r;
  char name[MT_WEIGHTS_NAME_BYTES]; /* tensor under way */
  double diff2, ref2;
  double *ref;
} gradient_check;

static void finish_tensor(gradient_check *c) {
  if (c->name[0] != '\0') golden_check(c->r, "gradient", c->name, relative(c->diff2, c->ref2), PASS_LIMIT);
  c->diff2 = c->ref2 = 0;
}

static mk_status compare_part(void *user, const golden_part *p) {
  gradient_check *c = user;
  mk_context *ctx = c->g->ctx;
  if (strcmp(p->part->name, c->name) != 0) finish_tensor(c);
  strcpy(c->name, p->part->name);
  MK_TRY(ctx, mk_heap_resize(ctx, &c->ref, (size_t)p->part->count * sizeof *c->ref));
  MK_TRY(ctx, golden_part_read(c->g, c->g->f64, "grad/", p->part, c->ref));
  for (int64_t i = 0; i < p->part->count; i++) {
    double d = p->ours[i] - c->ref[i];
    c->diff2 += d * d;
    c->ref2 += c->ref[i] * c->ref[i];
  }
  return MK_OK;
}

static mk_status check_gradients(const golden_folder *g, mt_trainer *t, golden_report *r) {
  gradient_check c = {.g = g, .r = r};
  mk_status st = golden_walk(g, t, MT_VALUE_GRADIENT, compare_part, &c);
  if (st == MK_OK) finish_tensor(&c);
  mk_heap_free(g->ctx, c.ref);
  return st;
}

mk_status golden_check_pass(const golden_folder *g, golden_report *r) {
  mk_context *ctx = g->ctx;
  mk_status st = MK_OK;
  golden_trainer gt = {0};
  MK_TRY_GOTO(ctx, golden_trainer_open(g, 0, &gt), out);
  MK_TRY_GOTO(ctx, check_logits(g, gt.t, r), out);
  MK_TRY_GOTO(ctx, check_routers(g, gt.t, r), out);
  MK_TRY_GOTO(ctx, mt_trainer_begin(gt.t), out);
  MK_TRY_GOTO(ctx, mt_trainer_microbatch(gt.t, g->tokens, g->labels), out);
  MK_TRY_GOTO(ctx, mt_trainer_reduce(gt.t), out);
  MK_TRY_GOTO(ctx, check_losses(g, gt.t, r), out);
  MK_TRY_GOTO(ctx, check_gradients(g, gt.t, r), out);
out:
  golden_trainer_close(&gt);
  return st;
}
