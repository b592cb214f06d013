/* Range check of id tables (experts, rows, labels) for the backends that run on the host: an id that leaves its range
 * would corrupt memory. One vectorised pass. */
#ifndef KERNELS_OPS_IDS_H
#define KERNELS_OPS_IDS_H

#include "kernels/device/device.h"

/* MK_ERR_ARG, naming the first offender, unless every entry of the i32 tensor `table` ("map") lies in [low, end). */
static inline mk_status mk_ids_check(mk_stream *stream, const char *op, const char *name, const mk_tensor *table,
                                     int64_t low, int64_t end) {
  const int32_t *ids = (const int32_t *)table->data;
  int64_t n = mk_tensor_count(table), at = 0;
  int32_t least = INT32_MAX, most = INT32_MIN;
  for (int64_t i = 0; i < n; i++) {
    least = ids[i] < least ? ids[i] : least;
    most = ids[i] > most ? ids[i] : most;
  }
  if (n == 0 || (least >= low && most < end)) return MK_OK;
  while (ids[at] >= low && ids[at] < end)
    at++;
  return MK_FAIL(stream->dev->ctx, MK_ERR_ARG, "%s: entry %lld of %s is %d, expected in [%lld, %lld)", op,
                 (long long)at, name, ids[at], (long long)low, (long long)end);
}

#endif
