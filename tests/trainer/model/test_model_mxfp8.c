/* MXFP8 in the model against the same numerics computed here, tensor by tensor, in FP64 from the tensors of one
 * backward pass: which operands are quantised, along which dimension, and which products stay BF16. Then: the whole
 * step on the reference kernels, quantised weights after every change, refused configurations, memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops/mxfp8/mxfp8_values.h"
#include "tests/support/check_main.h"
#include "tests/trainer/support/tiny.h"

/* One MoE layer with a shared expert; sizes that are multiples of 32 and differ from each other. */
static mt_config block_config(void) {
  mt_config c = tiny_config();
  c.layers = 1, c.dense_layers = 0, c.d_model = 64, c.heads = 4, c.kv_heads = 2, c.head_dim = 24;
  c.experts = 4, c.expert_hidden = 96, c.shared_hidden = 32, c.seq_len = 48, c.rank_tokens = 96, c.global_tokens = 96;
  c.norm = MT_NORM_PRE, c.embed_norm = false, c.precision = MT_MXFP8, c.mxfp8_ep = false, c.init_std = 0.3;
  return c;
}

/* ---- matrices on the host ---- */

typedef struct matrix {
  int64_t n, k;
  double *at;
} matrix;

static matrix make(int64_t n, int64_t k) { return (matrix){n, k, calloc((size_t)(n * k), sizeof(double))}; }

/* Rows [first, first + rows) of a device tensor seen as [.., k]. */
static matrix read_rows(tiny_rank *f, const mk_tensor *t, int64_t k, int64_t first, int64_t rows) {
  matrix m = make(rows, k);
  mk_tensor part = mk_tensor_slice(t, first * k, rows * k);
  tiny_ok(&f->ctx, mt_trainer_tensor_read(f->t, &part, m.at), "read");
  return m;
}

static matrix read_all(tiny_rank *f, const mk_tensor *t) { return read_rows(f, t, t->dim[1], 0, t->dim[0]); }

static matrix transposed(const matrix *m) {
  matrix out = make(m->k, m->n);
  for (int64_t i = 0; i < m->n; i++) {
    for (int64_t j = 0; j < m->k; j++)
      out.at[j * m->n + i] = m->at[i * m->k + j];
  }
  return out;
}

/* The nearest value that E4M3 has under the scale 2^s: by search among all codes, so nothing is shared with the ops. */
static double nearest(double x, int s) {
  double best = 0, best_gap = INFINITY;
  int best_code = 0;
  for (int code = 0; code < 127; code++) {
    double value = ldexp(mk_e4m3_value((uint8_t)code), s), gap = fabs(fabs(x) - value);
    if (gap < best_gap || (gap == best_gap && code % 2 == 0 && best_code % 2 == 1)) {
      best = value, best_gap = gap, best_code = code;
    }
  }
  return copysign(best, x);
}

/* Values after quantising along the columns and reading back. */
static matrix rounded(const matrix *m, mk_mxfp8_rule rule) {
  matrix out = make(m->n, m->k);
  for (int64_t i = 0; i < m->n * m->k; i += 32) { /* k is a multiple of 32 */
    double amax = 0;
    for (int j = 0; j < 32; j++)
      amax = fmax(amax, fabs(m->at[i + j]));
    int s = amax > 0 ? ilogb(amax) - 8 : -127;
    if (rule == MK_MXFP8_RCEIL && ldexp(448, s) < amax) s++;
    for (int j = 0; j < 32; j++)
      out.at[i + j] = nearest(m->at[i + j], s);
  }
  return out;
}

/* a b^T */
static matrix product(const matrix *a, const matrix *b) {
  matrix out = make(a->n, b->n);
  for (int64_t i = 0; i < a->n; i++) {
    for (int64_t j = 0; j < b->n; j++) {
      for (int64_t l = 0; l < a->k; l++)
        out.at[i * b->n + j] += a->at[i * a->k + l] * b->at[j * b->k + l];
    }
  }
  return out;
}

