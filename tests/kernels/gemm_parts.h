/* What the tests of linear and grouped_gemm share: packed weights, gradients of the three GEMMs. */
#ifndef TESTS_KERNELS_GEMM_PARTS_H
#define TESTS_KERNELS_GEMM_PARTS_H

#include "tests/support/conformance.h"
#include "tests/support/gradient.h"

/* Bounds of a conf_case: results in the storage dtype, or in f32 whatever the inputs are. */
#define GEMM_TO_STORAGE .nmse_f32 = 1e-12, .nmse_bf16 = CONF_ROUND_BF16, .both_kernels = true
#define GEMM_TO_F32 .nmse_f32 = 1e-12, .nmse_bf16 = 1e-12, .both_kernels = true

/* The device's packed copy of w, [N,K] or [groups,N,K]; absent where it wants none. */
static inline mk_tensor packed_weights(test_bench *b, const mk_tensor *w) {
  int64_t groups = w->n_dims == 3 ? w->dim[0] : 1, n = w->dim[w->n_dims - 2], k = w->dim[w->n_dims - 1];
  size_t bytes = mk_gemm_pack_bytes(b->dev, w->dtype, groups, n, k);
  if (bytes == 0) return (mk_tensor){0};
  mk_tensor packed = test_output(b, "packed", mk_tensor_1d(MK_U8, (int64_t)bytes));
  test_set_role(b, &packed, TEST_IN);
  mk_linear_pack_args args = {.w = *w, .packed = packed};
  test_ok(b, mk_linear_pack(b->stream, &args), "linear_pack");
  return packed;
}

/* As GRAD_CALLS, with the two GEMMs of the backward pass. grad_gemms takes x, w, y, dy and dx as they stand in the
 * state, completes it and registers them. */
#define GRAD_GEMM_CALLS(op) \
  typedef struct op##_state { \
    mk_##op##_fwd_args fwd; \
    mk_##op##_dgrad_args dgrad; \
    mk_##op##_wgrad_args wgrad; \
  } op##_state; \
  static void grad_gemms(grad_check *g) { \
    op##_state *s = grad_state(g); \
    s->dgrad.w = s->fwd.w; \
    s->wgrad.dy = s->dgrad.dy; \
    s->wgrad.x = s->fwd.x; \
    s->wgrad.dw = test_constant(&g->bench, "dw", TEST_INOUT, s->fwd.w, 0); \
    grad_input(g, "x", s->fwd.x, s->dgrad.dx); \
    grad_input(g, "w", s->fwd.w, s->wgrad.dw); \
    grad_output(g, "y", s->fwd.y, s->dgrad.dy); \
  } \
  GRAD_FORWARD(op) \
  static mk_status grad_backward(grad_check *g) { \
    op##_state *s = grad_state(g); \
    mk_status st = mk_##op##_dgrad(g->bench.stream, &s->dgrad); \
    return st != MK_OK ? st : mk_##op##_wgrad(g->bench.stream, &s->wgrad); \
  }

#endif
