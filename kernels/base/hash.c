/* See hash.h. */
#include "kernels/base/hash.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/heap.h"

enum { PIECE_BYTES = 1 << 20 };

struct mk_hash {
  mk_context *ctx;
  EVP_MD_CTX *evp;
};

mk_status mk_hash_create(mk_context *ctx, mk_hash **out) {
  mk_status st = MK_OK;
  mk_hash *hash = NULL;
  MK_TRY(ctx, mk_heap_alloc(ctx, sizeof *hash, &hash));
  hash->ctx = ctx;
  hash->evp = EVP_MD_CTX_new();
  MK_CHECK_GOTO(ctx, hash->evp != NULL && EVP_DigestInit_ex(hash->evp, EVP_sha256(), NULL) == 1, MK_ERR_UNSUPPORTED,
                out, "SHA-256 is not available in this OpenSSL");
  *out = hash;
  hash = NULL;
out:
  mk_hash_destroy(hash);
  return st;
}

void mk_hash_destroy(mk_hash *hash) {
  if (hash == NULL) return;
  EVP_MD_CTX_free(hash->evp);
  mk_heap_free(hash->ctx, hash);
}

mk_status mk_hash_add(mk_hash *hash, const void *data, size_t bytes) {
  MK_CHECK(hash->ctx, EVP_DigestUpdate(hash->evp, data, bytes) == 1, MK_ERR_UNSUPPORTED, "SHA-256 failed in OpenSSL");
  return MK_OK;
}

mk_status mk_hash_end(mk_hash *hash, char out[MK_HASH_BYTES]) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  MK_CHECK(hash->ctx, EVP_DigestFinal_ex(hash->evp, digest, &length) == 1 && length == 32, MK_ERR_UNSUPPORTED,
           "SHA-256 failed in OpenSSL");
  for (unsigned int i = 0; i < length; i++)
    snprintf(out + 2 * i, 3, "%02x", digest[i]);
  return MK_OK;
}

mk_status mk_hash_bytes(mk_context *ctx, const void *data, size_t bytes, char out[MK_HASH_BYTES]) {
  mk_status st = MK_OK;
  mk_hash *hash = NULL;
  MK_TRY_GOTO(ctx, mk_hash_create(ctx, &hash), out);
  MK_TRY_GOTO(ctx, mk_hash_add(hash, data, bytes), out);
  MK_TRY_GOTO(ctx, mk_hash_end(hash, out), out);
out:
  mk_hash_destroy(hash);
  return st;
}

static mk_status add_file(mk_hash *hash, const char *path, int fd, char *piece) {
  for (;;) {
    ssize_t got = read(fd, piece, PIECE_BYTES);
    if (got < 0 && errno == EINTR) continue;
    MK_CHECK(hash->ctx, got >= 0, MK_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    if (got == 0) return MK_OK;
    MK_TRY(hash->ctx, mk_hash_add(hash, piece, (size_t)got));
  }
}

mk_status mk_hash_file(mk_context *ctx, const char *path, char out[MK_HASH_BYTES]) {
  mk_status st = MK_OK;
  mk_hash *hash = NULL;
  char *piece = NULL;
  int fd = -1;
  int64_t bytes = 0;
  MK_TRY_GOTO(ctx, mk_file_open(ctx, NULL, path, &fd, &bytes), out);
  MK_TRY_GOTO(ctx, mk_heap_alloc(ctx, PIECE_BYTES, &piece), out);
  MK_TRY_GOTO(ctx, mk_hash_create(ctx, &hash), out);
  MK_TRY_GOTO(ctx, add_file(hash, path, fd, piece), out);
  MK_TRY_GOTO(ctx, mk_hash_end(hash, out), out);
out:
  mk_hash_destroy(hash);
  mk_heap_free(ctx, piece);
  if (fd >= 0) close(fd);
  return st;
}
