/* The communication seam: ranks, groups, collectives, point to point and windows.
 *
 * Every call takes a stream and keeps its order (NCCL semantics): the host does not wait, buffers must stay valid
 * until the stream has passed; host row counts are copied at the call. One communicator per purpose, used from one
 * stream at a time; all ranks issue the calls of one communicator in the same order. Backends: `self` (one rank),
 * `mpi`, `nccl`, `sim`, and two that wrap any of them: `trace` writes the list (op, purpose, count, bytes), `fault`
 * refuses one call. Counts are elements, 64-bit; the MPI backend cuts messages above INT_MAX bytes into pieces. Zero
 * counts are legal. Reductions take f32, bf16 (summed in FP32), f64, i32, i64; on CPU ranks are added in rank order, so
 * that reruns and all_reduce against reduce_scatter + all_gather give the same bits. */
#ifndef TRAINER_COMM_COMM_H
#define TRAINER_COMM_COMM_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mt_comm mt_comm;
typedef struct mt_window mt_window;

typedef enum mt_reduce { MT_SUM, MT_MAX } mt_reduce;

enum { MT_MAX_RANKS = 1024 };

typedef struct mt_comm_ops {
  const char *name;
  /* recv = reduction over ranks of send; may be in place (send.data == recv.data) */
  mk_status (*all_reduce)(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op, mk_stream *s);
  /* recv [size * n] gets every rank's send [n] in rank order; in place when send is the own slice of recv */
  mk_status (*all_gather)(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mk_stream *s);
  /* recv [n] = own slice of the reduction of send [size * n]; in place when recv is the own slice of send */
  mk_status (*reduce_scatter)(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op, mk_stream *s);
  /* equal counts: n / size elements to and from each rank; send and recv are different memory, here and below */
  mk_status (*all_to_all)(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mk_stream *s);
  /* rows of `send` [rows,D]: send_rows[r] rows go to rank r, in order; recv_rows[r] rows come from r. Host counts. */
  mk_status (*all_to_all_v)(mt_comm *comm, const mk_tensor *send, const int64_t *send_rows, const mk_tensor *recv,
                            const int64_t *recv_rows, mk_stream *s);
  mk_status (*broadcast)(mt_comm *comm, const mk_tensor *buffer, int root, mk_stream *s);
  mk_status (*send)(mt_comm *comm, const mk_tensor *buffer, int peer, mk_stream *s);
  mk_status (*recv)(mt_comm *comm, const mk_tensor *buffer, int peer, mk_stream *s);
  mk_status (*barrier)(mt_comm *comm, mk_stream *s);
  /* sends and recvs between begin and end progress together, on the stream given to end (all of them on that one);
   * other calls inside a group are not held back */
  mk_status (*group_begin)(mt_comm *comm);
  mk_status (*group_end)(mt_comm *comm, mk_stream *s);
  /* new communicator of the ranks with equal color (>= 0), ordered by key; collective over comm */
  mk_status (*split)(mt_comm *comm, int color, int key, const char *purpose, mt_comm **out);
  /* `bytes` of memory per rank that peers can write; collective, also over the other communicators split from the same
   * one, whose windows share the memory of a node. Charged to MK_MEM_COMM of the device. */
  mk_status (*window_create)(mt_comm *comm, mk_device *dev, size_t bytes, mt_window **out);
  void (*window_destroy)(mt_window *window);
  /* asynchronous faults so far; also notices dead peers where the backend can */
  mk_status (*poll)(mt_comm *comm);
  /* ends all ranks with the code; does not return where the backend can kill them */
  void (*abort)(mt_comm *comm, int code);
  void (*destroy)(mt_comm *comm);
} mt_comm_ops;

/* Base of every backend's communicator (first member). Read-only outside trainer/comm. */
struct mt_comm {
  const mt_comm_ops *ops;
  mk_context *ctx;
  const char *purpose; /* "world", "dense", ...: see mt_mesh; a static string */
  int rank, size;
  int64_t calls;         /* communication calls so far */
  int64_t payload_bytes; /* bytes this rank handed over so far: of each call the bytes of `send` (the own part
                            included), of all_to_all_v the rows sent, of broadcast the buffer at the root only,
                            of recv and barrier none */
};

/* Base of every backend's window. `peer_base[r]` is where rank r's memory can be written from here (r = own rank:
 * base); NULL for the peers where the backend has no shared window. A barrier on the stream makes written rows visible.
 */