static void check(const char *what, const matrix *got, const matrix *want, double limit) {
  ck_assert_int_eq(got->n * got->k, want->n * want->k);
  double error = tiny_norm_error(got->at, want->at, want->n * want->k);
  ck_assert_msg(error <= limit, "%s: norm-relative error %.3g exceeds %.3g", what, error, limit);
}

/* BF16 results are rounded once, FP32 sums differ by their order; a missed or misplaced quantisation is off by 2e-2. */
static const double BF16_LIMIT = 3e-3, F32_LIMIT = 2e-5;

static void release(matrix *m, int count) {
  for (int i = 0; i < count; i++)
    free(m[i].at);
}

/* y = q(x) q(W)^T */
static void check_forward(tiny_rank *f, const char *name, const matrix *x, const matrix *w, const matrix *y) {
  mk_mxfp8_rule rule = f->t->cfg.mxfp8_scale;
  matrix m[] = {rounded(x, rule), rounded(w, rule), {0}};
  m[2] = product(&m[0], &m[1]);
  check(name, y, &m[2], BF16_LIMIT);
  release(m, 3);
}

/* dx = q(dy) q(W^T)^T */
static void check_dgrad(tiny_rank *f, const char *name, const matrix *dy, const matrix *w, const matrix *dx) {
  matrix w_t = transposed(w);
  check_forward(f, name, dy, &w_t, dx);
  free(w_t.at);
}

/* Along the tokens in MXFP8: dW = q(dy^T) q(x^T)^T; or in BF16 with x read back: dW = dy^T q(x). */
static void check_wgrad(tiny_rank *f, const char *name, const matrix *dy, const matrix *x, bool tokens,
                        const matrix *dw) {
  mk_mxfp8_rule rule = f->t->cfg.mxfp8_scale;
  matrix m[6] = {transposed(dy), tokens ? transposed(x) : rounded(x, rule)};
  m[2] = tokens ? rounded(&m[0], rule) : transposed(dy);
  m[3] = tokens ? rounded(&m[1], rule) : transposed(&m[1]);
  m[4] = product(&m[2], &m[3]);
  check(name, dw, &m[4], F32_LIMIT);
  release(m, 6);
}

static matrix weight(tiny_rank *f, const char *name, mt_value which, int64_t group) {
  const mt_param *p = mt_params_by_name(&f->t->model->params, name);
  ck_assert_ptr_nonnull(p);
  int64_t k = p->dim[p->n_dims - 1], n = p->dim[p->n_dims - 2];
  return read_rows(f, which == MT_VALUE_WEIGHT ? &p->w : &p->grad, k, group * n, n);
}

/* A config with the rule of the loop, run for one backward pass. */
static void run_block(tiny_rank *f, int rule) {
  mt_config c = block_config();
  c.mxfp8_scale = (mk_mxfp8_rule)rule;
  tiny_open(f, &c);
  tiny_train(&f->ctx, f->t, 1, true);
}

START_TEST(attention_projections) {
  tiny_rank f;
  run_block(&f, _i);
  mt_layer *l = &f.t->model->layers[0];
  mt_scratch *w = &f.t->model->scratch;
  matrix m[] = {
      read_all(&f, &l->attn.in), weight(&f, "layers.0.qkv", MT_VALUE_WEIGHT, 0),    read_all(&f, &l->attn.qkv),
      read_all(&f, &w->dqkv),    weight(&f, "layers.0.qkv", MT_VALUE_GRADIENT, 0),  read_all(&f, &w->d_in),
      read_all(&f, &l->attn.o),  weight(&f, "layers.0.attn_o", MT_VALUE_WEIGHT, 0), read_all(&f, &l->attn.out)};
  check_forward(&f, "qkv", &m[0], &m[1], &m[2]);
  check_wgrad(&f, "qkv wgrad", &m[3], &m[0], true, &m[4]);
  check_dgrad(&f, "qkv dgrad", &m[3], &m[1], &m[5]);
  check_forward(&f, "attn_o", &m[6], &m[7], &m[8]);
  release(m, 9);
  tiny_close(&f);
}
END_TEST

