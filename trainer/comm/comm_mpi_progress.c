/* Progress of the MPI backend: posts pieces, polls, and gives up after the deadline.
 *
 * Polling instead of a blocking wait, because MPI's blocking calls cannot be bounded in time. While nothing moves, the
 * processor is first kept (lowest latency), then yielded, then left for short sleeps, since ranks and their threads may
 * outnumber the cores. */
#include <sched.h>
#include <time.h>

#include "trainer/comm/comm_mpi.h"

#define SLEEP_AFTER_S 5e-3
#define DRAIN_S 5.0
enum { SLEEP_NS = 50000 };

typedef struct waiting {
  const char *call;
  double since_s; /* MPI_Wtime of the last progress */
  double timeout_s;
  int polls;
} waiting;

mk_status mt_mpi_fail(mk_context *ctx, int error, const char *call, const char *file, int line) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(error, text, &length);
  return mk_fail(ctx, MK_ERR_COMM, file, line, "%s failed: %s", call, text);
}

/* Receives are withdrawn, so that a late message finds no memory to write to; Open MPI cannot withdraw sends. */
static void give_up(mt_mpi_comm *c) {
  for (int i = 0; c->running != NULL && i < c->n_active; i++) {
    bool is_recv = c->running[c->of_request[i]].is_recv;
    if (is_recv && c->request[i] != MPI_REQUEST_NULL) MPI_Cancel(&c->request[i]);
  }
  c->running = NULL;
}

mk_status mt_mpi_record(mt_mpi_comm *c, mk_status st) {
  int healthy = MK_OK;
  if (st == MK_OK) return MK_OK;
  give_up(c);
  atomic_compare_exchange_strong(&c->fault, &healthy, st);
  return st;
}

mk_status mt_mpi_usable(mk_context *ctx, mt_mpi_comm *c, const char *call) {
  MK_CHECK(ctx, atomic_load(&c->fault) == MK_OK, MK_ERR_COMM, "%s on %s: an earlier call on it failed", call,
           c->base.purpose);
  return MK_OK;
}

static mk_status fail_transfer(mk_context *ctx, mt_mpi_comm *c, const char *call, int transfer, int error) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(error, text, &length);
  MK_CHECK(ctx, c->running != NULL, MK_ERR_COMM, "%s on %s failed: %s", call, c->base.purpose, text);
  const mt_transfer *t = &c->running[transfer];
  return MK_FAIL(ctx, MK_ERR_COMM, "%s on %s: %s rank %d, %lld bytes, failed: %s", call, c->base.purpose,
                 t->is_recv ? "receive from" : "send to", t->peer, (long long)t->bytes, text);
}

/* Puts the next piece of a transfer in flight as request `at`. */
static mk_status post(mk_context *ctx, mt_mpi_comm *c, int at, int transfer, const char *call) {
  const mt_transfer *t = &c->running[transfer];
  char *data = t->data + t->passed_bytes;
  int bytes = (int)mt_transfer_piece_bytes(t, c->piece_bytes);
  c->of_request[at] = transfer;
  int error = t->is_recv ? MPI_Irecv(data, bytes, MPI_BYTE, t->peer, MT_MPI_TAG, c->mpi, &c->request[at])
                         : MPI_Isend(data, bytes, MPI_BYTE, t->peer, MT_MPI_TAG, c->mpi, &c->request[at]);
  if (error == MPI_SUCCESS) return MK_OK;
  c->request[at] = MPI_REQUEST_NULL;
  return fail_transfer(ctx, c, call, transfer, error);
}

/* Request `at` is finished: its next piece, or the next of its chain, or nothing (the request stays null). */
static mk_status advance(mk_context *ctx, mt_mpi_comm *c, int at, const char *call) {
  if (c->running == NULL) return MK_OK;
  int transfer = c->of_request[at];
  mt_transfer *t = &c->running[transfer];
  t->passed_bytes += mt_transfer_piece_bytes(t, c->piece_bytes);
  if (t->passed_bytes < t->bytes) return post(ctx, c, at, transfer, call);
  if (t->next >= 0) return post(ctx, c, at, t->next, call);
  return MK_OK;
}

static void drop_finished(mt_mpi_comm *c) {
  int kept = 0;
  for (int i = 0; i < c->n_active; i++) {
    if (c->request[i] == MPI_REQUEST_NULL) continue;
    c->request[kept] = c->request[i];
    c->of_request[kept++] = c->of_request[i];
  }
  c->n_active = kept;
}

