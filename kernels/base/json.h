/* JSON objects from texts and files. */
#ifndef KERNELS_BASE_JSON_H
#define KERNELS_BASE_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

struct cJSON;

#ifdef __cplusplus
extern "C" {
#endif

/* The object that `text` (NUL-terminated beyond `bytes`) holds and nothing else; cJSON_Delete() frees it. `code` where
 * it is none: the message names `where`, line and column. A NUL, bare or as \u0000, is refused too, because cJSON ends
 * a string there. */
mk_status mk_json_parse(mk_context *ctx, mk_status code, const char *where, const char *text, size_t bytes,
                        struct cJSON **out);

/* No key stands twice, neither in the object nor inside it; cJSON answers with the first. For objects of few keys. The
 * message begins with `where`. */
mk_status mk_json_check_keys(mk_context *ctx, mk_status code, const char *where, const struct cJSON *object);

/* Both, for line `line` of a file of objects, one a line: `bytes` of it without its line break, and no NUL needed
 * beyond. */
mk_status mk_json_parse_line(mk_context *ctx, mk_status code, const char *where, int64_t line, const char *text,
                             size_t bytes, struct cJSON **out);

/* The object in a file. MK_ERR_IO where it cannot be read, else as above with MK_ERR_FORMAT. */
mk_status mk_json_read(mk_context *ctx, const char *path, struct cJSON **out);

#ifdef __cplusplus
}
#endif

#endif