START_TEST(shared_expert) {
  tiny_rank f;
  run_block(&f, _i);
  mt_mlp *a = &f.t->model->layers[0].mlp;
  mt_scratch *w = &f.t->model->scratch;
  int64_t t = f.t->cfg.rank_tokens, hidden = f.t->cfg.shared_hidden;
  matrix m[] = {read_all(&f, &a->in),
                weight(&f, "layers.0.shared_up_gate", MT_VALUE_WEIGHT, 0),
                read_all(&f, &a->shared_up_gate),
                read_rows(&f, &w->d_shared_up_gate, 2 * hidden, 0, t),
                weight(&f, "layers.0.shared_up_gate", MT_VALUE_GRADIENT, 0),
                read_all(&f, &a->shared_act),
                weight(&f, "layers.0.shared_down", MT_VALUE_WEIGHT, 0),
                read_all(&f, &w->shared_out)};
  check_forward(&f, "shared up", &m[0], &m[1], &m[2]);
  check_wgrad(&f, "shared up wgrad", &m[3], &m[0], false, &m[4]);
  check_forward(&f, "shared down", &m[5], &m[6], &m[7]);
  release(m, 8);
  tiny_close(&f);
}
END_TEST

/* Values of saved rows: bytes and scales of [first, first + rows). */
static matrix read_quantised(tiny_rank *f, const mk_mxfp8 *q, int64_t first, int64_t rows) {
  int64_t k = q->q.dim[1];
  matrix code = read_rows(f, &q->q, k, first, rows), scale = read_rows(f, &q->scale, k / 32, first, rows);
  matrix out = make(rows, k);
  for (int64_t i = 0; i < rows * k; i++)
    out.at[i] = mk_e4m3_value((uint8_t)code.at[i]) * mk_e8m0_value((uint8_t)scale.at[i / 32]);
  free(scale.at);
  free(code.at);
  return out;
}

START_TEST(routed_experts) {
  tiny_rank f;
  run_block(&f, _i);
  mt_mlp *a = &f.t->model->layers[0].mlp;
  mt_scratch *w = &f.t->model->scratch;
  double offsets[8];
  tiny_ok(&f.ctx, mt_trainer_tensor_read(f.t, &a->ep.offsets, offsets), "offsets");
  for (int e = 0; e < f.t->cfg.experts; e++) {
    int64_t first = (int64_t)offsets[e], rows = (int64_t)offsets[e + 1] - first;
    if (rows == 0) continue;
    int64_t d = f.t->cfg.d_model, hidden = f.t->cfg.expert_hidden;
    matrix m[] = {read_quantised(&f, &a->ep.rows_q, first, rows),
                  weight(&f, "layers.0.expert_up_gate", MT_VALUE_WEIGHT, e),
                  read_rows(&f, &a->up_gate, 2 * hidden, first, rows),
                  read_rows(&f, &w->d_up_gate, 2 * hidden, first, rows),
                  weight(&f, "layers.0.expert_up_gate", MT_VALUE_GRADIENT, e),
                  read_rows(&f, &w->expert_out, d, first, rows),
                  read_quantised(&f, &a->act_q, first, rows),
                  weight(&f, "layers.0.expert_down", MT_VALUE_WEIGHT, e),
                  read_rows(&f, &a->ep.returned, d, first, rows)};
    check_forward(&f, "expert up", &m[0], &m[1], &m[2]); /* quantising twice changes no value */
    check_wgrad(&f, "expert up wgrad", &m[3], &m[0], false, &m[4]);
    check_dgrad(&f, "expert up dgrad", &m[3], &m[1], &m[5]);
    check_forward(&f, "expert down", &m[6], &m[7], &m[8]);
    release(m, 9);
  }
  tiny_close(&f);
}
END_TEST

