/* See conformance.h. */
#include "tests/support/conformance.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/base/heap.h"
#include "kernels/device/cpu/gemm.h"

enum { SEED = 20240601 };

typedef struct values {
  mk_context ctx;
  int n;
  const char *name[TEST_MAX_TENSORS];
  mk_tensor t[TEST_MAX_TENSORS];
  double *value[TEST_MAX_TENSORS];
} values;

typedef struct run_setup {
  mk_device_config config;
  bool exact;  /* same bits as the first run */
  bool native; /* only for cases with both kernels, where this machine has the native one */
} run_setup;

static const char *describe(const conf_case *c, const conf_point *p, const mk_device_config *config, char *text,
                            size_t bytes) {
  snprintf(text, bytes, "%s [%lld,%lld,%lld,%lld] variant %d %s seed %d on %s (%d threads, kernel %d%s)", c->name,
           (long long)p->dim[0], (long long)p->dim[1], (long long)p->dim[2], (long long)p->dim[3], p->variant,
           mk_dtype_name(p->dtype), SEED, config->name, config->threads, (int)config->kernel,
           config->guard ? ", guard" : "");
  return text;
}

/* Launches the case on the device of `config` and keeps the values of its outputs. */
static void run_case(const conf_case *c, const conf_point *p, const mk_device_config *config, values *out) {
  char what[256];
  test_bench b;
  describe(c, p, config, what, sizeof what);
  test_bench_open(&b, config, SEED, p->dtype != MK_F64 && strncmp(config->name, "ref", 3) == 0);
  test_ok(&b, c->launch(&b, p), what);
  test_ok(&b, mk_stream_sync(b.stream, false), what);
  test_ok(&b, mk_device_poll(b.dev), what);
  *out = (values){0};
  for (int i = 0; i < b.n_tensors; i++) {
    const test_tensor *entry = &b.tensors[i];
    if (entry->role == TEST_IN) continue;
    int at = out->n++;
    out->name[at] = entry->name;
    out->t[at] = entry->t;
    test_ok(&b, mk_heap_array(&out->ctx, (size_t)mk_tensor_count(&entry->t), sizeof(double), &out->value[at]), what);
    test_read(&b, &entry->t, out->value[at]);
  }
  test_bench_close(&b);
}

static void free_values(values *v) {
  for (int i = 0; i < v->n; i++)
    mk_heap_free(&v->ctx, v->value[i]);
}

/* NaN equals NaN, but what was left untouched must be untouched in both. */
static bool same(double a, double b) {
  return a == b || (isnan(a) && isnan(b) && test_is_untouched(a) == test_is_untouched(b));
}

/* Every element equal, or the first that is not is reported. */
static void check_equal(const values *want, const values *got, int i, const char *what, const char *rule) {
  for (int64_t at = 0; at < mk_tensor_count(&want->t[i]); at++) {
    double w = want->value[i][at], g = got->value[i][at];
    if (!same(w, g)) {
      ck_abort_msg("%s: %s[%lld]: expected %.9g, got %.9g (%s)", what, want->name[i], (long long)at, w, g, rule);
    }
  }
}

/* `t` as the tested device stores it; few elements may all lie where a rounding is largest. */
static double bound_of(const conf_case *c, const conf_point *p, const mk_tensor *t) {
  bool bf16 = p->dtype == MK_BF16 || t->dtype == MK_BF16;
  double bound = p->dtype == MK_BF16 ? c->nmse_bf16 : c->nmse_f32;
  return bf16 && mk_tensor_count(t) <= CONF_FEW ? CONF_FEW_FACTOR * bound : bound;
}

