/* fork, exec and a loop around poll(signalfd): woken by SIGCHLD and by requests to stop, twice a second otherwise. */
#include "suite/run/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernels/base/heap.h"
#include "suite/run/process_tree.h"

struct ms_supervisor {
  int fd;
  sigset_t old_mask;
  int old_subreaper;
  bool interrupted;
};

enum { TICK_MS = 500 };
static const double TERM_S = 3.0;  /* from SIGTERM to SIGKILL */
static const double KILL_S = 6.0;  /* then this long until we give up waiting */
static const double LEAVE_S = 0.5; /* for helpers of a leader that has ended by itself */

/* What the trainer hears besides its arguments; a launch is what its run.json says, whatever the caller holds. */
static const char *const TRAINER_VARIABLES[] = {"MOEMARK_SET", "MOEMARK_CONFIG", "MOEMARK_OUT", "MOEMARK_RESUME", NULL};

double ms_wall_now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

mk_status ms_supervisor_create(mk_context *ctx, ms_supervisor **out) {
  ms_supervisor *s = NULL;
  sigset_t mask;
  sigemptyset(&mask);
  const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD};
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
    sigaddset(&mask, signals[i]);
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *s, &s));
  s->fd = -1;
  sigprocmask(SIG_BLOCK, &mask, &s->old_mask);
  prctl(PR_GET_CHILD_SUBREAPER, &s->old_subreaper, 0, 0, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  s->fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  if (s->fd < 0) {
    mk_status st = MK_FAIL(ctx, MK_ERR_DEVICE, "cannot watch signals: %s", strerror(errno));
    ms_supervisor_destroy(ctx, s);
    return st;
  }
  *out = s;
  return MK_OK;
}

/* Empties the signalfd and notes a request to stop. */
static void signals_read(ms_supervisor *s) {
  struct signalfd_siginfo info;
  while (read(s->fd, &info, sizeof info) == (ssize_t)sizeof info) {
    if (info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP) s->interrupted = true;
  }
}

bool ms_supervisor_interrupted(ms_supervisor *s) {
  signals_read(s);
  return s->interrupted;
}

void ms_supervisor_destroy(mk_context *ctx, ms_supervisor *s) {
  if (s == NULL) return;
  if (s->fd >= 0) {
    signals_read(s);
    close(s->fd);
  }
  prctl(PR_SET_CHILD_SUBREAPER, s->old_subreaper, 0, 0, 0);
  sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
  mk_heap_free(ctx, s);
}

/* In the child, between fork and exec. If we die, it is told to stop. Exit code 127: the program did not start. */
__attribute__((noreturn)) static void child_exec(const ms_supervisor *s, const ms_child *child, int out, int err) {
  int nothing = open("/dev/null", O_RDONLY);
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
  for (int i = 0; TRAINER_VARIABLES[i] != NULL; i++)
    unsetenv(TRAINER_VARIABLES[i]);
  for (const char *const *e = child->env; e != NULL && *e != NULL; e++)
    putenv((char *)(uintptr_t)*e);
  dup2(nothing, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
  execvp(child->argv[0], child->argv);
  _exit(127);
}

static mk_status child_start(mk_context *ctx, const ms_supervisor *s, const ms_child *child, pid_t *out) {
  mk_status st = MK_OK;
  int out_fd = open(child->out_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  int err_fd = open(child->err_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  MK_CHECK_GOTO(ctx, out_fd >= 0 && err_fd >= 0, MK_ERR_OUTPUT, out, "%s: cannot create: %s",
                out_fd < 0 ? child->out_path : child->err_path, strerror(errno));
  pid_t pid = fork();
  MK_CHECK_GOTO(ctx, pid >= 0, MK_ERR_DEVICE, out, "cannot start a process: %s", strerror(errno));
  if (pid == 0) child_exec(s, child, out_fd, err_fd);
  *out = pid;
out:
  if (out_fd >= 0) close(out_fd);
  if (err_fd >= 0) close(err_fd);
  return st;
}

/* Reaps every dead child and orphan; true when `leader` was among them. */
static bool reap(pid_t leader, ms_child_end *end) {
  bool gone = false;
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (pid != leader) continue;
    gone = true;
    end->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    end->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  return gone;
}

/* SIGTERM (and SIGCONT, for stopped ones) to the tree, SIGKILL after TERM_S; waits until nothing is left. Time is
 * counted in our own rounds: a pause of this process, or of the whole machine, is nobody's delay. */
static mk_status tree_end(mk_context *ctx, pid_t leader, bool *leader_gone, ms_child_end *end) {
  const double round_s = 0.02;
  int left = 0;
  MK_TRY(ctx, ms_tree_signal(ctx, SIGTERM, &left));
  MK_TRY(ctx, ms_tree_signal(ctx, SIGCONT, &left));
  for (double waited_s = 0; waited_s < TERM_S + KILL_S; waited_s += round_s) {
    if (reap(leader, end)) *leader_gone = true;
    MK_TRY(ctx, ms_tree_signal(ctx, waited_s > TERM_S ? SIGKILL : 0, &left));
    if (left == 0) break;
    nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * round_s)}, NULL);
  }
  if (reap(leader, end)) *leader_gone = true;
  MK_CHECK(ctx, left == 0 && *leader_gone, MK_ERR_DEVICE, "%d processes of this launch could not be killed", left);
  return MK_OK;
}

