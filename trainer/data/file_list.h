/* The files that data_path names. */
#ifndef TRAINER_DATA_FILE_LIST_H
#define TRAINER_DATA_FILE_LIST_H

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `text`: names or patterns (* ? [...]), separated by commas. Names in the order given, the matches of a pattern in
 * byte order; what exists under a name as it stands is no pattern. MK_ERR_IO where a pattern matches nothing. Free with
 * mt_file_list_free. */
mk_status mt_file_list_make(mk_context *ctx, const char *text, char ***paths, size_t *count);
void mt_file_list_free(mk_context *ctx, char **paths, size_t count);

#ifdef __cplusplus
}
#endif

#endif
