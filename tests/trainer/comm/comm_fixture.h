/* World of the communication tests, and tensors whose values tell rank and element.
 *
 * Every test runs on all variants of the world: `fx_comm(variant)`. Values are small integers, so every sum is exact in
 * every dtype. Device memory is guarded, so a backend that touched it outside a stream call would crash. */
#ifndef TESTS_TRAINER_COMM_COMM_FIXTURE_H
#define TESTS_TRAINER_COMM_COMM_FIXTURE_H

#include <check.h>

#include "tests/support/bench.h"
#include "trainer/comm/comm.h"

typedef enum fx_variant {
  FX_WORLD,
  FX_CUT,      /* messages of at most 24 bytes, reductions in chunks of 64 bytes */
  FX_REVERSED, /* all ranks in reversed order */
  FX_PARITY,   /* even and odd ranks apart */
  FX_VARIANTS
} fx_variant;

enum { FX_MAX_ELEMENTS = 80000 };

typedef struct fixture {
  mk_context ctx;
  const char *device; /* "cpu" or "cpu_async" */
  bool guard;         /* of the device memory; true unless a test clears it */
  mt_comm *comm[FX_VARIANTS];
} fixture;

/* The one fixture of the program: MPI starts once a process. */
fixture *fx(void);

/* backend "self" or "mpi", or "nccl" in the program that has the NCCL mock. Ends the program's work with a message when
 * the world cannot be made. */
mk_status fx_open(const char *backend, const char *device, double timeout_s);
void fx_close(void);

static inline mt_comm *fx_comm(int variant) { return fx()->comm[variant]; }

/* The count to test: long calls on the whole world only, for they prove nothing more on the other variants. */
static inline int64_t fx_count(int variant, int64_t n) { return variant != FX_WORLD && n > 1000 ? 1000 : n; }

/* Fails the test unless st is MK_OK, with the first error's message. */
void fx_ok(mk_status st, const char *what);

/* A bench on the fixture's device; closing checks canaries. */
void fx_bench_open(test_bench *b);

/* What rank r holds at element i. */
static inline double fx_value(int rank, int64_t i) { return (double)((rank * 7 + i * 3) % 11) - 5; }

/* A tensor with the values that `rank` holds from element `first` on. */
mk_tensor fx_tensor(test_bench *b, const char *name, mk_dtype dtype, int64_t n, int rank, int64_t first);

/* Elements of t equal want[]. `what` and rank are for the message. */
void fx_expect(test_bench *b, const mk_tensor *t, const double *want, const char *what, int variant);

/* Scratch for expected values. */
double *fx_want(void);

/* Of the program: fx_world.c (self, mpi) or fx_world_nccl.c (the NCCL backend over the mock). Makes the world and its
 * special variants; ends what it made beside communicators; prepares a device for the backend. */
mk_status fx_world_open(fixture *f, const char *backend, double timeout_s);
mk_status fx_world_tune(fixture *f);
void fx_world_close(fixture *f);
void fx_world_adapt(mk_device *dev);

/* Cases of one backend only; NULL where it has none. */
TCase *fx_world_cases(void);

/* Test cases of each file. */
TCase *cases_collective(void);
TCase *cases_exchange(void);
TCase *cases_window(void);
TCase *cases_fault(void);

#endif
