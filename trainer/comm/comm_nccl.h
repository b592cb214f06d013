/* Private to the NCCL backend (comm_nccl*, the only files that see nccl.h).
 *
 * Data goes through NCCL on the caller's own stream. What ranks must agree on while nothing of NCCL is there yet (its
 * unique id), or while one of them may have failed (new communicators, windows), goes through `control`: a communicator
 * of the same ranks on the host, split from the bootstrap (MPI, or self for one rank). Both are used from the thread
 * that drives the device. */
#ifndef TRAINER_COMM_COMM_NCCL_H
#define TRAINER_COMM_COMM_NCCL_H

#include <nccl.h>

#include "trainer/comm/comm.h"
#include "trainer/comm/transfers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Clears the memory of a registered window and sets peer_base of every rank that can be written from here (own rank
 * included; base is set). `window` is NULL where NCCL has no symmetric memory: then no peer can. Waits for the device.
 */
typedef mk_status (*mt_nccl_map_fn)(mk_context *ctx, ncclComm_t native, ncclWindow_t window, mt_window *out);

/* One a world, shared by what is split from it. */
typedef struct mt_nccl_job {
  int users;
  mt_nccl_map_fn map;
  mk_device *device;      /* borrowed: the GPU of this rank */
  mk_device *host;        /* cpu device for the control messages */
  mk_stream *host_stream; /* runs at once */
  mk_tensor cell;         /* of the host device: one control message */
} mt_nccl_job;

typedef struct mt_nccl_comm {
  mt_comm base;
  mt_nccl_job *job;
  mt_comm *control;
  bool owns_control; /* the world borrows the bootstrap */
  ncclComm_t native;
  mk_tensor token; /* i32 [1] on the device: what a barrier reduces */
  bool in_group;
  mk_stream *group_stream;
  mt_transfer_list group; /* of the open group */
  mt_transfer_list list;  /* of the running call */
  mt_transfer *items;     /* memory of both lists */
} mt_nccl_comm;

/* comm_nccl.c: the world over `bootstrap` (borrowed, outlives it) on `dev`. mt_comm_nccl_create is this with the map
 * function of comm_nccl_map.cu; tests give that of their NCCL. */
mk_status mt_nccl_open(mk_context *ctx, mt_comm *bootstrap, mk_device *dev, mt_nccl_map_fn map, mt_comm **out);

/* Replaces *value by its maximum over the ranks, through `control`. */
mk_status mt_nccl_agree(mk_context *ctx, const mt_nccl_job *job, mt_comm *control, int64_t *value);

/* A fault on every rank of `control` when `st` is one on any of them: the own one, or that another rank failed. */
mk_status mt_nccl_agree_ok(mk_context *ctx, const mt_nccl_job *job, mt_comm *control, mk_status st, const char *call);

/* comm_nccl_exchange.c: members of the table. */
mk_status mt_nccl_all_reduce(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op, mk_stream *s);
mk_status mt_nccl_all_gather(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mk_stream *s);
mk_status mt_nccl_reduce_scatter(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op,
                                 mk_stream *s);
mk_status mt_nccl_all_to_all(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mk_stream *s);
mk_status mt_nccl_all_to_all_v(mt_comm *comm, const mk_tensor *send, const int64_t *send_rows, const mk_tensor *recv,
                               const int64_t *recv_rows, mk_stream *s);
mk_status mt_nccl_broadcast(mt_comm *comm, const mk_tensor *buffer, int root, mk_stream *s);
mk_status mt_nccl_send(mt_comm *comm, const mk_tensor *buffer, int peer, mk_stream *s);
mk_status mt_nccl_recv(mt_comm *comm, const mk_tensor *buffer, int peer, mk_stream *s);
mk_status mt_nccl_barrier(mt_comm *comm, mk_stream *s);
mk_status mt_nccl_group_begin(mt_comm *comm);
mk_status mt_nccl_group_end(mt_comm *comm, mk_stream *s);

/* comm_nccl_window.c */
mk_status mt_nccl_window_create(mt_comm *comm, mk_device *dev, size_t bytes, mt_window **out);
void mt_nccl_window_destroy(mt_window *window);

/* Turns an NCCL result into MK_ERR_COMM: the call, NCCL's name of the fault and its last message. `native` may be NULL.
 */
mk_status mt_nccl_fail(mk_context *ctx, ncclComm_t native, ncclResult_t result, const char *call, const char *file,
                       int line);

#define MT_NCCL(ctx, native, call) \
  do { \
    ncclResult_t mt_nccl_result = (call); \
    if (mt_nccl_result != ncclSuccess) { \
      return mt_nccl_fail((ctx), (native), mt_nccl_result, #call, __FILE__, __LINE__); \
    } \
  } while (0)

/* For functions with cleanup: needs a local `mk_status st` and the label. */
#define MT_NCCL_GOTO(ctx, native, call, label) \
  do { \
    ncclResult_t mt_nccl_result = (call); \
    if (mt_nccl_result != ncclSuccess) { \
      st = mt_nccl_fail((ctx), (native), mt_nccl_result, #call, __FILE__, __LINE__); \
      goto label; \
    } \
  } while (0)

#ifdef __cplusplus
}
#endif

#endif