/* What the child has shown so far. */
typedef struct silence {
  int64_t seen;
  double asked_s;  /* when it was last asked */
  double silent_s; /* without progress, as far as we watched */
} silence;

/* Whether the child has been silent for too long. A round counts at most four ticks: when it took longer we were not
 * running either, and the child perhaps neither (a stopped job, a paused container). */
static bool too_silent(const ms_child *child, double tick_s, silence *s, ms_child_end *end) {
  double now_s = ms_wall_now_s(), round_s = now_s - s->asked_s;
  int64_t progress = child->progress == NULL ? 0 : child->progress(child->user);
  s->silent_s = progress != s->seen ? 0 : s->silent_s + (round_s < 4 * tick_s ? round_s : 4 * tick_s);
  s->seen = progress;
  s->asked_s = now_s;
  end->limit_s = s->seen >= child->first_progress && s->seen > 0 ? child->limit_s : child->first_limit_s;
  return end->limit_s > 0 && s->silent_s > end->limit_s;
}

/* Until the leader ends, or must be ended. */
static bool watch(ms_supervisor *s, const ms_child *child, pid_t leader, ms_child_end *end) {
  silence shown = {.asked_s = ms_wall_now_s()};
  double tick_s = 1e-3 * TICK_MS;
  if (child->limit_s > 0 && child->limit_s < 4 * tick_s) tick_s = child->limit_s / 4;
  for (;;) {
    struct pollfd wait = {.fd = s->fd, .events = POLLIN};
    poll(&wait, 1, (int)(1e3 * tick_s) + 1);
    signals_read(s);
    if (reap(leader, end)) return true;
    end->interrupted = s->interrupted;
    end->timed_out = !s->interrupted && too_silent(child, tick_s, &shown, end);
    if (end->interrupted || end->timed_out) return false;
  }
}

/* Counts what the ended leader left behind and what does not leave by itself within LEAVE_S. */
static mk_status strays_wait(mk_context *ctx, ms_child_end *end) {
  double start = ms_wall_now_s();
  for (;;) {
    reap(0, end);
    MK_TRY(ctx, ms_tree_signal(ctx, 0, &end->strays));
    if (end->strays == 0 || ms_wall_now_s() - start > LEAVE_S) return MK_OK;
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
}

mk_status ms_supervisor_run(mk_context *ctx, ms_supervisor *s, const ms_child *child, ms_child_end *out) {
  ms_child_end end = {0};
  pid_t leader = 0;
  double start = ms_wall_now_s();
  MK_TRY(ctx, child_start(ctx, s, child, &leader));
  bool gone = watch(s, child, leader, &end);
  if (gone) MK_TRY(ctx, strays_wait(ctx, &end));
  if (!gone || end.strays > 0) {
    bool known = gone;
    ms_child_end first = end; /* the code of a leader that has ended by itself stays */
    MK_TRY(ctx, tree_end(ctx, leader, &gone, &end));
    if (known) end = first;
  }
  if (child->progress != NULL) child->progress(child->user);
  end.wall_s = ms_wall_now_s() - start;
  *out = end;
  return MK_OK;
}
