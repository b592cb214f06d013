/* QK-norm and RoPE: conformance for each norm with and without clamp and in place, gradients, the table's values. */
#include <math.h>

#include "kernels/base/heap.h"
#include "tests/support/check_main.h"
#include "tests/support/conformance.h"
#include "tests/support/gradient.h"

/* Variants: norm (3) x clamp (2) x in place (2); backward: dqkv in dout. */
enum { VARIANTS = 12 };

static mk_qk_norm norm_of(int variant) { return (mk_qk_norm)(variant % 3); }
static float clip_of(int variant) { return variant / 3 % 2 == 0 ? 0.0f : 0.8f; }
static bool in_place(int variant) { return variant / 6 == 1; }

/* dim: tokens per sequence, heads * 100 + kv heads, head_dim, sequences */
static mk_qk_shape shape_of(const int64_t *dim) {
  return (mk_qk_shape){.heads = dim[1] / 100, .kv_heads = dim[1] % 100, .head_dim = dim[2], .seq_len = dim[0]};
}

static mk_tensor rope_of(test_bench *b, const mk_qk_shape *shape) {
  double *table = NULL;
  int64_t count = shape->seq_len * shape->head_dim;
  test_ok(b, mk_heap_array(&b->ctx, (size_t)count, sizeof *table, &table), "table");
  mk_rope_table(table, shape->seq_len, shape->head_dim, 10000.0);
  mk_tensor rope = test_values(b, "rope", TEST_IN, mk_tensor_2d(MK_F32, shape->seq_len, shape->head_dim), table);
  mk_heap_free(&b->ctx, table);
  return rope;
}

static mk_tensor gain_shape(mk_dtype dtype, mk_qk_norm norm, const mk_qk_shape *shape, int64_t heads) {
  return mk_tensor_1d(dtype, norm == MK_QK_NORM_FULL ? heads * shape->head_dim : shape->head_dim);
}

static mk_tensor packed_shape(mk_dtype dtype, const mk_qk_shape *shape, int64_t sequences) {
  return mk_tensor_2d(dtype, shape->seq_len * sequences, (shape->heads + 2 * shape->kv_heads) * shape->head_dim);
}

static void make_fwd(test_bench *b, mk_dtype dtype, const int64_t *dim, int variant, mk_qk_norm_rope_fwd_args *a) {
  mk_qk_shape shape = shape_of(dim);
  mk_tensor rows = packed_shape(dtype, &shape, dim[3]);
  *a = (mk_qk_norm_rope_fwd_args){
      .shape = shape, .norm = norm_of(variant), .eps = 1e-5f, .clip = clip_of(variant), .rope = rope_of(b, &shape)};
  a->qkv = test_random(b, "qkv", TEST_IN, rows, 0.1, 1.0);
  if (a->norm != MK_QK_NORM_NONE) {
    a->q_gain = test_random(b, "q_gain", TEST_IN, gain_shape(dtype, a->norm, &shape, shape.heads), 1.0, 0.2);
    a->k_gain = test_random(b, "k_gain", TEST_IN, gain_shape(dtype, a->norm, &shape, shape.kv_heads), 1.0, 0.2);
    a->rstd = test_output(b, "rstd", mk_tensor_2d(MK_F32, rows.dim[0], shape.heads + shape.kv_heads));
  }
}

static mk_status launch_fwd(test_bench *b, const conf_point *p) {
  mk_qk_norm_rope_fwd_args a;
  make_fwd(b, p->dtype, p->dim, p->variant, &a);
  a.out = in_place(p->variant) ? a.qkv : test_output(b, "out", packed_shape(p->dtype, &a.shape, p->dim[3]));
  test_set_role(b, &a.out, TEST_OUT);
  return mk_qk_norm_rope_fwd(b->stream, &a);
}

static void make_bwd(test_bench *b, mk_dtype dtype, const int64_t *dim, const mk_qk_norm_rope_fwd_args *fwd,
                     mk_qk_norm_rope_bwd_args *a) {
  *a = (mk_qk_norm_rope_bwd_args){.shape = fwd->shape,
                                  .norm = fwd->norm,
                                  .eps = fwd->eps,
                                  .clip = fwd->clip,
                                  .rope = fwd->rope,
                                  .qkv = fwd->qkv,
                                  .q_gain = fwd->q_gain,
                                  .k_gain = fwd->k_gain,
                                  .rstd = fwd->rstd};
  a->dout = test_random(b, "dout", TEST_IN, packed_shape(dtype, &a->shape, dim[3]), 0.1, 1.0);
  if (a->norm != MK_QK_NORM_NONE) {
    a->dq_gain = test_constant(b, "dq_gain", TEST_INOUT, gain_shape(MK_F32, a->norm, &a->shape, a->shape.heads), 0);
    a->dk_gain = test_constant(b, "dk_gain", TEST_INOUT, gain_shape(MK_F32, a->norm, &a->shape, a->shape.kv_heads), 0);
  }
}

