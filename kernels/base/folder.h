/* Folders: making them, what is in them, taking them away, and making what happened to them last. */
#ifndef KERNELS_BASE_FOLDER_H
#define KERNELS_BASE_FOLDER_H

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Creates a folder and its parents; an existing one is fine. MK_ERR_OUTPUT when it is not there afterwards or cannot be
 * written to. */
mk_status mk_folder_make(mk_context *ctx, const char *path);

/* Names in a folder that begin with `prefix`, in byte order, without "." and "..". MK_ERR_IO names the folder and the
 * cause. Free with mk_folder_names_free. */
mk_status mk_folder_names(mk_context *ctx, const char *path, const char *prefix, char ***names, size_t *count);
void mk_folder_names_free(mk_context *ctx, char **names, size_t count);

/* Removes a folder and the files in it; folders inside are refused. A folder that is not there is fine. */
mk_status mk_folder_remove(mk_context *ctx, const char *path);

/* Renames; the new name must be free or a file. MK_ERR_OUTPUT names both. */
mk_status mk_path_move(mk_context *ctx, const char *from, const char *to);

/* Names made, moved and removed in the folder survive a power cut from here on. MK_ERR_OUTPUT. */
mk_status mk_folder_sync(mk_context *ctx, const char *path);

#ifdef __cplusplus
}
#endif

#endif
