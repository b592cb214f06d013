/* What a file is, without reading all of it: size, first and last MiB. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "trainer/data/source.h"

enum { END_BYTES = 1 << 20 };

static mk_status add_piece(mk_context *ctx, mk_hash *hash, const char *path, int fd, int64_t offset, int64_t bytes,
                           char *piece) {
  while (bytes > 0) {
    ssize_t got = pread(fd, piece, (size_t)bytes, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    MK_CHECK(ctx, got > 0, MK_ERR_IO, "%s: cannot read byte %lld: %s", path, (long long)offset,
             got < 0 ? strerror(errno) : "the file has shrunk");
    MK_TRY(ctx, mk_hash_add(hash, piece, (size_t)got));
    offset += got;
    bytes -= got;
  }
  return MK_OK;
}

mk_status mt_source_hash_file(mk_context *ctx, mk_hash *hash, const char *path) {
  mk_status st = MK_OK;
  char *piece = NULL;
  int fd = -1;
  int64_t bytes = 0;
  MK_TRY_GOTO(ctx, mk_file_open(ctx, "data_path", path, &fd, &bytes), out);
  MK_TRY_GOTO(ctx, mk_heap_alloc(ctx, END_BYTES, &piece), out);
  int64_t first = bytes < END_BYTES ? bytes : END_BYTES;
  MK_TRY_GOTO(ctx, mk_hash_add(hash, &bytes, sizeof bytes), out);
  MK_TRY_GOTO(ctx, add_piece(ctx, hash, path, fd, 0, first, piece), out);
  MK_TRY_GOTO(ctx, add_piece(ctx, hash, path, fd, bytes - first, first, piece), out);
out:
  mk_heap_free(ctx, piece);
  if (fd >= 0) close(fd);
  return st;
}
