/* The device seam: memory, streams, events, copies, clock and the op table of one device.
 *
 * Streams are explicit and may be asynchronous; nothing may assume that a launched op has run. `cpu` runs a stream
 * at once, `cpu_async` on a thread per stream with random delays, `ref` is `cpu` with the reference table (any dtype,
 * FP64 included), `cuda` uses CUDA streams, `sim` counts and charges virtual time.
 * The public functions below check, count and forward to the backend's table. */
#ifndef KERNELS_DEVICE_DEVICE_H
#define KERNELS_DEVICE_DEVICE_H

#include "kernels/base/status.h"
#include "kernels/base/tensor.h"
#include "kernels/ops/op_list.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_device mk_device;
typedef struct mk_stream mk_stream;
typedef struct mk_event mk_event;

/* What memory is for; every byte is counted under one of these. */
typedef enum mk_memory {
  MK_MEM_PARAMS,
  MK_MEM_GRADS,
  MK_MEM_OPTIM,
  MK_MEM_ACTIVATIONS,
  MK_MEM_COMM,
  MK_MEM_WORKSPACE,
  MK_MEM_COUNT
} mk_memory;

const char *mk_memory_name(mk_memory category);

/* Which GEMM serves BF16 operands: hardware BF16, or the same values widened and multiplied in FP32. */
typedef enum mk_kernel { MK_KERNEL_AUTO, MK_KERNEL_NATIVE, MK_KERNEL_WIDENED } mk_kernel;

typedef struct mk_device_config {
  const char *name;    /* "cpu", "cpu_async", "ref", "cuda", "sim" */
  int threads;         /* cpu: OpenMP threads of this rank; 0 = all that OpenMP gives */
  mk_kernel kernel;    /* AUTO decides by CPU feature, never by timing */
  size_t budget_bytes; /* allocations beyond it fail with MK_ERR_MEMORY; 0 = no limit */
  bool guard;          /* keep device memory PROT_NONE outside ops, copies and calls (test mode) */
  bool profile;        /* time every op (cpu: host clock around each launch) */
  uint64_t seed;       /* cpu_async: seed of the random delays */
  int ordinal;         /* cuda: which of the GPUs that this process sees, counted from 0 */
} mk_device_config;

/* Work of one op call for a roofline: flops and bytes to and from memory; `gemm` picks the GEMM peak. */
typedef struct mk_work {
  double flops;
  double bytes;
  bool gemm;
} mk_work;

/* Backend entry of one op: args points to that op's args struct. Asynchronous backends report later through poll. */
typedef mk_status (*mk_op_fn)(mk_stream *stream, const void *args);

/* Work of one op call. `rows` replaces the static row bound where rows are known on the device only; -1 = the bound. */
typedef mk_work (*mk_work_fn)(const void *args, int64_t rows);

/* A host function put on a stream (communication backends): runs in stream order, may touch device memory. */
typedef mk_status (*mk_call_fn)(mk_stream *stream, const void *args);

enum { MK_MAX_ARGS_BYTES = 2048, MK_LAUNCH_RING = 64 };

typedef struct mk_op_stats {
  int64_t calls;
  double seconds; /* profile mode only, as all below */
  double flops;   /* of the rows worked on; NaN, as bytes and bound_s, where the host cannot read how many those are */
  double bytes;
  double bound_s; /* with a roofline: sum over calls of max(flops / peak, bytes / bandwidth) */
} mk_op_stats;

/* Measured rates of the machine, for the bound; zero = unknown. */
typedef struct mk_roofline {
  double gemm_flops;  /* FLOP/s of the GEMM kernel in use */
  double other_flops; /* FLOP/s of everything else */
  double bytes_per_s;
} mk_roofline;

/* What a device is, for records. */
typedef struct mk_device_info {
  char text[256];   /* one line with all of it */
  char isa[32];     /* best instruction set that matters */
  char kernel[32];  /* GEMM kernel for BF16: native or widened */
  char library[64]; /* GEMM library and version */
  int threads;
} mk_device_info;

typedef struct mk_device_ops {
  const char *name;
  mk_status (*alloc)(mk_device *dev, size_t bytes, void **out);
  void (*free)(mk_device *dev, void *block, size_t bytes);
  mk_status (*stream_create)(mk_device *dev, const char *name, mk_stream **out);
  void (*stream_destroy)(mk_stream *stream);
  mk_status (*launch)(mk_stream *stream, mk_op_id op, const void *args, size_t args_bytes);
  mk_status (*call)(mk_stream *stream, mk_call_fn fn, const void *args, size_t args_bytes);
  mk_status (*copy)(mk_stream *stream, void *dst, const void *src, size_t bytes, int kind);
  mk_status (*fill)(mk_stream *stream, void *dst, int byte, size_t bytes);
  mk_status (*event_create)(mk_device *dev, mk_event **out);
  void (*event_destroy)(mk_event *event);
  mk_status (*event_record)(mk_event *event, mk_stream *stream);
  mk_status (*stream_wait)(mk_stream *stream, mk_event *event);
  mk_status (*event_sync)(mk_event *event);
  mk_status (*event_elapsed_s)(mk_event *begin, mk_event *end, double *out);
  mk_status (*stream_sync)(mk_stream *stream);
  double (*now_s)(mk_device *dev);
  mk_status (*poll)(mk_device *dev);
  void *(*stream_native)(mk_stream *stream);
  size_t (*gemm_pack_bytes)(mk_device *dev, mk_dtype dtype, int64_t groups, int64_t n, int64_t k);
  void (*info)(mk_device *dev, mk_device_info *out);
  void (*destroy)(mk_device *dev);
} mk_device_ops;

