/* See comm_fixture.h. */
#include "tests/trainer/comm/comm_fixture.h"

static fixture the_fixture;
static double the_want[FX_MAX_ELEMENTS];

fixture *fx(void) { return &the_fixture; }

double *fx_want(void) { return the_want; }

mk_status fx_open(const char *backend, const char *device, double timeout_s) {
  fixture *f = &the_fixture;
  f->guard = true;
  f->device = device;
  MK_TRY(&f->ctx, fx_world_open(f, backend, timeout_s));
  mt_comm *world = f->comm[FX_WORLD];
  MK_TRY(&f->ctx, mt_comm_split(world, 0, world->rank, "cut", &f->comm[FX_CUT]));
  MK_TRY(&f->ctx, mt_comm_split(world, 0, -world->rank, "reversed", &f->comm[FX_REVERSED]));
  MK_TRY(&f->ctx, mt_comm_split(world, world->rank % 2, world->rank, "parity", &f->comm[FX_PARITY]));
  return fx_world_tune(f);
}

void fx_close(void) {
  for (int i = FX_VARIANTS - 1; i >= 0; i--)
    mt_comm_destroy(the_fixture.comm[i]);
  fx_world_close(&the_fixture);
}

void fx_ok(mk_status st, const char *what) {
  ck_assert_msg(st == MK_OK, "rank %d %s: %s: %s", fx()->ctx.rank, what, mk_status_name(st), fx()->ctx.error.message);
}

void fx_bench_open(test_bench *b) {
  mk_device_config config = {
      .name = fx()->device, .threads = 1, .guard = fx()->guard, .seed = (uint64_t)fx()->ctx.rank};
  test_bench_open(b, &config, 1, false);
  fx_world_adapt(b->dev);
}

mk_tensor fx_tensor(test_bench *b, const char *name, mk_dtype dtype, int64_t n, int rank, int64_t first) {
  static double values[FX_MAX_ELEMENTS];
  ck_assert_int_le(n, FX_MAX_ELEMENTS);
  for (int64_t i = 0; i < n; i++)
    values[i] = fx_value(rank, first + i);
  return test_values(b, name, TEST_INOUT, mk_tensor_1d(dtype, n), values);
}

void fx_expect(test_bench *b, const mk_tensor *t, const double *want, const char *what, int variant) {
  static double got[FX_MAX_ELEMENTS];
  int64_t n = mk_tensor_count(t);
  ck_assert_int_le(n, FX_MAX_ELEMENTS);
  if (n == 0) return;
  test_read(b, t, got);
  for (int64_t i = 0; i < n; i++) {
    ck_assert_msg(got[i] == want[i], "%s %s n %lld variant %d rank %d index %lld: %g, expected %g", what,
                  mk_dtype_name(t->dtype), (long long)n, variant, fx()->ctx.rank, (long long)i, got[i], want[i]);
  }
}
