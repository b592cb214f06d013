/* Whole files in and out. Writing is atomic: a temporary name in the same folder, synced, then renamed. */
#ifndef KERNELS_BASE_FILE_H
#define KERNELS_BASE_FILE_H

#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens a regular file for reading and gives its size. Never blocks, and refuses what is no regular file (a folder, a
 * pipe). MK_ERR_IO names `key` (what named the file: a configuration key; NULL = nothing), the path and the cause. */
mk_status mk_file_open(mk_context *ctx, const char *key, const char *path, int *fd, int64_t *bytes);

/* Fills `out` with the `bytes` from `offset` on of an open file; `path` is for messages. MK_ERR_IO where the disk fails
 * or the file has fewer. */
mk_status mk_file_read_at(mk_context *ctx, const char *path, int fd, void *out, int64_t bytes, int64_t offset);

/* The file's bytes in a fresh heap block, NUL-terminated beyond `bytes`. MK_ERR_IO names the path and the cause. */
mk_status mk_file_read(mk_context *ctx, const char *path, char **out, size_t *bytes);

/* MK_ERR_OUTPUT where a rename to `path` would not replace a regular file or make a new one: an empty name, a folder, a
 * device, a pipe. For what takes long before it is written: ask at the start. */
mk_status mk_file_replaceable(mk_context *ctx, const char *path);

/* Replaces `path` by `bytes` of `data`; on failure (disk full, no permission) the old file is untouched.
 * MK_ERR_OUTPUT. */
mk_status mk_file_write(mk_context *ctx, const char *path, const void *data, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