/* The rows are the router's inputs, quantised; each route's row is its token's. */
START_TEST(saved_rows) {
  tiny_rank f;
  run_block(&f, _i);
  mt_mlp *a = &f.t->model->layers[0].mlp;
  int64_t t = f.t->cfg.rank_tokens, top_k = f.t->cfg.top_k, d = f.t->cfg.d_model;
  matrix x = read_all(&f, &a->in), map = read_all(&f, &a->ep.map);
  matrix values = rounded(&x, f.t->cfg.mxfp8_scale), rows = read_quantised(&f, &a->ep.rows_q, 0, t * top_k);
  for (int64_t r = 0; r < t * top_k; r++) {
    for (int64_t c = 0; c < d; c++) {
      double got = rows.at[(int64_t)map.at[r] * d + c], want = values.at[r / top_k * d + c];
      ck_assert_msg(got == want, "route %lld column %lld: expected %.9g, got %.9g", (long long)r, (long long)c, want,
                    got);
    }
  }
  matrix all[] = {x, map, values, rows};
  release(all, 4);
  tiny_close(&f);
}
END_TEST

/* ---- the whole step ---- */

static mt_config step_config(void) {
  mt_config c = block_config();
  c.layers = 3, c.dense_layers = 1, c.dense_hidden = 64, c.norm = MT_NORM_PERI, c.mxfp8_ep = true;
  c.global_tokens = 2 * c.rank_tokens; /* gradients are added */
  return c;
}

/* Gradient of every parameter, one after the other, and the loss. */
static double *gradients(const mt_config *c, int64_t *count, double *loss) {
  tiny_rank f;
  tiny_open(&f, c);
  tiny_train(&f.ctx, f.t, 1, true);
  const mt_params *params = &f.t->model->params;
  double sums[MK_SUM_COUNT];
  *count = params->flat_count[0] + params->flat_count[1];
  double *values = calloc((size_t)*count, sizeof *values), *at = values;
  for (int i = 0; i < params->count; i++) {
    tiny_ok(&f.ctx, mt_trainer_read(f.t, params->item[i].name, MT_VALUE_GRADIENT, at), "gradient");
    at += params->item[i].count;
  }
  tiny_ok(&f.ctx, mt_trainer_tensor_read(f.t, &f.t->model->sums, sums), "sums");
  *loss = sums[MK_SUM_CE];
  tiny_close(&f);
  return values;
}

/* The fast kernels and the reference kernels give the same step up to rounding that quantisation passes on, and that
 * is far less than what MXFP8 itself changes against BF16. */
START_TEST(step_equals_reference_kernels) {
  int64_t count = 0;
  double fast_loss, ref_loss, bf16_loss;
  mt_config c = step_config(), ref = c, bf16 = c;
  snprintf(ref.device, sizeof ref.device, "ref");
  bf16.precision = MT_BF16;
  double *fast = gradients(&c, &count, &fast_loss), *slow = gradients(&ref, &count, &ref_loss);
  double *wide = gradients(&bf16, &count, &bf16_loss);
  double kernels = tiny_norm_error(fast, slow, count), format = tiny_norm_error(slow, wide, count);
  ck_assert_msg(fabs(fast_loss - ref_loss) < 2e-3 * ref_loss, "loss: expected %.9g, got %.9g", ref_loss, fast_loss);
  ck_assert_msg(kernels < 0.5 * format, "gradients: fast against reference kernels %.3g, MXFP8 against BF16 %.3g",
                kernels, format);
  ck_assert_msg(format > 0.01 && format < 0.5, "MXFP8 gradients are %.3g off BF16", format);
  ck_assert_double_ne(fast_loss, bf16_loss);
  free(wide);
  free(slow);
  free(fast);
}
END_TEST

/* Gradients of the parameters with this role, all layers. */
static double *role_gradients(const mt_config *c, mt_param_role role, int64_t *count) {
  tiny_rank f;
  tiny_open(&f, c);
  tiny_train(&f.ctx, f.t, 1, true);
  const mt_params *params = &f.t->model->params;
  double *values = calloc((size_t)(params->flat_count[0] + params->flat_count[1]), sizeof *values);
  *count = 0;
  for (int i = 0; i < params->count; i++) {
    if (params->item[i].role != role) continue;
    tiny_ok(&f.ctx, mt_trainer_read(f.t, params->item[i].name, MT_VALUE_GRADIENT, values + *count), "gradient");
    *count += params->item[i].count;
  }
  tiny_close(&f);
  return values;
}