/* rstd of backward is an input like any other here: about 1, as the values are. */
static mk_status launch_bwd(test_bench *b, const conf_point *p) {
  mk_qk_norm_rope_fwd_args fwd;
  mk_qk_norm_rope_bwd_args a;
  make_fwd(b, p->dtype, p->dim, p->variant, &fwd);
  make_bwd(b, p->dtype, p->dim, &fwd, &a);
  if (a.norm != MK_QK_NORM_NONE) a.rstd = test_random(b, "rstd_in", TEST_IN, fwd.rstd, 1.0, 0.1);
  a.dqkv = in_place(p->variant) ? a.dout : test_output(b, "dqkv", packed_shape(p->dtype, &a.shape, p->dim[3]));
  test_set_role(b, &a.dqkv, TEST_OUT);
  return mk_qk_norm_rope_bwd(b->stream, &a);
}

#define SHAPES {{4, 101, 2, 0}, {1, 101, 2, 1}, {3, 201, 10, 2}, {11, 402, 16, 3}, {67, 402, 64, 1}}, .n_shapes = 5

/* The clamp's mask may fall on the other side for values on the bound, which costs single elements of dqkv. */
static const conf_case cases[] = {
    {.name = "qk_norm_rope_fwd",
     .launch = launch_fwd,
     .shapes = SHAPES,
     .variants = VARIANTS,
     .nmse_f32 = 1e-12,
     .nmse_bf16 = CONF_ROUND_BF16},
    {.name = "qk_norm_rope_bwd",
     .launch = launch_bwd,
     .shapes = SHAPES,
     .variants = VARIANTS,
     .nmse_f32 = 1e-12,
     .nmse_bf16 = CONF_ROUND_BF16},
};

CONF_TEST(cases)

GRAD_CALLS(qk_norm_rope)

static void build(grad_check *g) {
  qk_norm_rope_state *s = grad_state(g);
  g->bench.wide = true; /* rope, rstd and gains in f64 */
  make_fwd(&g->bench, MK_F64, g->dim, g->variant, &s->fwd);
  s->fwd.out = test_output(&g->bench, "out", packed_shape(MK_F64, &s->fwd.shape, g->dim[3]));
  make_bwd(&g->bench, MK_F64, g->dim, &s->fwd, &s->bwd);
  s->bwd.dqkv = test_output(&g->bench, "dqkv", packed_shape(MK_F64, &s->fwd.shape, g->dim[3]));
  grad_input(g, "qkv", s->fwd.qkv, s->bwd.dqkv);
  if (s->fwd.norm != MK_QK_NORM_NONE) {
    grad_input(g, "q_gain", s->fwd.q_gain, s->bwd.dq_gain);
    grad_input(g, "k_gain", s->fwd.k_gain, s->bwd.dk_gain);
  }
  grad_output(g, "out", s->fwd.out, s->bwd.dout);
}

static const grad_case grads[] = {{GRAD_OP(qk_norm_rope, build), .shapes = {{3, 201, 4, 2}, {1, 101, 2, 1}},
                                   .n_shapes = 2, .variants = 6, .step = 1e-6, .tolerance = 1e-5}};

GRAD_TEST(grads)

/* Position 0 is not rotated; position 1, pair 0 turns by 1 radian, pair 1 of 4 by theta^-0.5. */
START_TEST(table_values) {
  double table[2 * 4];
  mk_rope_table(table, 2, 4, 10000.0);
  const double want[] = {
      1, 1, 0, 0, 0.54030230586813977, 0.99995000041666526, 0.8414709848078965, 0.0099998333341666645};
  for (int i = 0; i < 8; i++)
    ck_assert_double_eq_tol(table[i], want[i], 1e-15);
}
END_TEST

START_TEST(refuses_odd_head_dim) {
  test_bench b;
  test_bench_open_cpu(&b);
  mk_qk_norm_rope_fwd_args a = {.shape = {.heads = 2, .kv_heads = 1, .head_dim = 3, .seq_len = 2}};
  a.qkv = test_random(&b, "qkv", TEST_IN, mk_tensor_2d(MK_F32, 2, 12), 0, 1);
  ck_assert_int_eq(mk_qk_norm_rope_fwd(b.stream, &a), MK_ERR_ARG);
  mk_error_clear(&b.ctx);
  a.shape = (mk_qk_shape){.heads = 3, .kv_heads = 2, .head_dim = 2, .seq_len = 2};
  ck_assert_int_eq(mk_qk_norm_rope_fwd(b.stream, &a), MK_ERR_ARG);
  test_bench_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("qk_norm_rope");
  TCase *tcase = test_case(suite, "qk_norm_rope", 240);
  CONF_ADD(tcase, cases);
  GRAD_ADD(tcase, grads);
  tcase_add_test(tcase, table_values);
  tcase_add_test(tcase, refuses_odd_head_dim);
  return test_main(suite);
}
