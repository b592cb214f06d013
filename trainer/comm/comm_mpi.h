/* Private to the MPI backend (comm_mpi*.c, the only files that see mpi.h).
 *
 * Data moves as lists of nonblocking sends and receives of bytes, completed by polling with a deadline. Open MPI 4.1
 * builds its nonblocking collectives (coll/libnbc) the same way, but with `int` displacements; and its nonblocking
 * reductions take a fresh buffer of the call's size and send whole vectors up a tree, where the exchange in
 * comm_mpi_reduce.c sends the least that can be sent. Reductions add the ranks in rank order, so bits depend on the
 * number of ranks only, and no MCA parameter can change them. */
#ifndef TRAINER_COMM_COMM_MPI_H
#define TRAINER_COMM_COMM_MPI_H

#include <mpi.h>
#include <stdatomic.h>

#include "trainer/comm/comm.h"
#include "trainer/comm/transfers.h"

enum {
  MT_MPI_SLOTS = 64,      /* all_to_all_v calls and groups in flight of one communicator */
  MT_MPI_GROUP_MIN = 64,  /* sends and receives of one group, at least */
  MT_MPI_PIECE = 1 << 30, /* bytes of one message at most */
  MT_MPI_TAG = 1,
};

/* One a process, shared by a world and what is split from it. */
typedef struct mt_mpi_job {
  int users;
  bool owns_mpi;    /* initialised here, so finalised here */
  bool stuck;       /* a communication could not be completed: finalising would hang */
  double timeout_s; /* 0 = none */
  int spin_polls;   /* polls before the processor is yielded */
  MPI_Comm node;    /* the job's ranks on this node */
} mt_mpi_job;

/* A transfer list that waits for its stream. */
typedef struct mt_mpi_slot {
  atomic_bool busy;
  mt_transfer_list list;
} mt_mpi_slot;

typedef struct mt_mpi_comm {
  mt_comm base;
  mt_mpi_job *job;
  MPI_Comm mpi;
  int64_t piece_bytes;
  atomic_int fault; /* mk_status of the first failed call; later calls are refused */
  /* the call that is running */
  mt_transfer_list list; /* of collectives */
  mt_transfer *running;  /* items of the running list; NULL while a single request runs */
  int n_active;          /* requests in flight */
  MPI_Request *request;  /* [2 * size] */
  MPI_Status *status;    /* [2 * size] */
  int *index;            /* [2 * size] finished requests of one poll */
  int *of_request;       /* [2 * size] transfer of each request */
  int *heads, *tails;    /* [2 * size] */
  /* reductions: one lane a rank */
  char *scratch; /* [size * lane_bytes] */
  int64_t lane_bytes;
  const void **source; /* [size] */
  int64_t vote[2];     /* own value and outcome of an agreement; here, because a late one may still be written */
  /* host side */
  bool in_group;
  mk_stream *group_stream;
  mt_transfer_list group; /* of the open group */
  mt_mpi_slot *slot;      /* [MT_MPI_SLOTS] */
  mt_transfer *items;     /* memory of all lists */
} mt_mpi_comm;

/* What a collective takes along its stream. */
typedef struct mt_mpi_args {
  mt_mpi_comm *comm;
  mk_tensor send, recv;
  mt_reduce op;
  int root;
  mt_mpi_slot *slot;
  const char *call;
} mt_mpi_args;

/* Turns an MPI error code into MK_ERR_COMM: the call, the communicator, MPI's own text. */
mk_status mt_mpi_fail(mk_context *ctx, int error, const char *call, const char *file, int line);

#define MT_MPI(ctx, call) \
  do { \
    int mt_mpi_error = (call); \
    if (mt_mpi_error != MPI_SUCCESS) return mt_mpi_fail((ctx), mt_mpi_error, #call, __FILE__, __LINE__); \
  } while (0)

/* For functions with cleanup: needs a local `mk_status st` and the label. */
#define MT_MPI_GOTO(ctx, call, label) \
  do { \
    int mt_mpi_error = (call); \
    if (mt_mpi_error != MPI_SUCCESS) { \
      st = mt_mpi_fail((ctx), mt_mpi_error, #call, __FILE__, __LINE__); \
      goto label; \
    } \
  } while (0)

/* comm_mpi_progress.c: run to completion on the calling thread. `call` names the call in messages; ctx is the error
 * record of the calling thread (stream->dev->ctx inside a stream call). */
mk_status mt_mpi_run(mk_context *ctx, mt_mpi_comm *c, mt_transfer_list *list, const char *call);
/* A single request: `started` is what MPI said at its start. */
mk_status mt_mpi_complete(mk_context *ctx, mt_mpi_comm *c, int started, MPI_Request request, const char *call);
/* Gives `st` back; a fault is remembered, so that later calls are refused instead of mixing with what is still in
 * flight. */
mk_status mt_mpi_record(mt_mpi_comm *c, mk_status st);
/* MK_ERR_COMM once a call on the communicator has failed. */
mk_status mt_mpi_usable(mk_context *ctx, mt_mpi_comm *c, const char *call);
/* All ranks have come here; bounds the blocking set-up calls that follow. */
mk_status mt_mpi_meet(mk_context *ctx, mt_mpi_comm *c, const char *call);
/* Tries to complete what a failed call left in flight; false when it cannot be. */
bool mt_mpi_drain(mt_mpi_comm *c);

/* comm_mpi_exchange.c, comm_mpi_reduce.c: members of the table. */
mk_status mt_mpi_all_gather(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mk_stream *s);
mk_status mt_mpi_all_to_all(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mk_stream *s);
mk_status mt_mpi_all_to_all_v(mt_comm *comm, const mk_tensor *send, const int64_t *send_rows, const mk_tensor *recv,
                              const int64_t *recv_rows, mk_stream *s);
mk_status mt_mpi_broadcast(mt_comm *comm, const mk_tensor *buffer, int root, mk_stream *s);
mk_status mt_mpi_send(mt_comm *comm, const mk_tensor *buffer, int peer, mk_stream *s);
mk_status mt_mpi_recv(mt_comm *comm, const mk_tensor *buffer, int peer, mk_stream *s);
mk_status mt_mpi_barrier(mt_comm *comm, mk_stream *s);
mk_status mt_mpi_group_begin(mt_comm *comm);
mk_status mt_mpi_group_end(mt_comm *comm, mk_stream *s);
mk_status mt_mpi_all_reduce(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op, mk_stream *s);
mk_status mt_mpi_reduce_scatter(mt_comm *comm, const mk_tensor *send, const mk_tensor *recv, mt_reduce op,
                                mk_stream *s);
/* Inside a stream call: `all` gets the slices of all ranks, elements [count * r / size, count * (r + 1) / size) from
 * rank r; `own` may be the own slice of `all`. */
mk_status mt_mpi_spread(mk_context *ctx, mt_mpi_comm *c, const void *own, char *all, int64_t count, int64_t unit_bytes,
                        const char *call);

/* comm_mpi_window.c */
mk_status mt_mpi_window_create(mt_comm *comm, mk_device *dev, size_t bytes, mt_window **out);
void mt_mpi_window_destroy(mt_window *window);

/* comm_mpi.c: a communicator over `mpi`, which it owns from then on, also when it fails. */
mk_status mt_mpi_open(mk_context *ctx, mt_mpi_job *job, MPI_Comm mpi, const char *purpose, mt_mpi_comm **out);
/* comm_mpi_launch.c */
void mt_mpi_job_release(mk_context *ctx, mt_mpi_job *job);

#endif
