/* Causal GQA attention: conformance over sequence lengths, head layouts and head dims, large scores, gradients, block
 * sizes, refusals. */
#include "kernels/ops/attention/attention_blocks.h"
#include "tests/support/check_main.h"
#include "tests/support/conformance.h"
#include "tests/support/gradient.h"

/* dim: sequences, S, head dim; the variant is the layout of the heads */
static const struct { int64_t heads, kv_heads; } layouts[] = {{1, 1}, {4, 2}, {3, 1}, {8, 1}};

enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

static mk_qk_shape shape_of(const int64_t *dim, int variant) {
  return (mk_qk_shape){
      .heads = layouts[variant].heads, .kv_heads = layouts[variant].kv_heads, .head_dim = dim[2], .seq_len = dim[1]};
}

static mk_tensor packed_shape(const int64_t *dim, int variant, mk_dtype dtype) {
  mk_qk_shape s = shape_of(dim, variant);
  return mk_tensor_2d(dtype, dim[0] * dim[1], (s.heads + 2 * s.kv_heads) * s.head_dim);
}

static mk_tensor out_shape(const int64_t *dim, int variant, mk_dtype dtype) {
  return mk_tensor_2d(dtype, dim[0] * dim[1], layouts[variant].heads * dim[2]);
}

static mk_tensor work_memory(test_bench *b, const int64_t *dim, int variant) {
  mk_qk_shape s = shape_of(dim, variant);
  int64_t bytes = (int64_t)mk_attention_work_bytes(b->dev, dim[0] * dim[1], &s);
  mk_tensor work = test_output(b, "work", mk_tensor_1d(MK_U8, bytes));
  test_set_role(b, &work, TEST_IN);
  return work;
}

static mk_attention_fwd_args forward_args(test_bench *b, const conf_point *p, double std) {
  mk_attention_fwd_args a = {.shape = shape_of(p->dim, p->variant)};
  a.qkv = test_random(b, "qkv", TEST_IN, packed_shape(p->dim, p->variant, p->dtype), 0, std);
  a.o = test_output(b, "o", out_shape(p->dim, p->variant, p->dtype));
  a.lse = test_output(b, "lse", mk_tensor_2d(MK_F32, a.shape.heads, p->dim[0] * p->dim[1]));
  a.work = work_memory(b, p->dim, p->variant);
  return a;
}

static mk_status fwd(test_bench *b, const conf_point *p) {
  mk_attention_fwd_args a = forward_args(b, p, 1);
  return mk_attention_fwd(b->stream, &a);
}

/* Scores of several hundred: exp would overflow without the running maximum. */
static mk_status fwd_large(test_bench *b, const conf_point *p) {
  mk_attention_fwd_args a = forward_args(b, p, 12);
  return mk_attention_fwd(b->stream, &a);
}

static mk_status bwd(test_bench *b, const conf_point *p) {
  mk_attention_fwd_args f = forward_args(b, p, 1);
  mk_attention_bwd_args a = {.shape = f.shape, .qkv = f.qkv, .o = f.o, .lse = f.lse, .work = f.work};
  a.d_o = test_random(b, "d_o", TEST_IN, out_shape(p->dim, p->variant, p->dtype), 0, 1);
  a.dqkv = test_output(b, "dqkv", packed_shape(p->dim, p->variant, p->dtype));
  test_ok(b, mk_attention_fwd(b->stream, &f), "forward");
  return mk_attention_bwd(b->stream, &a);
}

/* One token, no sequence, less and more than one query block and key block, head dims from 2 up that divide nothing. */
#define SHAPES \
  {{1, 1, 2}, {0, 4, 8}, {2, 7, 6}, {3, 1, 4}, {2, 131, 10}, {1, 128, 16}, {1, 600, 4}, {1, 140, 66}}, .n_shapes = 8

/* In bf16 o is rounded before backward reads it, on the reference in FP64 it is not: delta differs by a rounding. */
static const conf_case cases[] = {
    {.name = "attention_fwd",
     .launch = fwd,
     .shapes = SHAPES,
     .variants = LAYOUTS,
     .nmse_f32 = 1e-11,
     .nmse_bf16 = CONF_ROUND_BF16},
    {.name = "attention_fwd, large scores",
     .launch = fwd_large,
     .shapes = {{1, 70, 32}, {1, 530, 8}},
     .n_shapes = 2,
     .variants = 2,
     .nmse_f32 = 1e-9,
     .nmse_bf16 = CONF_ROUND_BF16},
    {.name = "attention_bwd",
     .launch = bwd,
     .shapes = SHAPES,
     .variants = LAYOUTS,
     .nmse_f32 = 1e-11,
     .nmse_bf16 = 5e-5},
};

