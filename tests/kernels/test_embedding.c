/* Embedding: conformance, gradients, repeated ids, ids outside the vocabulary. */
#include "tests/support/check_main.h"
#include "tests/support/conformance.h"
#include "tests/support/gradient.h"

/* dim: tokens, width, vocabulary. Variant 1: the other side in FP32. */
static mk_tensor ids_of(test_bench *b, const int64_t *dim) {
  return test_integers(b, "ids", TEST_IN, mk_tensor_1d(MK_I32, dim[0]), 0, dim[2] - 1);
}

static mk_status launch_fwd(test_bench *b, const conf_point *p) {
  mk_dtype to = p->variant == 1 ? MK_F32 : p->dtype;
  mk_embedding_fwd_args a = {
      .ids = ids_of(b, p->dim),
      .table = test_random(b, "table", TEST_IN, mk_tensor_2d(p->dtype, p->dim[2], p->dim[1]), 0, 1),
      .y = test_output(b, "y", mk_tensor_2d(to, p->dim[0], p->dim[1])),
      .scale = 3.3f};
  return mk_embedding_fwd(b->stream, &a);
}

static mk_status launch_bwd(test_bench *b, const conf_point *p) {
  mk_embedding_bwd_args a = {
      .ids = ids_of(b, p->dim),
      .dy = test_random(b, "dy", TEST_IN, mk_tensor_2d(p->dtype, p->dim[0], p->dim[1]), 0, 1),
      .dtable = test_random(b, "dtable", TEST_INOUT, mk_tensor_2d(MK_F32, p->dim[2], p->dim[1]), 0, 1),
      .scale = 3.3f};
  return mk_embedding_bwd(b->stream, &a);
}

/* The last rows repeat each id hundreds of times. */
#define SHAPES {{0, 8, 5}, {1, 1, 1}, {3, 67, 10}, {129, 33, 7}, {1000, 512, 300}, {2000, 48, 2}}, .n_shapes = 6

static const conf_case cases[] = {
    {.name = "embedding_fwd",
     .launch = launch_fwd,
     .shapes = SHAPES,
     .variants = 2,
     .nmse_f32 = CONF_ROUND_F32,
     .nmse_bf16 = CONF_ROUND_BF16},
    {.name = "embedding_bwd", .launch = launch_bwd, .shapes = SHAPES, .nmse_f32 = 1e-11, .nmse_bf16 = 1e-11},
};

CONF_TEST(cases)

GRAD_CALLS(embedding)

static void build(grad_check *g) {
  embedding_state *s = grad_state(g);
  mk_tensor rows = mk_tensor_2d(MK_F64, g->dim[0], g->dim[1]), table = mk_tensor_2d(MK_F64, g->dim[2], g->dim[1]);
  s->fwd.ids = s->bwd.ids = ids_of(&g->bench, g->dim);
  s->fwd.scale = s->bwd.scale = 1.7f;
  s->fwd.table = test_random(&g->bench, "table", TEST_IN, table, 0, 1);
  s->fwd.y = test_output(&g->bench, "y", rows);
  s->bwd.dy = test_random(&g->bench, "dy", TEST_IN, rows, 0, 1);
  s->bwd.dtable = test_constant(&g->bench, "dtable", TEST_INOUT, table, 0);
  grad_input(g, "table", s->fwd.table, s->bwd.dtable);
  grad_output(g, "y", s->fwd.y, s->bwd.dy);
}

static const grad_case grads[] = {{GRAD_OP(embedding, build), .shapes = {{7, 3, 4}, {1, 1, 1}}, .n_shapes = 2}};

GRAD_TEST(grads)

static void check_bad_id(const char *device, double bad) {
  const mk_device_config config = {.name = device, .threads = 1};
  const double ids[] = {0, bad, 2};
  test_bench b;
  test_bench_open(&b, &config, 1, false);
  mk_embedding_fwd_args a = {.ids = test_values(&b, "ids", TEST_IN, mk_tensor_1d(MK_I32, 3), ids),
                             .table = test_random(&b, "table", TEST_IN, mk_tensor_2d(MK_F32, 5, 4), 0, 1),
                             .y = test_output(&b, "y", mk_tensor_2d(MK_F32, 3, 4)),
                             .scale = 1};
  ck_assert_int_eq(mk_embedding_fwd(b.stream, &a), MK_ERR_ARG);
  ck_assert_ptr_nonnull(strstr(b.ctx.error.message, "token 1 has id"));
  test_bench_close(&b);
}

START_TEST(refuses_ids_outside_the_vocabulary) {
  check_bad_id("cpu", 5);
  check_bad_id("cpu", -1);
  check_bad_id("ref", 5);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("embedding");
  TCase *tcase = test_case(suite, "embedding", 120);
  CONF_ADD(tcase, cases);
  GRAD_ADD(tcase, grads);
  tcase_add_test(tcase, refuses_ids_outside_the_vocabulary);
  return test_main(suite);
}
