/* Where data is found: beside the study file, in the source tree or the installed data folder; never in the current
 * folder. A source tree is the folder above the running program that holds experiments/ and suite/models/, or the one
 * that was configured; the installed folder is ../share/moemark as seen from the program. */
#ifndef SUITE_STUDY_PATHS_H
#define SUITE_STUDY_PATHS_H

#include "kernels/base/status.h"

enum { MS_PATH_BYTES = 4096 };

/* First existing of <folder>/<relative>, <source tree>/<relative>, <share/moemark>/<relative>; an absolute path is
 * itself. `folder` may be NULL. MK_ERR_IO names the path and the places that were tried. */
mk_status ms_path_find(mk_context *ctx, const char *folder, const char *relative, char out[MS_PATH_BYTES]);

/* The same for what is more than a name: `exists` says whether a path is one that counts. */
typedef mk_status ms_path_exists_fn(mk_context *ctx, const char *path, bool *out);
mk_status ms_path_search(mk_context *ctx, const char *folder, const char *relative, ms_path_exists_fn *exists,
                         char out[MS_PATH_BYTES]);

/* The data folder itself: the source tree, else share/moemark. */
mk_status ms_path_data_root(mk_context *ctx, char out[MS_PATH_BYTES]);

/* Folder part of a path: "." when it has none. */
void ms_path_folder(const char *path, char out[MS_PATH_BYTES]);

/* Joins; MK_ERR_CONFIG when the result is too long. */
mk_status ms_path_join(mk_context *ctx, const char *folder, const char *name, char out[MS_PATH_BYTES]);

#endif
