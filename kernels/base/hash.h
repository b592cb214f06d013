/* SHA-256 (OpenSSL EVP) as hex text: names of contents, checksums of files. */
#ifndef KERNELS_BASE_HASH_H
#define KERNELS_BASE_HASH_H

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MK_HASH_BYTES = 65 }; /* 64 lower-case hex digits and a NUL */

typedef struct mk_hash mk_hash;

/* A hash that grows piece by piece. */
mk_status mk_hash_create(mk_context *ctx, mk_hash **out);
mk_status mk_hash_add(mk_hash *hash, const void *data, size_t bytes);
mk_status mk_hash_end(mk_hash *hash, char out[MK_HASH_BYTES]); /* nothing may be added afterwards */
void mk_hash_destroy(mk_hash *hash);

/* Of a block of memory; of a file's content, read in pieces (MK_ERR_IO names the file and the cause). */
mk_status mk_hash_bytes(mk_context *ctx, const void *data, size_t bytes, char out[MK_HASH_BYTES]);
mk_status mk_hash_file(mk_context *ctx, const char *path, char out[MK_HASH_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
