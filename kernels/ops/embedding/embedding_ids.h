/* Token ids come from files, so backends that can look at them check them before they index with them. */
#ifndef KERNELS_OPS_EMBEDDING_EMBEDDING_IDS_H
#define KERNELS_OPS_EMBEDDING_EMBEDDING_IDS_H

#include "kernels/device/device.h"

/* Fails with MK_ERR_ARG, naming the first id outside [0, vocab) and its token. */
static inline mk_status mk_embedding_check_ids(mk_stream *stream, const char *op, const mk_tensor *ids, int64_t vocab) {
  const int32_t *id = (const int32_t *)ids->data;
  for (int64_t t = 0; t < ids->dim[0]; t++) {
    MK_CHECK(stream->dev->ctx, id[t] >= 0 && id[t] < vocab, MK_ERR_ARG,
             "%s: token %lld has id %d, outside the vocabulary of %lld", op, (long long)t, (int)id[t],
             (long long)vocab);
  }
  return MK_OK;
}

#endif
