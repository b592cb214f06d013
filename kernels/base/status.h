/* Status codes, the error record and the macros that carry both upwards.
 *
 * A fault is described once, where it is first known, with MK_FAIL; callers pass the status on with
 * MK_TRY / MK_TRY_GOTO, which add a frame (file, line) to the record. Functions that can fail return
 * mk_status, set their outputs only on success and unwind at one label `out:`. */
#ifndef KERNELS_BASE_STATUS_H
#define KERNELS_BASE_STATUS_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mk_status {
  MK_OK = 0,
  /* argument and configuration: nothing was started */
  MK_ERR_ARG = -10,    /* a caller broke a contract (shape, dtype, range) */
  MK_ERR_CONFIG = -11, /* a file, flag or environment value is wrong */
  /* memory */
  MK_ERR_MEMORY = -20, /* budget or machine memory exhausted */
  /* input and output */
  MK_ERR_IO = -30,     /* read, write, open, disk full */
  MK_ERR_FORMAT = -31, /* a file is not what it should be, or is damaged */
  MK_ERR_OUTPUT = -32, /* results cannot be written: not permitted, disk full, closed pipe */
  /* device and communication */
  MK_ERR_DEVICE = -40,
  MK_ERR_COMM = -50,
  MK_ERR_TIMEOUT = -51,
  /* others */
  MK_ERR_UNSUPPORTED = -60, /* legal request that this build or machine cannot serve; data, not a crash */
  MK_ERR_MISMATCH = -70,    /* two things that must agree do not */
  MK_ERR_NUMERIC = -80,     /* non-finite loss or gradient */
  MK_ERR_INTERRUPTED = -90, /* a signal asked for the end */
} mk_status;

enum { MK_MESSAGE_BYTES = 1024, MK_MAX_FRAMES = 12 };

typedef struct mk_frame {
  const char *file;
  int line;
} mk_frame;

/* First fault of a context. `status` is MK_OK while nothing has failed. */
typedef struct mk_error {
  mk_status status;
  char message[MK_MESSAGE_BYTES];
  mk_frame frames[MK_MAX_FRAMES];
  int n_frames;
  bool unplaced; /* the message still lacks its place: the next frame's is put behind it */
} mk_error;

/* What every layer carries instead of globals: who we are, the first error, the host heap's counters. */
typedef struct mk_context {
  mk_error error;
  int rank, ranks;        /* for messages; 0 in one-process programs */
  long long heap_calls;   /* host allocations so far */
  long long heap_live;    /* blocks allocated and not yet freed */
  long long heap_fail_at; /* fault injection: this call (1-based) fails; 0 = never */
} mk_context;

/* Short lower-case word for a status, e.g. "memory". Never NULL. */
const char *mk_status_name(mk_status status);

/* Records the first fault (later ones are dropped) and returns `status`. The message stays one line: control characters
 * of quoted values become '?'. */
mk_status mk_fail(mk_context *ctx, mk_status status, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* The same for a fault that says nothing about what it was for (lack of memory): the first frame that is added is named
 * in the message, too. */
mk_status mk_fail_caller(mk_context *ctx, mk_status status, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Adds a caller's frame to a recorded fault; returns `status` unchanged. */
mk_status mk_trace(mk_context *ctx, mk_status status, const char *file, int line);

/* Puts "<what>: " before the recorded message: who met a fault knows more of its place than who found it. */
void mk_error_prefix(mk_context *ctx, const char *what);

/* Forgets the recorded fault, so that a sweep can go on after a refused cell. */
void mk_error_clear(mk_context *ctx);

#define MK_FAIL(ctx, status, ...) mk_fail((ctx), (status), __FILE__, __LINE__, __VA_ARGS__)
#define MK_FAIL_CALLER(ctx, status, ...) mk_fail_caller((ctx), (status), __FILE__, __LINE__, __VA_ARGS__)

/* Caller error, always on. */
#define MK_CHECK(ctx, cond, status, ...) \
  do { \
    if (!(cond)) return MK_FAIL((ctx), (status), __VA_ARGS__); \
  } while (0)

#define MK_CHECK_GOTO(ctx, cond, status, label, ...) \
  do { \
    if (!(cond)) { \
      st = MK_FAIL((ctx), (status), __VA_ARGS__); \
      goto label; \
    } \
  } while (0)

#define MK_TRY(ctx, call) \
  do { \
    mk_status mk_try_st = (call); \
    if (mk_try_st != MK_OK) return mk_trace((ctx), mk_try_st, __FILE__, __LINE__); \
  } while (0)

/* For functions with cleanup: needs a local `mk_status st` and the label. */
#define MK_TRY_GOTO(ctx, call, label) \
  do { \
    st = (call); \
    if (st != MK_OK) { \
      mk_trace((ctx), st, __FILE__, __LINE__); \
      goto label; \
    } \
  } while (0)

#ifdef __cplusplus
}
#endif

#endif
