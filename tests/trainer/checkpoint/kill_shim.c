/* Stands before the C library (LD_PRELOAD) and ends the process with SIGKILL at the n-th call that changes something
 * under one folder. The environment says: MOEMARK_KILL_DIR, a part of the paths that count; MOEMARK_KILL_COUNT, a file
 * that grows by one byte a call, over all processes; MOEMARK_KILL_AT, the n. A write that is the n-th is done half.
 * With MOEMARK_KILL_LOG, a file, each call that succeeds is a line there: write, sync, move, make or remove, and its
 * paths. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* True when this call is the one to end at. */
static int counts(const char *path) {
  const char *part = getenv("MOEMARK_KILL_DIR"), *file = getenv("MOEMARK_KILL_COUNT"), *at = getenv("MOEMARK_KILL_AT");
  if (part == NULL || file == NULL || at == NULL || path == NULL || strstr(path, part) == NULL) return 0;
  int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0 || syscall(SYS_write, fd, "x", 1) != 1) abort();
  long number = (long)lseek(fd, 0, SEEK_CUR);
  close(fd);
  return number == atol(at);
}

/* Path of an open file; empty when there is none. */
static const char *path_of(int fd, char path[PATH_BYTES]) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, PATH_BYTES - 1);
  path[length < 0 ? 0 : length] = '\0';
  return path;
}

static int counts_fd(int fd) {
  char path[PATH_BYTES];
  return counts(path_of(fd, path));
}

static void end(void) { kill(getpid(), SIGKILL); }

static long note(long result, const char *call, const char *path, const char *second) {
  const char *part = getenv("MOEMARK_KILL_DIR"), *file = getenv("MOEMARK_KILL_LOG");
  if (result < 0 || part == NULL || file == NULL || strstr(path, part) == NULL) return result;
  char line[2 * PATH_BYTES + 16];
  int bytes = snprintf(line, sizeof line, "%s %s %s\n", call, path, second);
  int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0 || syscall(SYS_write, fd, line, bytes) != bytes) abort();
  close(fd);
  return result;
}

static long note_fd(long result, const char *call, int fd) {
  char path[PATH_BYTES];
  return note(result, call, path_of(fd, path), "");
}

ssize_t write(int fd, const void *data, size_t bytes) {
  if (!counts_fd(fd)) return note_fd(syscall(SYS_write, fd, data, bytes), "write", fd);
  (void)!syscall(SYS_write, fd, data, bytes / 2);
  end();
  return -1;
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset) {
  if (!counts_fd(fd)) return note_fd(syscall(SYS_pwrite64, fd, data, bytes, offset), "write", fd);
  (void)!syscall(SYS_pwrite64, fd, data, bytes / 2, offset);
  end();
  return -1;
}

int fsync(int fd) {
  if (counts_fd(fd)) end();
  return (int)note_fd(syscall(SYS_fsync, fd), "sync", fd);
}

int rename(const char *from, const char *to) {
  if (counts(to)) end();
  return (int)note(syscall(SYS_rename, from, to), "move", from, to);
}

int mkdir(const char *path, mode_t mode) {
  if (counts(path)) end();
  return (int)note(syscall(SYS_mkdir, path, mode), "make", path, "");
}

int unlink(const char *path) {
  if (counts(path)) end();
  return (int)note(syscall(SYS_unlink, path), "remove", path, "");
}

int rmdir(const char *path) {
  if (counts(path)) end();
  return (int)note(syscall(SYS_rmdir, path), "remove", path, "");
}
