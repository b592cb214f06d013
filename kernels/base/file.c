/* Files through POSIX calls, so that every failure has its errno text. */
#include "kernels/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/heap.h"

/* O_NONBLOCK: opening a pipe that nobody writes to would wait for ever. It does nothing to regular files. */
mk_status mk_file_open(mk_context *ctx, const char *key, const char *path, int *fd, int64_t *bytes) {
  mk_status st = MK_OK;
  struct stat info;
  const char *sep = key != NULL ? ": " : "";
  if (key == NULL) key = "";
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  MK_CHECK(ctx, file >= 0, MK_ERR_IO, "%s%s%s: cannot open: %s", key, sep, path, strerror(errno));
  MK_CHECK_GOTO(ctx, fstat(file, &info) == 0, MK_ERR_IO, out, "%s%s%s: cannot stat: %s", key, sep, path,
                strerror(errno));
  MK_CHECK_GOTO(ctx, S_ISREG(info.st_mode), MK_ERR_IO, out, "%s%s%s: not a regular file%s", key, sep, path,
                S_ISDIR(info.st_mode) ? " but a folder" : "");
  *fd = file;
  *bytes = (int64_t)info.st_size;
  return MK_OK;
out:
  close(file);
  return st;
}

mk_status mk_file_read_at(mk_context *ctx, const char *path, int fd, void *out, int64_t bytes, int64_t offset) {
  char *to = out;
  while (bytes > 0) {
    ssize_t got = pread(fd, to, (size_t)bytes, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    MK_CHECK(ctx, got >= 0, MK_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    MK_CHECK(ctx, got > 0, MK_ERR_IO, "%s: file ended at byte %lld; it has shrunk since it was opened", path,
             (long long)offset);
    to += got;
    bytes -= got;
    offset += got;
  }
  return MK_OK;
}

mk_status mk_file_read(mk_context *ctx, const char *path, char **out, size_t *bytes) {
  mk_status st = MK_OK;
  char *data = NULL;
  int fd = -1;
  int64_t size = 0;
  MK_TRY(ctx, mk_file_open(ctx, NULL, path, &fd, &size));
  MK_TRY_GOTO(ctx, mk_heap_alloc(ctx, (size_t)size + 1, &data), out);
  MK_TRY_GOTO(ctx, mk_file_read_at(ctx, path, fd, data, size, 0), out);
  *out = data;
  *bytes = (size_t)size;
  data = NULL;
out:
  mk_heap_free(ctx, data);
  close(fd);
  return st;
}

static mk_status write_all(mk_context *ctx, const char *path, int fd, const char *data, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    ssize_t put = write(fd, data + done, bytes - done);
    if (put < 0 && errno == EINTR) continue;
    MK_CHECK(ctx, put > 0, MK_ERR_OUTPUT, "%s: cannot write %zu bytes: %s", path, bytes, strerror(errno));
    done += (size_t)put;
  }
  MK_CHECK(ctx, fsync(fd) == 0, MK_ERR_OUTPUT, "%s: cannot sync: %s", path, strerror(errno));
  return MK_OK;
}

/* A rename puts a file even in the place of a device: /dev/null would be one for everybody. */
mk_status mk_file_replaceable(mk_context *ctx, const char *path) {
  struct stat info;
  MK_CHECK(ctx, path[0] != '\0', MK_ERR_OUTPUT, "the name of the file to be written is empty; give one");
  if (stat(path, &info) != 0) return MK_OK;
  MK_CHECK(ctx, S_ISREG(info.st_mode), MK_ERR_OUTPUT, "%s: exists and is not a regular file%s; give another name", path,
           S_ISDIR(info.st_mode) ? " but a folder" : "");
  return MK_OK;
}

mk_status mk_file_write(mk_context *ctx, const char *path, const void *data, size_t bytes) {
  mk_status st = MK_OK;
  char *temporary = NULL;
  int fd = -1;
  MK_TRY(ctx, mk_file_replaceable(ctx, path));
  MK_TRY_GOTO(ctx, mk_heap_printf(ctx, &temporary, "%s.tmp%ld", path, (long)getpid()), out);
  fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  MK_CHECK_GOTO(ctx, fd >= 0, MK_ERR_OUTPUT, out, "%s: cannot create: %s", path, strerror(errno));
  MK_TRY_GOTO(ctx, write_all(ctx, path, fd, data, bytes), out);
  MK_CHECK_GOTO(ctx, rename(temporary, path) == 0, MK_ERR_OUTPUT, out, "%s: cannot rename into place: %s", path,
                strerror(errno));
out:
  if (fd >= 0) close(fd);
  if (st != MK_OK && fd >= 0) unlink(temporary);
  mk_heap_free(ctx, temporary);
  return st;
}