static mk_status fail_timeout(mk_context *ctx, mt_mpi_comm *c, const waiting *w) {
  if (c->running == NULL) {
    return MK_FAIL(ctx, MK_ERR_TIMEOUT, "no progress in %s on %s for %g s: a peer is stopped or dead", w->call,
                   c->base.purpose, w->timeout_s);
  }
  const mt_transfer *t = &c->running[c->of_request[0]];
  return MK_FAIL(ctx, MK_ERR_TIMEOUT,
                 "no progress in %s on %s for %g s: a peer is stopped or dead (%lld of %lld bytes %s rank %d)", w->call,
                 c->base.purpose, w->timeout_s, (long long)t->passed_bytes, (long long)t->bytes,
                 t->is_recv ? "received from" : "sent to", t->peer);
}

/* Nothing moved: stays, yields or sleeps; fails after the deadline. */
static mk_status idle(mk_context *ctx, mt_mpi_comm *c, waiting *w) {
  w->polls += 1;
  if (w->polls < c->job->spin_polls) return MK_OK;
  double idle_s = MPI_Wtime() - w->since_s;
  if (w->timeout_s > 0 && idle_s > w->timeout_s) return fail_timeout(ctx, c, w);
  struct timespec pause = {.tv_nsec = SLEEP_NS};
  if (idle_s < SLEEP_AFTER_S) {
    sched_yield();
  } else {
    nanosleep(&pause, NULL);
  }
  return MK_OK;
}

static mk_status poll_requests(mk_context *ctx, mt_mpi_comm *c, int *n_done, const char *call) {
  int error = MPI_Testsome(c->n_active, c->request, n_done, c->index, c->status);
  if (error == MPI_SUCCESS) return MK_OK;
  for (int i = 0; error == MPI_ERR_IN_STATUS && i < *n_done; i++) {
    int own = c->status[i].MPI_ERROR;
    if (own == MPI_SUCCESS || own == MPI_ERR_PENDING) continue;
    return fail_transfer(ctx, c, call, c->of_request[c->index[i]], own);
  }
  return fail_transfer(ctx, c, call, c->of_request[0], error);
}

static mk_status progress(mk_context *ctx, mt_mpi_comm *c, const char *call, double timeout_s) {
  waiting w = {.call = call, .since_s = MPI_Wtime(), .timeout_s = timeout_s};
  while (c->n_active > 0) {
    int n_done = 0;
    MK_TRY(ctx, poll_requests(ctx, c, &n_done, call));
    if (n_done <= 0) {
      MK_TRY(ctx, idle(ctx, c, &w));
      continue;
    }
    for (int i = 0; i < n_done; i++)
      MK_TRY(ctx, advance(ctx, c, c->index[i], call));
    drop_finished(c);
    w.polls = 0;
    w.since_s = MPI_Wtime();
  }
  return MK_OK;
}

/* Receives first: what arrives then finds its place. */
static mk_status start(mk_context *ctx, mt_mpi_comm *c, mt_transfer_list *list, const char *call) {
  MK_TRY(ctx, mt_transfers_copy_own(ctx, list, c->base.rank));
  mt_transfers_link(list, c->base.size, c->heads, c->tails);
  c->running = list->item;
  c->n_active = 0;
  for (int direction = 0; direction < 2; direction++) {
    for (int step = 1; step < c->base.size; step++) {
      int head = c->heads[2 * ((c->base.rank + step) % c->base.size) + direction];
      if (head < 0) continue;
      MK_TRY(ctx, post(ctx, c, c->n_active, head, call));
      c->n_active += 1;
    }
  }
  return MK_OK;
}

mk_status mt_mpi_run(mk_context *ctx, mt_mpi_comm *c, mt_transfer_list *list, const char *call) {
  MK_TRY(ctx, mt_mpi_usable(ctx, c, call));
  mk_status st = start(ctx, c, list, call);
  if (st == MK_OK) st = progress(ctx, c, call, c->job->timeout_s);
  return mt_mpi_record(c, st);
}

mk_status mt_mpi_complete(mk_context *ctx, mt_mpi_comm *c, int started, MPI_Request request, const char *call) {
  c->running = NULL;
  if (started != MPI_SUCCESS) return mt_mpi_record(c, fail_transfer(ctx, c, call, 0, started));
  c->request[0] = request;
  c->of_request[0] = 0;
  c->n_active = 1;
  return mt_mpi_record(c, progress(ctx, c, call, c->job->timeout_s));
}

mk_status mt_mpi_meet(mk_context *ctx, mt_mpi_comm *c, const char *call) {
  MPI_Request request = MPI_REQUEST_NULL;
  MK_TRY(ctx, mt_mpi_usable(ctx, c, call));
  int started = MPI_Ibarrier(c->mpi, &request);
  MK_TRY(ctx, mt_mpi_complete(ctx, c, started, request, call));
  return MK_OK;
}

bool mt_mpi_drain(mt_mpi_comm *c) {
  mk_context scratch = {.rank = c->base.rank}; /* the fault that counts is on record already */
  drop_finished(c);
  return progress(&scratch, c, "destroy", DRAIN_S) == MK_OK;
}
