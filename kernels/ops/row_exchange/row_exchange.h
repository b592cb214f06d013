/* One-sided row exchange: rows go straight into, and come straight from, buffers of the peers of a group.
 *
 * `peers` is the table of the peers' base addresses as seen from here; a buffer starts `offset` bytes after each base
 * (the layout is the same on all ranks). Route r = t*K + k names (rank, row); rank -1 is a dropped route.
 * put: row t of x [T,D] (or row r of x [T*K,D]) -> the named row of each kept route; with weights
 * cast(x[t] * cast(w[t,k])), as the backward of combine. get: the named row -> out[r]; rows of dropped routes become
 * zero. Without weights rows are copied byte for byte: of a float dtype, or u8. sum: y[t] = sum_k named row (+ add), in
 * k order, FP32 sums, rounded once, as the backward of permute. None waits or tells anyone: barriers on the stream do
 * (Olmo-core 3.0.0 olmo_core/kernels/symm_mem_vdev2d.py). */
#ifndef KERNELS_OPS_ROW_EXCHANGE_ROW_EXCHANGE_H
#define KERNELS_OPS_ROW_EXCHANGE_ROW_EXCHANGE_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_row_routes {
  mk_tensor rank;  /* i32 [T,K]; -1 = dropped */
  mk_tensor row;   /* i32 [T,K] in [0, rows); where the route is dropped, -1 too */
  mk_tensor peers; /* i64 [R] base addresses */
  int64_t offset;  /* bytes from a base to the buffer */
  int64_t rows;    /* rows of the buffer */
} mk_row_routes;

typedef struct mk_row_put_args {
  mk_tensor x; /* [T,D]: each kept route of t gets row t; or [T*K,D]: route r gets row r */
  mk_row_routes routes;
  mk_tensor weights; /* optional f32 [T,K], with x [T,D] */
} mk_row_put_args;

typedef struct mk_row_get_args {
  mk_row_routes routes;
  mk_tensor out; /* out [T*K,D] */
} mk_row_get_args;

typedef struct mk_row_sum_args {
  mk_row_routes routes;
  mk_tensor add; /* optional [T,D], added in FP32; may alias y */
  mk_tensor y;   /* out [T,D] */
} mk_row_sum_args;

mk_status mk_row_put(mk_stream *stream, const mk_row_put_args *args);
mk_status mk_row_get(mk_stream *stream, const mk_row_get_args *args);
mk_status mk_row_sum(mk_stream *stream, const mk_row_sum_args *args);

#ifdef __cplusplus
}
#endif

#endif
