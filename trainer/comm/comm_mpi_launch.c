/* Start and end of MPI. Before MPI_Init the two things are settled that otherwise end in obscure failures: too little
 * shared memory, and containers that bar copies between processes (process_vm_readv). */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "kernels/base/heap.h"
#include "trainer/comm/comm_mpi.h"
#include "trainer/comm/shm.h"

/* Open MPI 4.1 maps one segment a rank (`ompi_info --param btl vader --level 9`: btl_vader_segment_size). */
enum { SEGMENT_BYTES = 4 << 20 };

/* Polls without progress before the processor is yielded: about a millisecond where every rank has a core of its own.
 */
enum { SPIN_ALONE = 2000, SPIN_SHARED = 20 };

static int env_count(const char *name) {
  const char *text = getenv(name);
  long value = text != NULL ? strtol(text, NULL, 10) : 1;
  return value >= 1 && value <= MT_MAX_RANKS ? (int)value : 1;
}

/* Reads one own byte through the call that Open MPI uses between ranks; sandboxes that bar it bar it here too, and Open
 * MPI does not notice before the first large message. */
static bool copies_between_processes(void) {
  char from = 1, to = 0;
  struct iovec local = {&to, 1}, remote = {&from, 1};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

static mk_status prepare(mk_context *ctx) {
  int local = env_count("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (local > 1) {
    size_t needed = (size_t)local * SEGMENT_BYTES;
    MK_TRY(ctx, mt_shm_check(ctx, "shared memory between ranks", needed, mt_shm_free_bytes()));
  }
  if (!copies_between_processes()) setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
  return MK_OK;
}

static mk_status init_mpi(mk_context *ctx, mt_mpi_job *job, bool threaded) {
  int initialised = 0, finalised = 0, level = 0;
  MPI_Finalized(&finalised);
  MK_CHECK(ctx, !finalised, MK_ERR_UNSUPPORTED, "MPI has ended in this process and cannot be started again");
  MPI_Initialized(&initialised);
  int needed = threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED;
  if (initialised) {
    MT_MPI(ctx, MPI_Query_thread(&level));
  } else {
    MK_TRY(ctx, prepare(ctx));
    MT_MPI(ctx, MPI_Init_thread(NULL, NULL, needed, &level));
    job->owns_mpi = true;
  }
  MK_CHECK(ctx, level >= needed, MK_ERR_UNSUPPORTED, "this MPI gives thread level %d but %d is needed", level, needed);
  MT_MPI(ctx, MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  return MK_OK;
}

/* Ranks that have a core each keep it while they wait. */
static int choose_spin_polls(int local_ranks) {
  cpu_set_t cpus;
  int n = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
  return local_ranks <= n ? SPIN_ALONE : SPIN_SHARED;
}

static mk_status open_node(mk_context *ctx, MPI_Comm world, mt_mpi_job *job) {
  int local = 0;
  MT_MPI(ctx, MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &job->node));
  MT_MPI(ctx, MPI_Comm_size(job->node, &local));
  job->spin_polls = choose_spin_polls(local);
  return MK_OK;
}

/* Finalising waits for all ranks: left out when one of them cannot come any more, or may not because this one has
 * failed. The launcher then sees a rank end without it and ends the others. */
void mt_mpi_job_release(mk_context *ctx, mt_mpi_job *job) {
  job->users -= 1;
  if (job->users > 0) return;
  bool healthy = !job->stuck && ctx->error.status == MK_OK;
  if (healthy && job->node != MPI_COMM_NULL) MPI_Comm_free(&job->node);
  if (healthy && job->owns_mpi) MPI_Finalize();
  mk_heap_free(ctx, job);
}

/* The first line in which two texts differ. */
static void first_difference(const char *own, const char *theirs, int rank, char *out, size_t bytes) {
  size_t at = 0, line = 0;
  for (; own[at] == theirs[at] && own[at] != '\0'; at++)
    if (own[at] == '\n') line = at + 1;
  snprintf(out, bytes, "rank %d was started with %.*s, rank 0 with %.*s; start all ranks with the same keys", rank,
           (int)strcspn(own + line, "\n"), own + line, (int)strcspn(theirs + line, "\n"), theirs + line);
}

/* Ranks of different runs would wait for each other, or take each other's messages for their own. The lowest rank that
 * differs tells all. */
static mk_status check_alike(mk_context *ctx, MPI_Comm world, const char *own) {
  mk_status st = MK_OK;
  char *first = NULL, message[MK_MESSAGE_BYTES] = "";
  int rank = 0, size = 0, bytes = (int)strlen(own) + 1, differs = 0, lowest = 0;
  MT_MPI(ctx, MPI_Comm_rank(world, &rank));
  MT_MPI(ctx, MPI_Comm_size(world, &size));
  MT_MPI(ctx, MPI_Bcast(&bytes, 1, MPI_INT, 0, world));
  MK_TRY(ctx, mk_heap_array(ctx, (size_t)bytes, sizeof *first, &first));
  if (rank == 0) memcpy(first, own, (size_t)bytes);
  MT_MPI_GOTO(ctx, MPI_Bcast(first, bytes, MPI_CHAR, 0, world), out);
  differs = strcmp(own, first) == 0 ? size : rank;
  if (differs < size) first_difference(own, first, rank, message, sizeof message);
  MT_MPI_GOTO(ctx, MPI_Allreduce(&differs, &lowest, 1, MPI_INT, MPI_MIN, world), out);
  if (lowest < size) {
    MT_MPI_GOTO(ctx, MPI_Bcast(message, sizeof message, MPI_CHAR, lowest, world), out);
    st = MK_FAIL(ctx, MK_ERR_CONFIG, "%s", message);
  }
out:
  mk_heap_free(ctx, first);
  return st;
}

mk_status mt_comm_mpi_create(mk_context *ctx, const mt_comm_mpi_config *config, mt_comm **out) {
  mt_mpi_job *job = NULL;
  mt_mpi_comm *world = NULL;
  MPI_Comm mpi = MPI_COMM_NULL;
  int size = 0;
  mk_status st = MK_OK;
  MK_CHECK(ctx, config->timeout_s >= 0, MK_ERR_CONFIG, "communication timeout of %g s is negative", config->timeout_s);
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *job, &job));
  job->users = 1;
  job->node = MPI_COMM_NULL;
  job->timeout_s = config->timeout_s;
  MK_TRY_GOTO(ctx, init_mpi(ctx, job, config->threaded), out);
  MT_MPI_GOTO(ctx, MPI_Comm_size(MPI_COMM_WORLD, &size), out);
  MK_CHECK_GOTO(ctx, size <= MT_MAX_RANKS, MK_ERR_CONFIG, out, "%d ranks: at most %d", size, (int)MT_MAX_RANKS);
  MK_TRY_GOTO(ctx, open_node(ctx, MPI_COMM_WORLD, job), out);
  if (config->alike != NULL) MK_TRY_GOTO(ctx, check_alike(ctx, MPI_COMM_WORLD, config->alike), out);
  MT_MPI_GOTO(ctx, MPI_Comm_dup(MPI_COMM_WORLD, &mpi), out);
  MK_TRY_GOTO(ctx, mt_mpi_open(ctx, job, mpi, "world", &world), out);
  ctx->rank = world->base.rank;
  ctx->ranks = world->base.size;
  *out = &world->base;
out:
  mt_mpi_job_release(ctx, job); /* the world holds it now, or nobody does */
  return st;
}