struct mt_window {
  mt_comm *comm;
  mk_device *dev;
  size_t bytes;
  void *base;       /* own memory */
  void **peer_base; /* [size] */
};

/* Public calls: count, check shapes and forward. Contracts as in the table above. */
mk_status mt_comm_all_reduce(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op, mk_stream *s);
mk_status mt_comm_all_gather(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mk_stream *s);
mk_status mt_comm_reduce_scatter(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op,
                                 mk_stream *s);
mk_status mt_comm_all_to_all(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mk_stream *s);
mk_status mt_comm_all_to_all_v(mt_comm *comm, const mk_tensor *send, const int64_t *send_rows, const mk_tensor *recv,
                               const int64_t *recv_rows, mk_stream *s);
mk_status mt_comm_broadcast(mt_comm *comm, const mk_tensor *buffer, int root, mk_stream *s);
mk_status mt_comm_send(mt_comm *comm, const mk_tensor *buffer, int peer, mk_stream *s);
mk_status mt_comm_recv(mt_comm *comm, const mk_tensor *buffer, int peer, mk_stream *s);
mk_status mt_comm_barrier(mt_comm *comm, mk_stream *s);
mk_status mt_comm_group_begin(mt_comm *comm);
mk_status mt_comm_group_end(mt_comm *comm, mk_stream *s);
mk_status mt_comm_split(mt_comm *comm, int color, int key, const char *purpose, mt_comm **out);
mk_status mt_comm_poll(mt_comm *comm);
void mt_comm_abort(mt_comm *comm, int code);
void mt_comm_destroy(mt_comm *comm); /* collective; streams must have passed its calls; NULL is legal */

mk_status mt_window_create(mt_comm *comm, mk_device *dev, size_t bytes, mt_window **out);
void mt_window_destroy(mt_window *window);      /* collective; NULL is legal */
bool mt_window_shared(const mt_window *window); /* every peer's memory can be written from here */

typedef struct mt_comm_mpi_config {
  bool threaded;     /* streams run on threads (cpu_async): asks for MPI_THREAD_MULTIPLE */
  double timeout_s;  /* a call without progress for so long fails with MK_ERR_TIMEOUT; 0 = wait for ever */
  const char *alike; /* lines that must be the same on all ranks, else all fail with MK_ERR_CONFIG; NULL = none */
} mt_comm_mpi_config;

/* World communicators, purpose "world". mt_comm_mpi_create initialises MPI and finalises it when the world is
 * destroyed; it sets ctx->rank and ranks. nccl needs the MPI world for its bootstrap. sim: the world of the simulation
 * that `dev` belongs to. MK_ERR_UNSUPPORTED where this build has no such backend. */
mk_status mt_comm_self_create(mk_context *ctx, mt_comm **out);
mk_status mt_comm_mpi_create(mk_context *ctx, const mt_comm_mpi_config *config, mt_comm **out);
mk_status mt_comm_nccl_create(mk_context *ctx, mt_comm *bootstrap, mk_device *dev, mt_comm **out);
mk_status mt_comm_sim_create(mk_context *ctx, mk_device *dev, mt_comm **out);

/* Wraps `inner` (owned by the trace from then on) and writes a line per call to `path`:
 * op,purpose,dtype,count,bytes,size, after a header line; count is that of `send` (of the buffer for broadcast, send
 * and recv) and bytes is what the call adds to payload_bytes. Communicators split from a trace are traced into the same
 * file, which is complete when the last of them is destroyed. */
mk_status mt_comm_trace_create(mk_context *ctx, mt_comm *inner, const char *path, mt_comm **out);

/* Of a trace: all lines so far into the file. MK_ERR_OUTPUT where one of them could not be written. */
mk_status mt_comm_trace_finish(mt_comm *world);

/* Wraps `inner` (owned by the wrapper from then on): call `at` (1-based; exchanges, splits and window_create of the
 * world and all that is split from it) fails with MK_ERR_COMM on this rank and reaches no peer. For tests. */
mk_status mt_comm_fault_create(mk_context *ctx, mt_comm *inner, int64_t at, mt_comm **out);

/* True when the process was started by an MPI launcher with more than one rank. */
bool mt_comm_mpi_launched(void);

/* Rank that the launcher gave this process, known before MPI starts; 0 without a launcher. For messages. */
int mt_comm_mpi_launched_rank(void);

#ifdef __cplusplus
}
#endif

#endif
