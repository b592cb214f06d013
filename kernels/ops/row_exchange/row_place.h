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
  return mk_ids_check(stream, op, "row", &routes->row, -1, routes->rows);
}

#endif
