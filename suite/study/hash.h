/* SHA-256 as hex text (OpenSSL EVP). */
#ifndef SUITE_STUDY_HASH_H
#define SUITE_STUDY_HASH_H

#include "kernels/base/status.h"

enum { MS_HASH_BYTES = 65 };

/* 64 lower-case hex digits and a NUL into out. */
mk_status ms_hash_bytes(mk_context *ctx, const void *data, size_t bytes, char out[MS_HASH_BYTES]);

/* The same of a file's content. */
mk_status ms_hash_file(mk_context *ctx, const char *path, char out[MS_HASH_BYTES]);

#endif
