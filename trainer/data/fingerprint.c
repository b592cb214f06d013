/* What a file is, without reading all of it: size, first and last MiB. */
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"
#include "trainer/data/source.h"

enum { END_BYTES = 1 << 20 };

static mk_status add_piece(mk_context *ctx, mk_hash *hash, const char *path, int fd, int64_t offset, int64_t bytes,
                           char *piece) {
  MK_TRY(ctx, mk_file_read_at(ctx, path, fd, piece, bytes, offset));
  return mk_hash_add(hash, piece, (size_t)bytes);
}

mk_status mt_source_hash_file(mk_context *ctx, mk_hash *hash, const char *key, const char *path) {
  mk_status st = MK_OK;
  char *piece = NULL;
  int fd = -1;
  int64_t bytes = 0;
  MK_TRY_GOTO(ctx, mk_file_open(ctx, key, path, &fd, &bytes), out);
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
