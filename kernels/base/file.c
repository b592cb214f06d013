/* Files through POSIX calls, so that every failure has its errno text. */
#include "kernels/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/heap.h"

static mk_status read_all(mk_context *ctx, const char *path, int fd, char *data, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    ssize_t got = read(fd, data + done, bytes - done);
    if (got < 0 && errno == EINTR) continue;
    MK_CHECK(ctx, got >= 0, MK_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    MK_CHECK(ctx, got > 0, MK_ERR_IO, "%s: file ended at byte %zu of %zu while reading", path, done, bytes);
    done += (size_t)got;
  }
  return MK_OK;
}

mk_status mk_file_read(mk_context *ctx, const char *path, char **out, size_t *bytes) {
  mk_status st = MK_OK;
  char *data = NULL;
  struct stat info;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  MK_CHECK(ctx, fd >= 0, MK_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
  MK_CHECK_GOTO(ctx, fstat(fd, &info) == 0, MK_ERR_IO, out, "%s: cannot stat: %s", path, strerror(errno));
  MK_CHECK_GOTO(ctx, S_ISREG(info.st_mode), MK_ERR_IO, out, "%s: not a regular file", path);
  MK_TRY_GOTO(ctx, mk_heap_alloc(ctx, (size_t)info.st_size + 1, &data), out);
  MK_TRY_GOTO(ctx, read_all(ctx, path, fd, data, (size_t)info.st_size), out);
  *out = data;
  *bytes = (size_t)info.st_size;
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
    MK_CHECK(ctx, put > 0, MK_ERR_IO, "%s: cannot write %zu bytes: %s", path, bytes, strerror(errno));
    done += (size_t)put;
  }
  MK_CHECK(ctx, fsync(fd) == 0, MK_ERR_IO, "%s: cannot sync: %s", path, strerror(errno));
  return MK_OK;
}

mk_status mk_file_write(mk_context *ctx, const char *path, const void *data, size_t bytes) {
  mk_status st = MK_OK;
  char *temporary = NULL;
  int fd = -1;
  MK_TRY_GOTO(ctx, mk_heap_printf(ctx, &temporary, "%s.tmp%ld", path, (long)getpid()), out);
  fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  MK_CHECK_GOTO(ctx, fd >= 0, MK_ERR_IO, out, "%s: cannot create: %s", path, strerror(errno));
  MK_TRY_GOTO(ctx, write_all(ctx, path, fd, data, bytes), out);
  MK_CHECK_GOTO(ctx, rename(temporary, path) == 0, MK_ERR_IO, out, "%s: cannot rename into place: %s", path,
                strerror(errno));
out:
  if (fd >= 0) close(fd);
  if (st != MK_OK && fd >= 0) unlink(temporary);
  mk_heap_free(ctx, temporary);
  return st;
}

mk_status mk_folder_make(mk_context *ctx, const char *path) {
  char part[4096];
  MK_CHECK(ctx, strlen(path) < sizeof part && path[0] != '\0', MK_ERR_IO, "folder name '%.100s' is empty or too long",
           path);
  strcpy(part, path);
  for (char *slash = part + 1;; slash++) {
    if (*slash != '/' && *slash != '\0') continue;
    char keep = *slash;
    *slash = '\0';
    MK_CHECK(ctx, mkdir(part, 0755) == 0 || errno == EEXIST, MK_ERR_IO, "%s: cannot create folder: %s", part,
             strerror(errno));
    *slash = keep;
    if (keep == '\0') break;
  }
  struct stat info;
  MK_CHECK(ctx, stat(path, &info) == 0 && S_ISDIR(info.st_mode), MK_ERR_IO, "%s: exists and is not a folder", path);
  return MK_OK;
}
