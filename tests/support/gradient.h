/* Gradient checks: the backward kernel against central differences of the forward kernel, both in FP64 on `ref`.
 * The loss is sum(dy * y) over the outputs, with random dy. */
#ifndef TESTS_SUPPORT_GRADIENT_H
#define TESTS_SUPPORT_GRADIENT_H

#include <stddef.h>

#include "tests/support/bench.h"

enum { GRAD_MAX_PAIRS = 12, GRAD_STATE_BYTES = 8192 };

typedef struct grad_check {
  test_bench bench;
  int64_t dim[4];
  int variant;
  struct {
    const char *name;
    mk_tensor value, grad;
  } inputs[GRAD_MAX_PAIRS], outputs[GRAD_MAX_PAIRS];
  int n_inputs, n_outputs;
  max_align_t state[GRAD_STATE_BYTES / sizeof(max_align_t)]; /* the case's own: args of forward and backward */
} grad_check;

typedef struct grad_case {
  const char *name;
  void (*build)(grad_check *g); /* makes tensors (f64), registers inputs and outputs, fills state */
  mk_status (*forward)(grad_check *g);
  mk_status (*backward)(grad_check *g);
  int64_t shapes[8][4];
  int n_shapes;
  int variants;     /* 0 means 1 */
  double step;      /* 0 means 1e-5 */
  double tolerance; /* of |difference| / largest gradient of the tensor; 0 means 1e-6 */
} grad_case;

/* Storage of the case: put the args of forward and backward there. */
static inline void *grad_state(grad_check *g) { return g->state; }

/* `value` is an input of forward; `grad` is what backward makes of it. */
void grad_input(grad_check *g, const char *name, mk_tensor value, mk_tensor grad);

/* `y` is an output of forward; `dy` its gradient, an input of backward. */
void grad_output(grad_check *g, const char *name, mk_tensor y, mk_tensor dy);

void grad_run(const grad_case *c);

/* The forward call of an op whose <op>_state has its args in `fwd`. */
#define GRAD_FORWARD(op) \
  static mk_status grad_forward(grad_check *g) { \
    op##_state *s = grad_state(g); \
    return mk_##op##_fwd(g->bench.stream, &s->fwd); \
  }

/* In the test file of an op with one call forward and one backward: <op>_state holds the args of both, and the case of
 * GRAD_OP makes the calls with those in grad_state. */
#define GRAD_CALLS(op) \
  typedef struct op##_state { \
    mk_##op##_fwd_args fwd; \
    mk_##op##_bwd_args bwd; \
  } op##_state; \
  GRAD_FORWARD(op) \
  static mk_status grad_backward(grad_check *g) { \
    op##_state *s = grad_state(g); \
    return mk_##op##_bwd(g->bench.stream, &s->bwd); \
  }
#define GRAD_OP(op, builder) .name = #op, .build = (builder), .forward = grad_forward, .backward = grad_backward

#define GRAD_TEST(cases) \
  START_TEST(gradients) { grad_run(&(cases)[_i]); } \
  END_TEST
#define GRAD_ADD(tcase, cases) tcase_add_loop_test((tcase), gradients, 0, (int)(sizeof(cases) / sizeof((cases)[0])))

#endif
