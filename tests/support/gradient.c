/* See gradient.h. At most MAX_ELEMENTS elements of each input are differentiated, evenly spread. */
#include "tests/support/gradient.h"

#include <check.h>
#include <math.h>

#include "kernels/base/heap.h"

enum { SEED = 77, MAX_ELEMENTS = 48 };

void grad_input(grad_check *g, const char *name, mk_tensor value, mk_tensor grad) {
  ck_assert_int_lt(g->n_inputs, GRAD_MAX_PAIRS);
  g->inputs[g->n_inputs].name = name;
  g->inputs[g->n_inputs].value = value;
  g->inputs[g->n_inputs++].grad = grad;
}

void grad_output(grad_check *g, const char *name, mk_tensor y, mk_tensor dy) {
  ck_assert_int_lt(g->n_outputs, GRAD_MAX_PAIRS);
  g->outputs[g->n_outputs].name = name;
  g->outputs[g->n_outputs].value = y;
  g->outputs[g->n_outputs++].grad = dy;
}

static double *fetch(grad_check *g, const mk_tensor *t) {
  double *values = NULL;
  test_ok(&g->bench, mk_heap_array(&g->bench.ctx, (size_t)mk_tensor_count(t), sizeof *values, &values), "staging");
  test_read(&g->bench, t, values);
  return values;
}

static double loss(const grad_case *c, grad_check *g) {
  double sum = 0;
  test_ok(&g->bench, c->forward(g), c->name);
  for (int i = 0; i < g->n_outputs; i++) {
    double *y = fetch(g, &g->outputs[i].value), *dy = fetch(g, &g->outputs[i].grad);
    for (int64_t at = 0; at < mk_tensor_count(&g->outputs[i].value); at++)
      sum += y[at] * dy[at];
    mk_heap_free(&g->bench.ctx, y);
    mk_heap_free(&g->bench.ctx, dy);
  }
  return sum;
}

static void check_input(const grad_case *c, grad_check *g, int input, const double *gradient) {
  const mk_tensor *value = &g->inputs[input].value;
  double *start = fetch(g, value);
  double step = c->step > 0 ? c->step : 1e-5, tolerance = c->tolerance > 0 ? c->tolerance : 1e-6;
  int64_t count = mk_tensor_count(value), stride = count / MAX_ELEMENTS + 1;
  double largest = 1e-3;
  for (int64_t at = 0; at < count; at++)
    largest = fmax(largest, fabs(gradient[at]));
  for (int64_t at = 0; at < count; at += stride) {
    test_write_one(&g->bench, value, at, start[at] + step);
    double up = loss(c, g);
    test_write_one(&g->bench, value, at, start[at] - step);
    double down = loss(c, g);
    test_write_one(&g->bench, value, at, start[at]);
    double numeric = (up - down) / (2 * step);
    if (!(fabs(numeric - gradient[at]) <= tolerance * largest)) {
      ck_abort_msg(
          "%s [%lld,%lld,%lld,%lld] variant %d f64 seed %d: d%s[%lld]: difference quotient %.12g, backward %.12g",
          c->name, (long long)g->dim[0], (long long)g->dim[1], (long long)g->dim[2], (long long)g->dim[3], g->variant,
          SEED, g->inputs[input].name, (long long)at, numeric, gradient[at]);
    }
  }
  mk_heap_free(&g->bench.ctx, start);
}

static void run_point(const grad_case *c, const int64_t *dim, int variant) {
  const mk_device_config ref = {.name = "ref"};
  grad_check g = {.variant = variant};
  memcpy(g.dim, dim, sizeof g.dim);
  test_bench_open(&g.bench, &ref, SEED, false);
  c->build(&g);
  ck_assert_msg(g.n_inputs > 0 && g.n_outputs > 0, "%s registers nothing to check", c->name);
  test_ok(&g.bench, c->forward(&g), c->name);
  test_ok(&g.bench, c->backward(&g), c->name);
  double *gradient[GRAD_MAX_PAIRS];
  for (int i = 0; i < g.n_inputs; i++)
    gradient[i] = fetch(&g, &g.inputs[i].grad);
  for (int i = 0; i < g.n_inputs; i++)
    check_input(c, &g, i, gradient[i]);
  for (int i = 0; i < g.n_inputs; i++)
    mk_heap_free(&g.bench.ctx, gradient[i]);
  test_bench_close(&g.bench);
}

void grad_run(const grad_case *c) {
  int variants = c->variants > 0 ? c->variants : 1;
  for (int s = 0; s < c->n_shapes; s++) {
    for (int v = 0; v < variants; v++)
      run_point(c, c->shapes[s], v);
  }
}
