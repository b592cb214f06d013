/* NCCL communicators: bootstrap, split, fault record, end. NCCL's own set-up calls are collective and block, so the
 * ranks first agree, through `control`, that each of them has come that far. */
#include "trainer/comm/comm_nccl.h"

#include <string.h>

#include "kernels/base/heap.h"

enum { GROUP_MIN = 64 }; /* sends and receives of one group, at least */

static const mt_comm_ops nccl_ops;

mk_status mt_nccl_fail(mk_context *ctx, ncclComm_t native, ncclResult_t result, const char *call, const char *file,
                       int line) {
  const char *last = ncclGetLastError(native);
  return mk_fail(ctx, MK_ERR_COMM, file, line, "NCCL: %s (%s) from %s", ncclGetErrorString(result),
                 last != NULL && last[0] != '\0' ? last : "no further message", call);
}

/* ---- control messages ---- */

/* What the job's cell holds in turn: a vote, or rank 0's unique id. `ok` travels with the id, so that nobody waits for
 * a root that failed. */
typedef struct id_message {
  ncclUniqueId id;
  int64_t ok;
} id_message;

enum { CELL_BYTES = sizeof(id_message) };

mk_status mt_nccl_agree(mk_context *ctx, const mt_nccl_job *job, mt_comm *control, int64_t *value) {
  mk_tensor vote = mk_tensor_1d(MK_I64, 1);
  vote.data = job->cell.data;
  MK_TRY(ctx, mk_copy_h2d(job->host_stream, &vote, value));
  MK_TRY(ctx, mt_comm_all_reduce(control, &vote, &vote, MT_MAX, job->host_stream));
  MK_TRY(ctx, mk_copy_d2h(job->host_stream, value, &vote));
  return mk_stream_sync(job->host_stream, false);
}

mk_status mt_nccl_agree_ok(mk_context *ctx, const mt_nccl_job *job, mt_comm *control, mk_status st, const char *call) {
  int64_t worst = -(int64_t)st;
  mk_status agreed = mt_nccl_agree(ctx, job, control, &worst);
  MK_TRY(ctx, st);
  MK_TRY(ctx, agreed);
  MK_CHECK(ctx, worst == 0, (mk_status)-worst, "%s on %s: another rank could not", call, control->purpose);
  return MK_OK;
}

static mk_status share_id(mk_context *ctx, const mt_nccl_job *job, mt_comm *control, ncclUniqueId *out) {
  id_message message;
  memset(&message, 0, sizeof message);
  mk_status made = MK_OK;
  if (control->rank == 0) {
    ncclResult_t result = ncclGetUniqueId(&message.id);
    if (result != ncclSuccess) made = mt_nccl_fail(ctx, NULL, result, "ncclGetUniqueId", __FILE__, __LINE__);
    message.ok = made == MK_OK;
  }
  MK_TRY(ctx, mk_copy_h2d(job->host_stream, &job->cell, &message));
  MK_TRY(ctx, mt_comm_broadcast(control, &job->cell, 0, job->host_stream));
  MK_TRY(ctx, mk_copy_d2h(job->host_stream, &message, &job->cell));
  MK_TRY(ctx, mk_stream_sync(job->host_stream, false));
  MK_TRY(ctx, made);
  MK_CHECK(ctx, message.ok != 0, MK_ERR_COMM, "NCCL on %s: rank 0 could not make the unique id", control->purpose);
  *out = message.id;
  return MK_OK;
}

/* ---- job ---- */

static void job_release(mk_context *ctx, mt_nccl_job *job) {
  job->users -= 1;
  if (job->users > 0) return;
  if (job->cell.data != NULL) mk_device_free(job->host, MK_MEM_COMM, job->cell.data, CELL_BYTES);
  mk_stream_destroy(job->host_stream);
  mk_device_destroy(job->host);
  mk_heap_free(ctx, job);
}

static mk_status job_create(mk_context *ctx, mk_device *dev, mt_nccl_map_fn map, mt_nccl_job **out) {
  const mk_device_config config = {.name = "cpu", .threads = 1};
  mt_nccl_job *job = NULL;
  mk_status st = MK_OK;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *job, &job));
  job->users = 1;
  job->map = map;
  job->device = dev;
  job->cell = mk_tensor_1d(MK_U8, CELL_BYTES);
  MK_TRY_GOTO(ctx, mk_device_create(ctx, &config, &job->host), out);
  MK_TRY_GOTO(ctx, mk_stream_create(job->host, "nccl control", &job->host_stream), out);
  MK_TRY_GOTO(ctx, mk_device_alloc(job->host, MK_MEM_COMM, CELL_BYTES, &job->cell.data), out);
  *out = job;
  return MK_OK;
out:
  job_release(ctx, job);
  return st;
}

/* ---- communicators ---- */

/* A healthy communicator is finished together with its peers; a faulty one, or one of a rank that has failed elsewhere,
 * alone, because they may not come. */
static void end_native(ncclComm_t native, bool failed) {
  ncclResult_t state = ncclSuccess;
  bool healthy = !failed && ncclCommGetAsyncError(native, &state) == ncclSuccess && state == ncclSuccess;
  if (healthy && ncclCommFinalize(native) == ncclSuccess) {
    ncclCommDestroy(native);
  } else {
    ncclCommAbort(native);
  }
}

static void nccl_destroy(mt_comm *comm) {
  mt_nccl_comm *c = (mt_nccl_comm *)comm;
  mk_context *ctx = comm->ctx;
  if (c->native != NULL) end_native(c->native, ctx->error.status != MK_OK);
  if (c->token.data != NULL) mk_device_free(c->job->device, MK_MEM_COMM, c->token.data, mk_tensor_bytes(&c->token));
  if (c->owns_control) mt_comm_destroy(c->control);
  mk_heap_free(ctx, c->items);
  job_release(ctx, c->job);
  mk_heap_free(ctx, c);
}