CONF_TEST(cases)

/* ---- gradients ---- */

GRAD_CALLS(attention)

static void build(grad_check *g) {
  attention_state *s = grad_state(g);
  mk_tensor wide = packed_shape(g->dim, g->variant, MK_F64), narrow = out_shape(g->dim, g->variant, MK_F64);
  s->fwd.shape = s->bwd.shape = shape_of(g->dim, g->variant);
  s->fwd.qkv = s->bwd.qkv = test_random(&g->bench, "qkv", TEST_IN, wide, 0, 1);
  s->fwd.o = s->bwd.o = test_output(&g->bench, "o", narrow);
  s->fwd.lse = s->bwd.lse = test_output(&g->bench, "lse", mk_tensor_2d(MK_F64, s->fwd.shape.heads, wide.dim[0]));
  s->fwd.work = s->bwd.work = work_memory(&g->bench, g->dim, g->variant);
  s->bwd.d_o = test_random(&g->bench, "d_o", TEST_IN, narrow, 0, 1);
  s->bwd.dqkv = test_output(&g->bench, "dqkv", wide);
  grad_input(g, "qkv", s->fwd.qkv, s->bwd.dqkv);
  grad_output(g, "o", s->fwd.o, s->bwd.d_o);
}

static const grad_case grads[] = {
    {GRAD_OP(attention, build), .shapes = {{2, 5, 4}, {1, 1, 2}}, .n_shapes = 2, .variants = LAYOUTS}};

GRAD_TEST(grads)

/* ---- blocks, refusals ---- */

START_TEST(blocks_fit_the_scratch) {
  for (int64_t hd = 2; hd <= 4096; hd += 2) {
    for (int64_t heads = 1; heads <= 64; heads *= 2) {
      const mk_qk_shape shape = {.heads = heads, .kv_heads = 1, .head_dim = hd, .seq_len = 1};
      mk_attn_blocks b = mk_attn_choose_blocks(&shape);
      if (b.keys > 0) ck_assert_int_le(mk_attn_scratch_floats(&b, hd), MK_CPU_SCRATCH_FLOATS);
      if (hd <= 1024) ck_assert_int_ge(b.keys, 32);
      ck_assert_int_ge(b.queries, 1);
      ck_assert_int_ge(b.heads, 1);
    }
  }
}
END_TEST

static void expect_refused(int64_t tokens, mk_qk_shape shape, mk_status status, const char *message) {
  test_bench b;
  test_bench_open_cpu(&b);
  mk_attention_fwd_args a = {.shape = shape};
  a.o = test_output(&b, "o", mk_tensor_2d(MK_F32, tokens, shape.heads * shape.head_dim));
  a.qkv = test_output(&b, "qkv", mk_tensor_2d(MK_F32, tokens, (shape.heads + 2 * shape.kv_heads) * shape.head_dim));
  a.lse = test_output(&b, "lse", mk_tensor_2d(MK_F32, shape.heads, tokens));
  a.work = test_output(&b, "work", mk_tensor_1d(MK_U8, (int64_t)mk_attention_work_bytes(b.dev, tokens, &shape)));
  ck_assert_int_eq(mk_attention_fwd(b.stream, &a), status);
  ck_assert_str_eq(b.ctx.error.message, message);
  test_bench_close(&b);
}

START_TEST(refuses_bad_shapes) {
  expect_refused(8, (mk_qk_shape){3, 2, 4, 4}, MK_ERR_ARG,
                 "attention_fwd: 3 heads do not divide among 2 key-value heads");
  expect_refused(8, (mk_qk_shape){2, 2, 5, 4}, MK_ERR_ARG, "attention_fwd: head_dim 5 is not even");
  expect_refused(9, (mk_qk_shape){2, 2, 4, 4}, MK_ERR_ARG, "attention_fwd: 9 tokens are not whole sequences of 4");
  expect_refused(1, (mk_qk_shape){1, 1, 8192, 1}, MK_ERR_UNSUPPORTED,
                 "attention: head_dim 8192 is more than the cpu kernel's scratch holds");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("attention");
  TCase *tcase = test_case(suite, "attention", 240);
  CONF_ADD(tcase, cases);
  GRAD_ADD(tcase, grads);
  tcase_add_test(tcase, blocks_fit_the_scratch);
  tcase_add_test(tcase, refuses_bad_shapes);
  return test_main(suite);
}
