/* SHA-256 through OpenSSL's EVP interface. */
#include "suite/study/hash.h"

#include <openssl/evp.h>
#include <stdio.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"

mk_status ms_hash_bytes(mk_context *ctx, const void *data, size_t bytes, char out[MS_HASH_BYTES]) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  MK_CHECK(ctx, EVP_Digest(data, bytes, digest, &length, EVP_sha256(), NULL) == 1 && length == 32, MK_ERR_UNSUPPORTED,
           "SHA-256 is not available in this OpenSSL");
  for (unsigned int i = 0; i < length; i++)
    snprintf(out + 2 * i, 3, "%02x", digest[i]);
  return MK_OK;
}

mk_status ms_hash_file(mk_context *ctx, const char *path, char out[MS_HASH_BYTES]) {
  char *data = NULL;
  size_t bytes = 0;
  MK_TRY(ctx, mk_file_read(ctx, path, &data, &bytes));
  mk_status st = ms_hash_bytes(ctx, data, bytes, out);
  mk_heap_free(ctx, data);
  return st;
}
