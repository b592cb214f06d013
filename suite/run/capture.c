/* The output goes to an anonymous file in memory (memfd), so that nothing is left on disk. */
#include "suite/run/capture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/heap.h"
#include "suite/run/tools.h"

static mk_status memory_file_read(mk_context *ctx, int fd, char **out) {
  struct stat info;
  char *text = NULL;
  MK_CHECK(ctx, fstat(fd, &info) == 0, MK_ERR_DEVICE, "cannot read a program's output: %s", strerror(errno));
  MK_TRY(ctx, mk_heap_alloc(ctx, (size_t)info.st_size + 1, &text));
  ssize_t got = pread(fd, text, (size_t)info.st_size, 0);
  text[got < 0 ? 0 : got] = '\0';
  *out = text;
  return MK_OK;
}

mk_status ms_capture(mk_context *ctx, ms_supervisor *supervisor, char *const *argv, double limit_s, char **out,
                     int *code) {
  mk_status st = MK_OK;
  char path[64];
  ms_child_end end;
  int fd = memfd_create("moemark-capture", MFD_CLOEXEC);
  MK_CHECK(ctx, fd >= 0, MK_ERR_DEVICE, "memfd_create: %s", strerror(errno));
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  ms_child child = {.argv = argv, .out_path = path, .err_path = "/dev/null", .first_limit_s = limit_s};
  MK_TRY_GOTO(ctx, ms_supervisor_run(ctx, supervisor, &child, &end), out);
  MK_TRY_GOTO(ctx, memory_file_read(ctx, fd, out), out);
  *code = end.timed_out ? -1 : end.code;
out:
  close(fd);
  return st;
}

mk_status ms_mpi_version(mk_context *ctx, ms_supervisor *supervisor, char *out, size_t bytes) {
  char path[MS_PATH_BYTES];
  char option[] = "--version";
  out[0] = '\0';
  if (!ms_tool_find("mpirun", path)) return MK_OK;
  char *argv[] = {path, option, NULL};
  char *text = NULL;
  int code = 0;
  MK_TRY(ctx, ms_capture(ctx, supervisor, argv, 10, &text, &code));
  if (code == 0) snprintf(out, bytes, "%.*s", (int)strcspn(text, "\n"), text);
  mk_heap_free(ctx, text);
  return MK_OK;
}