/* Base of every backend's device (first member of its struct). Read-only outside kernels/device. */
struct mk_device {
  const mk_device_ops *ops;
  const mk_op_fn *table; /* indexed by mk_op_id */
  mk_context *ctx;
  mk_device_config config;
  size_t used_bytes[MK_MEM_COUNT];
  size_t peak_bytes[MK_MEM_COUNT]; /* peak of each category by itself */
  size_t peak_total_bytes;
  int64_t alloc_calls; /* device allocations since creation */
  int64_t host_waits;  /* host waits inside steps */
  int64_t launches;
  double call_s;                 /* time in stream calls (communication); 0 where a backend does not measure it */
  mk_op_id ring[MK_LAUNCH_RING]; /* last launches, for error messages */
  mk_op_stats stats[MK_OP_COUNT];
  mk_roofline roofline; /* set by the caller before profiling */
};

struct mk_stream {
  mk_device *dev;
  const char *name;
};

struct mk_event {
  mk_device *dev;
};

enum { MK_COPY_H2D, MK_COPY_D2H, MK_COPY_D2D };

/* Whether streams of the device called `name` run on threads of their own, so that a library that they call must be
 * started for several threads. */
bool mk_device_threaded(const char *name);

/* Creates the device named in config. MK_ERR_UNSUPPORTED when this build or machine has none, with the reason. */
mk_status mk_device_create(mk_context *ctx, const mk_device_config *config, mk_device **out);
void mk_device_destroy(mk_device *dev);

void mk_device_info_get(mk_device *dev, mk_device_info *out);

/* Device memory of a category, zero-filled, 64-byte aligned. MK_ERR_MEMORY names category, request, use and budget. */
mk_status mk_device_alloc(mk_device *dev, mk_memory category, size_t bytes, void **out);
void mk_device_free(mk_device *dev, mk_memory category, void *block, size_t bytes);

/* Counts memory that is owned elsewhere (communication windows); same failure as alloc. */
mk_status mk_device_charge(mk_device *dev, mk_memory category, size_t bytes);
void mk_device_discharge(mk_device *dev, mk_memory category, size_t bytes);

mk_status mk_stream_create(mk_device *dev, const char *name, mk_stream **out);
void mk_stream_destroy(mk_stream *stream);

/* Used by <op>.c after its checks: puts the op on the stream. args is copied. */
mk_status mk_stream_launch(mk_stream *stream, mk_op_id op, const void *args, size_t args_bytes);

/* Puts a host function on the stream; args is copied. For communication backends. */
mk_status mk_stream_call(mk_stream *stream, mk_call_fn fn, const void *args, size_t args_bytes);

/* Copies in stream order. Host memory must stay valid until the stream has passed the copy. */
mk_status mk_copy_h2d(mk_stream *stream, const mk_tensor *dst, const void *src);
mk_status mk_copy_d2h(mk_stream *stream, void *dst, const mk_tensor *src);
mk_status mk_copy_d2d(mk_stream *stream, const mk_tensor *dst, const mk_tensor *src);

/* Fills all bytes of a tensor. */
mk_status mk_fill(mk_stream *stream, const mk_tensor *dst, int byte);

mk_status mk_event_create(mk_device *dev, mk_event **out);
void mk_event_destroy(mk_event *event);
mk_status mk_event_record(mk_event *event, mk_stream *stream);
mk_status mk_stream_wait(mk_stream *stream, mk_event *event);

/* Host waits. `in_step` says whether the wait counts as a host wait of the step. */
mk_status mk_event_sync(mk_event *event, bool in_step);
mk_status mk_stream_sync(mk_stream *stream, bool in_step);

/* Device seconds between two recorded, finished events. */
mk_status mk_event_elapsed_s(mk_event *begin, mk_event *end, double *out);

/* Device clock in seconds; the only clock of the trainer. */
double mk_device_now_s(mk_device *dev);

/* Asynchronous faults so far; the message names the op from the launch ring. Called at each step's end. */
mk_status mk_device_poll(mk_device *dev);

/* The backend's own stream (cudaStream_t), or NULL. */
void *mk_stream_native(mk_stream *stream);

/* Bytes of a packed copy of weights [groups,n,k] for the GEMM of this device; 0 when it takes them as they are. */
size_t mk_gemm_pack_bytes(mk_device *dev, mk_dtype dtype, int64_t groups, int64_t n, int64_t k);

#ifdef __cplusplus
}
#endif

#endif