/* All of a communicator but NCCL's part. `control` is taken over when `owns_control`, also on failure. */
static mk_status comm_make(mk_context *ctx, mt_nccl_job *job, mt_comm *control, bool owns_control, const char *purpose,
                           mt_nccl_comm **out) {
  mt_nccl_comm *c = NULL;
  mk_status st = mk_heap_alloc(ctx, sizeof *c, &c);
  if (st != MK_OK) {
    if (owns_control) mt_comm_destroy(control);
    return mk_trace(ctx, st, __FILE__, __LINE__);
  }
  int collective = 2 * control->size, group = collective > GROUP_MIN ? collective : GROUP_MIN;
  c->base = (mt_comm){.ops = &nccl_ops, .ctx = ctx, .purpose = purpose, .rank = control->rank, .size = control->size};
  c->job = job;
  c->control = control;
  c->owns_control = owns_control;
  c->token = mk_tensor_1d(MK_I32, 1);
  job->users += 1;
  MK_TRY_GOTO(ctx, mk_heap_array(ctx, (size_t)collective + (size_t)group, sizeof *c->items, &c->items), out);
  c->list = (mt_transfer_list){.item = c->items, .capacity = collective};
  c->group = (mt_transfer_list){.item = c->items + collective, .capacity = group};
  MK_TRY_GOTO(ctx, mk_device_alloc(job->device, MK_MEM_COMM, mk_tensor_bytes(&c->token), &c->token.data), out);
  *out = c;
  return MK_OK;
out:
  nccl_destroy(&c->base);
  return st;
}

mk_status mt_nccl_open(mk_context *ctx, mt_comm *bootstrap, mk_device *dev, mt_nccl_map_fn map, mt_comm **out) {
  mt_nccl_job *job = NULL;
  mt_nccl_comm *c = NULL;
  ncclUniqueId id;
  mk_status st = MK_OK;
  MK_TRY(ctx, job_create(ctx, dev, map, &job));
  st = comm_make(ctx, job, bootstrap, false, "world", &c);
  MK_TRY_GOTO(ctx, mt_nccl_agree_ok(ctx, job, bootstrap, st, "nccl world"), out);
  MK_TRY_GOTO(ctx, share_id(ctx, job, bootstrap, &id), out);
  MT_NCCL_GOTO(ctx, NULL, ncclCommInitRank(&c->native, bootstrap->size, id, bootstrap->rank), out);
  *out = &c->base;
  c = NULL;
out:
  if (c != NULL) nccl_destroy(&c->base);
  job_release(ctx, job); /* the world holds it now, or nobody does */
  return st;
}

/* Both libraries order the ranks of a group by key, then by their rank before. */
static mk_status nccl_split(mt_comm *comm, int color, int key, const char *purpose, mt_comm **out) {
  mt_nccl_comm *c = (mt_nccl_comm *)comm, *part = NULL;
  mk_context *ctx = comm->ctx;
  mt_comm *control = NULL;
  int rank = -1;
  mk_status st = MK_OK;
  MK_TRY(ctx, mt_comm_split(c->control, color, key, purpose, &control));
  st = comm_make(ctx, c->job, control, true, purpose, &part);
  MK_TRY_GOTO(ctx, mt_nccl_agree_ok(ctx, c->job, c->control, st, "split"), out);
  MT_NCCL_GOTO(ctx, c->native, ncclCommSplit(c->native, color, key, &part->native, NULL), out);
  MT_NCCL_GOTO(ctx, part->native, ncclCommUserRank(part->native, &rank), out);
  MK_CHECK_GOTO(ctx, rank == part->base.rank, MK_ERR_MISMATCH, out,
                "split of %s for %s: NCCL rank %d is control rank %d", comm->purpose, purpose, rank, part->base.rank);
  *out = &part->base;
  return MK_OK;
out:
  if (part != NULL) nccl_destroy(&part->base);
  return st;
}

static mk_status nccl_poll(mt_comm *comm) {
  const mt_nccl_comm *c = (const mt_nccl_comm *)comm;
  ncclResult_t state = ncclSuccess;
  MT_NCCL(comm->ctx, c->native, ncclCommGetAsyncError(c->native, &state));
  if (state != ncclSuccess && state != ncclInProgress) {
    return mt_nccl_fail(comm->ctx, c->native, state, comm->purpose, __FILE__, __LINE__);
  }
  return mt_comm_poll(c->control);
}

/* Kernels of this rank that wait for peers are ended first; then the launcher ends all ranks. */
static void nccl_abort(mt_comm *comm, int code) {
  mt_nccl_comm *c = (mt_nccl_comm *)comm;
  if (c->native != NULL) ncclCommAbort(c->native);
  c->native = NULL;
  mt_comm_abort(c->control, code);
}

static const mt_comm_ops nccl_ops = {
    .name = "nccl",
    .all_reduce = mt_nccl_all_reduce,
    .all_gather = mt_nccl_all_gather,
    .reduce_scatter = mt_nccl_reduce_scatter,
    .all_to_all = mt_nccl_all_to_all,
    .all_to_all_v = mt_nccl_all_to_all_v,
    .broadcast = mt_nccl_broadcast,
    .send = mt_nccl_send,
    .recv = mt_nccl_recv,
    .barrier = mt_nccl_barrier,
    .group_begin = mt_nccl_group_begin,
    .group_end = mt_nccl_group_end,
    .split = nccl_split,
    .window_create = mt_nccl_window_create,
    .window_destroy = mt_nccl_window_destroy,
    .poll = nccl_poll,
    .abort = nccl_abort,
    .destroy = nccl_destroy,
};