/* Weights that multiply the down projection's output on the owner's side give the gradients of weights at the source,
 * the router's included, up to rounding that quantisation passes on: less than what MXFP8 itself changes. */
START_TEST(weights_inside_the_experts) {
  static const mt_param_role roles[] = {MT_PARAM_ROUTER, MT_PARAM_EXPERT_DOWN, MT_PARAM_EXPERT_UP_GATE, MT_PARAM_QKV};
  mt_config c = step_config(), inside, bf16 = c;
  c.mxfp8_ep = _i == 1;
  inside = c;
  inside.ep_transport = MT_EP_DEEPEP_V2;
  bf16.precision = MT_BF16;
  for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
    int64_t count = 0;
    double *got = role_gradients(&inside, roles[i], &count), *want = role_gradients(&c, roles[i], &count);
    double *wide = role_gradients(&bf16, roles[i], &count);
    double error = tiny_norm_error(got, want, count), format = tiny_norm_error(want, wide, count);
    ck_assert_msg(error > 0 && error < 0.6 * format, "role %d: %.3g off weights at the source, MXFP8 %.3g off BF16",
                  roles[i], error, format);
    free(wide);
    free(want);
    free(got);
  }
}
END_TEST

/* the copies that are multiplied are those of the weights as they are, after steps and after weights come in. */
static void check_copies(tiny_rank *f) {
  const mt_params *params = &f->t->model->params;
  int checked = 0;
  for (int i = 0; i < params->count; i++) {
    const mt_param *p = &params->item[i];
    if (!mk_tensor_present(&p->w_q.q)) continue;
    int64_t n = p->dim[p->n_dims - 2], k = p->dim[p->n_dims - 1], groups = p->n_dims == 3 ? p->dim[0] : 1;
    for (int64_t g = 0; g < groups; g++) {
      mk_mxfp8 w_q = {mk_tensor_as_2d(&p->w_q.q, groups * n, k), mk_tensor_as_2d(&p->w_q.scale, groups * n, k / 32)};
      mk_mxfp8 w_t_q = {mk_tensor_as_2d(&p->w_t_q.q, groups * k, n),
                        mk_tensor_as_2d(&p->w_t_q.scale, groups * k, n / 32)};
      matrix w = read_rows(f, &p->w, k, g * n, n), w_t = transposed(&w);
      matrix m[] = {w,
                    w_t,
                    rounded(&w, f->t->cfg.mxfp8_scale),
                    rounded(&w_t, f->t->cfg.mxfp8_scale),
                    read_quantised(f, &w_q, g * n, n),
                    read_quantised(f, &w_t_q, g * k, k)};
      for (int64_t j = 0; j < n * k; j++) {
        ck_assert_msg(m[4].at[j] == m[2].at[j], "%s[%lld,%lld]: expected %.9g, got %.9g", p->name, (long long)g,
                      (long long)j, m[2].at[j], m[4].at[j]);
        ck_assert_msg(m[5].at[j] == m[3].at[j], "%s transposed [%lld,%lld]: expected %.9g, got %.9g", p->name,
                      (long long)g, (long long)j, m[3].at[j], m[5].at[j]);
      }
      release(m, 6);
      checked++;
    }
  }
  ck_assert_int_ge(checked, 6);
}

START_TEST(copies_are_current) {
  mt_config c = block_config();
  c.lr = 0.05; /* large steps: a stale copy differs everywhere */
  tiny_rank f;
  tiny_open(&f, &c);
  check_copies(&f);
  tiny_train(&f.ctx, f.t, 2, false);
  check_copies(&f);
  const mt_param *p = mt_params_by_name(&f.t->model->params, "layers.0.qkv");
  double *values = malloc((size_t)p->count * sizeof *values);
  for (int64_t i = 0; i < p->count; i++)
    values[i] = (double)(i % 37) / 16 - 1;
  tiny_ok(&f.ctx, mt_trainer_write(f.t, "layers.0.qkv", values), "write");
  tiny_ok(&f.ctx, mt_trainer_weights_changed(f.t), "changed");
  check_copies(&f);
  free(values);
  tiny_close(&f);
}
END_TEST