static void check_close(const values *want, const values *got, int i, double bound, const char *what) {
  double error = 0, norm = 0, worst = -1;
  int64_t worst_at = 0;
  for (int64_t at = 0; at < mk_tensor_count(&want->t[i]); at++) {
    double w = want->value[i][at], g = got->value[i][at];
    if (same(w, g)) {
      norm += isfinite(w) ? w * w : 0;
      continue;
    }
    double diff = fabs(w - g);
    if (!(diff <= worst)) { /* NaN counts as worst */
      worst = diff;
      worst_at = at;
    }
    error += diff * diff;
    norm += w * w;
  }
  double nmse = norm > 0 ? error / norm : error;
  if (!(nmse <= bound)) {
    ck_abort_msg("%s: %s: NMSE %.3g exceeds %.3g; worst [%lld]: expected %.9g, got %.9g", what, want->name[i], nmse,
                 bound, (long long)worst_at, want->value[i][worst_at], got->value[i][worst_at]);
  }
}

static bool is_float(mk_dtype dtype) { return dtype == MK_F32 || dtype == MK_BF16 || dtype == MK_F64; }

enum { MAX_SETUPS = 8 };

/* What a case runs on: the cpu device in its ways, or the device that MOEMARK_TEST_DEVICE names, twice for its bits. */
static int setups_of(const conf_case *c, run_setup *setups) {
  const char *other = getenv("MOEMARK_TEST_DEVICE");
  const run_setup of_other[] = {{.config = {.name = other}}, {.config = {.name = other}, .exact = true}};
  const run_setup of_cpu[] = {
      {.config = {.name = "cpu", .threads = 2}},
      {.config = {.name = "cpu", .threads = 1}, .exact = !c->threads_matter},
      {.config = {.name = "cpu", .threads = 3}, .exact = !c->threads_matter},
      {.config = {.name = "cpu", .threads = 2, .guard = true}, .exact = true},
      {.config = {.name = "cpu_async", .threads = 2, .seed = SEED}, .exact = true},
      {.config = {.name = "cpu", .threads = 2, .kernel = MK_KERNEL_WIDENED}, .exact = !c->both_kernels},
      {.config = {.name = "cpu", .threads = 2, .kernel = MK_KERNEL_NATIVE}, .native = true},
  };
  if (other == NULL) {
    memcpy(setups, of_cpu, sizeof of_cpu);
    return (int)(sizeof of_cpu / sizeof of_cpu[0]);
  }
  memcpy(setups, of_other, sizeof of_other);
  return (int)(sizeof of_other / sizeof of_other[0]);
}

static void check_point(const conf_case *c, const conf_point *p) {
  run_setup setups[MAX_SETUPS];
  int n_setups = setups_of(c, setups);
  const mk_device_config ref = {.name = "ref"};
  values want, first;
  run_case(c, p, &ref, &want);
  ck_assert_msg(want.n > 0, "%s registers no output", c->name);
  for (int s = 0; s < n_setups; s++) {
    char what[256];
    values got;
    if (setups[s].native && !(c->both_kernels && mk_cpu_gemm_may_use(MK_GEMM_ISA_AVX512))) continue;
    describe(c, p, &setups[s].config, what, sizeof what);
    run_case(c, p, &setups[s].config, &got);
    ck_assert_int_eq(got.n, want.n);
    for (int i = 0; i < want.n; i++) {
      if (!is_float(want.t[i].dtype)) check_equal(&want, &got, i, what, "integers are exact");
      if (is_float(want.t[i].dtype)) check_close(&want, &got, i, bound_of(c, p, &got.t[i]), what);
      if (s > 0 && setups[s].exact) check_equal(&first, &got, i, what, "same bits as the first run");
    }
    if (s == 0) first = got;
    if (s > 0) free_values(&got);
  }
  free_values(&first);
  free_values(&want);
}

void conf_check(const conf_case *c) {
  unsigned dtypes = c->dtypes != 0 ? c->dtypes : (1u << MK_F32) | (1u << MK_BF16);
  int variants = c->variants > 0 ? c->variants : 1;
  for (int dtype = 0; dtype < MK_DTYPE_COUNT; dtype++) {
    if ((dtypes & (1u << dtype)) == 0) continue;
    for (int s = 0; s < c->n_shapes; s++) {
      for (int v = 0; v < variants; v++) {
        conf_point p = {.dtype = (mk_dtype)dtype, .variant = v};
        memcpy(p.dim, c->shapes[s], sizeof p.dim);
        check_point(c, &p);
      }
    }
  }
}
