/* Where a route's row lies, for the backends that run on the host. */
#ifndef KERNELS_OPS_ROW_EXCHANGE_ROW_PLACE_H
#define KERNELS_OPS_ROW_EXCHANGE_ROW_PLACE_H

#include "kernels/ops/ids.h"
#include "kernels/ops/row_exchange/row_exchange.h"

/* Address of route r's row of row_bytes, or NULL when it was dropped. */
static inline char *mk_row_place(const mk_row_routes *routes, int64_t r, size_t row_bytes) {
  int32_t rank = ((const int32_t *)routes->rank.data)[r], row = ((const int32_t *)routes->row.data)[r];
  if (rank < 0) return NULL;
  char *base = (char *)(uintptr_t)((const int64_t *)routes->peers.data)[rank];
  return base + routes->offset + (size_t)row * row_bytes;
}

static inline mk_status mk_row_routes_check(mk_stream *stream, const char *op, const mk_row_routes *routes) {
  MK_TRY(stream->dev->ctx, mk_ids_check(stream, op, "rank", &routes->rank, -1, routes->peers.dim[0]));
  MK_TRY(stream->dev->ctx, mk_ids_check(stream, op, "row", &routes->row, -1, routes->rows));
  const int32_t *rank = (const int32_t *)routes->rank.data, *row = (const int32_t *)routes->row.data;
  int64_t n = mk_tensor_count(&routes->rank), at = 0;
  int32_t rowless = 0;
  for (int64_t r = 0; r < n; r++)
    rowless |= rank[r] >= 0 && row[r] < 0;
  if (rowless == 0) return MK_OK;
  while (rank[at] < 0 || row[at] >= 0)
    at++;
  return MK_FAIL(stream->dev->ctx, MK_ERR_ARG,
                 "%s: route %lld goes to rank %d, but its row is -1; give dropped routes rank -1", op, (long long)at,
                 rank[at]);
}

#endif