/* ---- configurations ---- */

START_TEST(refused_configurations) {
  static const struct {
    const char *key, *value, *word;
  } rows[] = {
      {"d_model", "72", "d_model"},
      {"head_dim", "20", "heads x head_dim"},
      {"rank_tokens", "48", "rank_tokens"},
      {"expert_hidden", "80", "expert_hidden"},
      {"shared_hidden", "40", "shared_hidden"},
      {"mxfp8_mlp", "false", "mxfp8_ep"},
      {"kv_heads", "1", "kv_heads"},
  };
  mk_context ctx = {0};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    mt_config c = block_config();
    c.mxfp8_ep = true;
    c.global_tokens = 96 * 48;
    tiny_ok(&ctx, mt_config_check(&ctx, &c), "good configuration");
    tiny_ok(&ctx, mt_config_set(&ctx, &c, rows[i].key, rows[i].value), rows[i].key);
    ck_assert_msg(mt_config_check(&ctx, &c) == MK_ERR_CONFIG, "%s=%s was taken", rows[i].key, rows[i].value);
    ck_assert_msg(strstr(ctx.error.message, rows[i].word) != NULL, "'%s' lacks '%s'", ctx.error.message, rows[i].word);
    mk_error_clear(&ctx);
    c.precision = MT_BF16;
    tiny_ok(&ctx, mt_config_check(&ctx, &c), "bf16 takes it");
  }
  mt_config none = block_config();
  none.mxfp8_attention = none.mxfp8_mlp = none.mxfp8_ep = false;
  ck_assert_int_eq(mt_config_check(&ctx, &none), MK_ERR_CONFIG);
  mk_error_clear(&ctx);
}
END_TEST

/* Quantised weights are planned and predicted; saved rows and activations take about half. */
START_TEST(memory) {
  mt_config c = step_config(), bf16 = c;
  bf16.precision = MT_BF16;
  size_t with[MK_MEM_COUNT], without[MK_MEM_COUNT];
  tiny_rank f;
  tiny_open(&f, &c);
  const mt_mesh_plan *mesh = &f.t->mesh->plan;
  int64_t predicted = f.t->sharding->ops->mem_bytes(&f.t->model->params, &c, mesh);
  int64_t used = (int64_t)(f.t->dev->used_bytes[MK_MEM_PARAMS] + f.t->dev->used_bytes[MK_MEM_GRADS] +
                           f.t->dev->used_bytes[MK_MEM_OPTIM]);
  ck_assert_int_eq(predicted, used);
  tiny_close(&f);
  tiny_ok(&f.ctx, mt_plan_memory(&f.ctx, &c, with), "plan");
  tiny_ok(&f.ctx, mt_plan_memory(&f.ctx, &bf16, without), "plan");
  ck_assert_uint_lt(with[MK_MEM_ACTIVATIONS], without[MK_MEM_ACTIVATIONS]);
  ck_assert_uint_gt(with[MK_MEM_PARAMS], 2 * without[MK_MEM_PARAMS] - without[MK_MEM_PARAMS] / 2);
}
END_TEST

int main(void) {
  Suite *s = suite_create("model mxfp8");
  TCase *tc = test_case(s, "model mxfp8", 200);
  tcase_add_loop_test(tc, attention_projections, 0, 2);
  tcase_add_loop_test(tc, shared_expert, 0, 2);
  tcase_add_loop_test(tc, routed_experts, 0, 2);
  tcase_add_loop_test(tc, saved_rows, 0, 2);
  tcase_add_test(tc, step_equals_reference_kernels);
  tcase_add_loop_test(tc, weights_inside_the_experts, 0, 2);
  tcase_add_test(tc, copies_are_current);
  tcase_add_test(tc, refused_configurations);
  tcase_add_test(tc, memory);
  return test_main(s);
}
